"""Whether flagperf names a rank that is slower by a tenth, how soon, and whether a normal run names nobody.

    python benchmarks/named_ranks.py [ROUNDS [STEPS]]

A round is a run of two ranks on this machine. Each step waits 0.1 s, as for a device (tests/faults/faulty/slow.py), and
trains a small network; after step 200 rank 1 waits longer by a tenth. The normal run has 2,000 steps of this case that
wait 20 ms. With `model=NAME` the normal run is of this tiny case, whose ranks share the processor.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from baseline import FLAGPERF
from limits import say

FAULTS = Path(__file__).parents[1] / "tests" / "faults"
AFTER, LONGER = 200, 0.1  # last normal step, and the share by which the rank is slower then
WITHIN = 50  # steps; the record of the last one comes with the next step that is logged
WAITING = ("--config-dir", str(FAULTS / "conf"), "model=slow", "data_dir=/tmp")


def slow_ranks(*words: str) -> list[dict[str, Any]]:
    """The slow ranks in the result of a run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*FLAGPERF, *words, "nproc=2", f"result_dir={folder}", "run_name=run"]
        environment = {**os.environ, "PYTHONPATH": str(FAULTS), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        (result,) = Path(folder).glob("run/*/round1/result.json")
        return list(json.loads(result.read_text())["slow_ranks"])


def named_after() -> float:
    """Steps from the first slow one to the record that names the rank; infinite where another or no rank is named."""
    words = ("task.rank=1", f"task.share={LONGER}", f"task.after={AFTER}", "max_steps=300")
    ranks = slow_ranks(*WAITING, "task.seconds=0.1", *words)
    if [rank["rank"] for rank in ranks] != [1]:
        return float("inf")
    return float(ranks[0]["first_step"] + WITHIN - 1 - AFTER)


def main(rounds: int, steps: int, *case: str) -> None:
    if rounds:
        counts = [named_after() for _ in range(rounds)]
        print("a rank slower by a tenth was named after steps:", *(f"{count:g}" for count in counts), flush=True)
        say("steps until a rank is named that is slower by a tenth", statistics.median(counts), WITHIN, "steps")
    normal = case or (*WAITING, "task.seconds=0.02")
    named = slow_ranks(*normal, f"max_steps={steps}")
    for rank in named:
        print(
            "named:", {key: rank[key] for key in ("rank", "first_step", "last_step", "excess", "own_time")}, flush=True
        )
    say(f"ranks named in a normal run of {steps:,} steps", len(named), 0, "ranks")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    main(*(numbers + [3, 2000][len(numbers) :]), *(word for word in sys.argv[1:] if not word.isdecimal()))
