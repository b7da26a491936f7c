"""Steady throughput and host memory of a tiny case: flagperf's loop against the script by hand, in turns.

    python benchmarks/throughput.py [ROUNDS] [paddle | tensorflow2 | mindspore | fsdp2]

Same data, batch size, network and optimizer; two ranks; no evaluation. Printed: the median ratio of samples per second
over rounds, and of the resident memory of rank 0.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from baseline import BASELINES, Baseline
from limits import say

STEPS, WARMUP_STEPS = 150, 20


def bare(baseline: Baseline) -> tuple[float, float]:
    """Samples per second and GiB."""
    figures = baseline.by_hand(steps=STEPS, warmup_steps=WARMUP_STEPS)
    return float(figures["units_per_second"]), float(figures["memory_gib"])


def flagperf(baseline: Baseline) -> tuple[float, float]:
    """Samples per second and GiB."""
    overrides = ("division=open", f"max_steps={STEPS}", f"warmup_steps={WARMUP_STEPS}", "eval_start_samples=1000000000")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(baseline.flagperf(folder, *overrides), capture_output=True, check=True)
        (path,) = Path(folder).glob("run*/*/round1/result.json")
        values = yaml.safe_load(path.read_text())["values"]
        return float(values["steady_throughput"]), float(values["peak_memory"])


def main(rounds: int, framework: str) -> None:
    baseline, pairs = BASELINES[framework], []
    unit = baseline.config["throughput_unit"]
    for number in range(rounds):
        sides = (flagperf, bare) if number % 2 else (bare, flagperf)
        rates = {side: side(baseline) for side in sides}
        ours, base = rates[flagperf], rates[bare]
        pairs.append((ours, base))
        print(
            f"round {number + 1}: bare {base[0]:.0f} {unit} {base[1]:.3f} GiB, "
            f"flagperf {ours[0]:.0f} {unit} {ours[1]:.3f} GiB",
            flush=True,
        )
    speed = statistics.median(ours[0] / base[0] for ours, base in pairs)
    memory = statistics.median(ours[1] / base[1] for ours, base in pairs)
    least = 0.99 if framework == "pytorch" else 0.98
    say(f"steady throughput, {framework}", speed, least, "x the script by hand", least=True)
    say(f"host memory of a rank, {framework}", memory, 1.05, "x the script by hand")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2] if len(sys.argv) > 2 else "pytorch")
