"""Steady throughput and host memory of resnet50 (tiny): flagperf's loop against the bare torchrun script, in turns.

    python benchmarks/throughput.py [ROUNDS]

Same data, batch size, network and optimizer; two ranks; no evaluation. Printed: the median ratio of images per second
over rounds (limit 0.99), and of the largest resident memory of a rank (limit 1.05).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from baseline import FLAGPERF, bare_command, bare_environment, last_json, sample_data

STEPS, WARMUP_STEPS = 150, 20


def bare() -> tuple[float, float]:
    """Images per second and GiB."""
    command, environment = bare_command(steps=STEPS, warmup_steps=WARMUP_STEPS), bare_environment()
    figures = last_json(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    return float(figures["images_per_second"]), float(figures["memory_gib"])


def flagperf() -> tuple[float, float]:
    """Images per second and GiB."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = [
            "nproc=2",
            "division=open",
            f"max_steps={STEPS}",
            f"warmup_steps={WARMUP_STEPS}",
            "eval_start_samples=1000000000",
            f"result_dir={folder}",
            f"data_dir={sample_data()}",
        ]
        subprocess.run([*FLAGPERF, *overrides], capture_output=True, check=True)
        (path,) = Path(folder).glob("run*/*/round1/result.json")
        values = yaml.safe_load(path.read_text())["values"]
        return float(values["steady_throughput"]), float(values["peak_memory"])


def main(rounds: int) -> None:
    pairs = []
    for number in range(rounds):
        ours, base = (flagperf(), bare()) if number % 2 else tuple(reversed((bare(), flagperf())))
        pairs.append((ours, base))
        print(
            f"round {number + 1}: bare {base[0]:.0f} images/s {base[1]:.3f} GiB, "
            f"flagperf {ours[0]:.0f} images/s {ours[1]:.3f} GiB"
        )
    speed = statistics.median(ours[0] / base[0] for ours, base in pairs)
    memory = statistics.median(ours[1] / base[1] for ours, base in pairs)
    print(f"throughput {speed:.3f} x (limit 0.99), host memory {memory:.3f} x (limit 1.05)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
