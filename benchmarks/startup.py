"""Command to first training step on two ranks: flagperf against the bare torchrun script of benchmarks/bare.

    python benchmarks/startup.py [ROUNDS]

Both read the same sample data with the same batch size, in turns; the median of each is printed, with their difference.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from baseline import FLAGPERF, bare_command, bare_environment, last_json, sample_data

from flagperf import perflog

LIMIT = 1.0  # seconds above the bare script


def bare() -> float:
    command, environment = bare_command(steps=1, warmup_steps=0), bare_environment()
    started = time.time()
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return float(last_json(output)["first_step"]) - started


def flagperf() -> float:
    with tempfile.TemporaryDirectory() as folder:
        overrides = ["nproc=2", "max_steps=1", f"result_dir={folder}", f"data_dir={sample_data()}"]
        started = time.time()
        subprocess.run([*FLAGPERF, *overrides], capture_output=True, check=True)
        (log,) = Path(folder).glob("run*/*/round1/*/rank0.out.log")
        events = [event for line in log.read_text().splitlines() if (event := perflog.parse(line))]
        return next(event.time_ms for event in events if event.event == "STEP_END") / 1000 - started


def main(rounds: int) -> None:
    bare(), flagperf()  # fills the page cache
    pairs = [(bare(), flagperf()) for _ in range(rounds)]
    base, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"bare torchrun {base:.2f} s, flagperf {ours:.2f} s: {ours / base:.2f} x, "
        f"{ours - base:+.2f} s (limit {LIMIT:+.2f} s)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
