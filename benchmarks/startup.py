"""Command to first training step on two ranks: flagperf against the script by hand.

    python benchmarks/startup.py [ROUNDS] [paddle | tensorflow2 | mindspore | fsdp2]

Both read the same sample data with the same batch size, in turns; the median of each is printed, with their difference.
Neither evaluates before the first step.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from baseline import BASELINES, Baseline

from flagperf import perflog


def bare(baseline: Baseline) -> float:
    """Seconds."""
    started = time.time()
    return float(baseline.by_hand(steps=1, warmup_steps=0)["first_step"]) - started


def flagperf(baseline: Baseline) -> float:
    """Seconds."""
    with tempfile.TemporaryDirectory() as folder:
        command = baseline.flagperf(folder, "division=open", "initial_evaluation=false", "max_steps=1")
        started = time.time()
        subprocess.run(command, capture_output=True, check=True)
        (log,) = Path(folder).glob("run*/*/round1/*/rank0.out.log")
        events = [event for line in log.read_text().splitlines() if (event := perflog.parse(line))]
        return next(event.time_ms for event in events if event.event == "STEP_END") / 1000 - started


def main(rounds: int, framework: str) -> None:
    baseline = BASELINES[framework]
    bare(baseline), flagperf(baseline)  # fills the page cache
    pairs = [(bare(baseline), flagperf(baseline)) for _ in range(rounds)]
    base, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    limit = 1.0 if framework in ("pytorch", "fsdp2") else 1.5  # seconds above the script by hand
    print(
        f"{framework}: by hand {base:.2f} s, flagperf {ours:.2f} s: {ours / base:.2f} x, "
        f"{ours - base:+.2f} s (limit {limit:+.2f} s)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2] if len(sys.argv) > 2 else "pytorch")
