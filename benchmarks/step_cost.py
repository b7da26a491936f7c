"""What the trainer adds to a step: its loop against a bare torchrun script on a 64x64 MLP, log_freq=10, in turns.

    python benchmarks/step_cost.py [ROUNDS [RANKS]]

Printed: the CPU time of a step of either, the difference and the ratio; medians over rounds.
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

import yaml
from limits import say

HERE = Path(__file__).parent
LIMIT = 20.0  # microseconds
DEFAULTS = HERE.parent / "conf" / "training.yaml"


def config() -> dict[str, Any]:
    """The training of bare/mlp.py in the trainer's settings."""
    import mlp

    return yaml.safe_load(DEFAULTS.read_text()) | {
        "case": "mlp",
        "size": "full",
        "data_dir": None,
        "resume": None,
        "log_level": "info",
        "throughput_unit": "points/s",
        "framework": {"name": "pytorch", "parts": {}},
        "vendor": {"name": "cpu", "device": "cpu", "backend": "gloo", "plugin": None, "visible_devices": None},
        "hardware": {"name": "cpu", "peak_flops": {}},
        "train_batch_size": mlp.BATCH_SIZE,
        "eval_batch_size": mlp.BATCH_SIZE,
        "lr": 0.01,
        "log_freq": 10,
        "num_workers": 0,
        "max_steps": mlp.LAST_STEP,
        "eval_interval_epochs": None,
        "network": {"_target_": "mlp.network"},
        "task": {"_target_": "mlp.Classification"},
        "train_data": {"_target_": "mlp.Points"},
        "optimizer": {"_target_": "torch.optim.SGD", "lr": 0.01},
    }


def measure(*program: str, ranks: int) -> dict[str, float]:
    """CPU and wall seconds of a step, as the first rank that gets there prints them."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = os.environ | {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    environment.pop("FLAGPERF_LOG_DIR", None)
    done = subprocess.run([*torchrun, *program], capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"cpu"'))))


def main(rounds: int, ranks: int) -> None:
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(yaml.safe_dump(config()))
        for number in range(rounds):
            bare = measure(str(HERE / "bare" / "mlp.py"), ranks=ranks)
            ours = measure("-m", "flagperf.trainer", str(path), ranks=ranks)
            pairs.append((ours, bare))
            print(f"round {number + 1}: CPU {ours['cpu'] * 1e6:.1f} us, bare {bare['cpu'] * 1e6:.1f} us")
    added = statistics.median(ours["cpu"] - bare["cpu"] for ours, bare in pairs) * 1e6
    ratio = statistics.median(ours["cpu"] / bare["cpu"] for ours, bare in pairs)
    wall = statistics.median(ours["wall"] / bare["wall"] for ours, bare in pairs)
    print(f"{ranks} rank(s): CPU {ratio:.3f} x, wall {wall:.3f} x")
    say(f"a step of a 64x64 MLP, {ranks} rank(s), CPU", added, LIMIT, "us above a bare torchrun script")


if __name__ == "__main__":
    main(*(int(number) for number in (sys.argv[1:] + ["5", "1"][len(sys.argv[1:]) :])))
