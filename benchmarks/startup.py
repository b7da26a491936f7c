"""Command to first training step on two ranks: flagperf against the script by hand.

    python benchmarks/startup.py [ROUNDS] [paddle | tensorflow2 | mindspore | fsdp2]

Both read the same sample data with the same batch size, in turns; the median of each is printed, with their difference.
Neither evaluates before the first step.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from baseline import BASELINES, Baseline, first_step_end, print_starts

LIMITS = {"pytorch": 0.6, "fsdp2": 1.0}  # seconds above the script by hand; 1.5 for the other frameworks


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
        return first_step_end(log) - started


def main(rounds: int, framework: str) -> None:
    baseline = BASELINES[framework]
    bare(baseline), flagperf(baseline)  # fills the page cache
    pairs = [(bare(baseline), flagperf(baseline)) for _ in range(rounds)]
    print_starts(f"two ranks, {framework}", "the script by hand", pairs, LIMITS.get(framework, 1.5))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2] if len(sys.argv) > 2 else "pytorch")
