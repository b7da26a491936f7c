"""What the trainer adds to a step: its loop against a loop written by hand on a 64x64 MLP, log_freq=10.

    python benchmarks/step_cost.py [ROUNDS [RANKS]]

Both trainings run in one process, in turns (in_turns.py). Printed: the CPU time of a step of either and the
ratio; medians over rounds.
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
LIMIT = 1.1
DEFAULTS = HERE.parent / "conf" / "training.yaml"


def config(ranks: int) -> dict[str, Any]:
    """The training of bare/mlp.py in the trainer's settings."""
    import in_turns
    import mlp

    return yaml.safe_load(DEFAULTS.read_text()) | {
        "case": "mlp",
        "size": "full",
        "data_dir": None,
        "resume": None,
        "nnodes": 1,
        "nproc": ranks,
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
        "max_steps": in_turns.LAST * in_turns.BLOCK + 1,
        "eval_interval_epochs": None,
        "network": {"_target_": "mlp.network"},
        "task": {"_target_": "in_turns.InTurns"},
        "train_data": {"_target_": "mlp.Points"},
        "optimizer": {"_target_": "torch.optim.SGD", "lr": 0.01},
    }


def measure(path: Path, ranks: int) -> dict[str, list[float]]:
    """CPU and wall seconds of a step of both trainings, as the first rank that gets there prints them."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = os.environ | {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    environment.pop("FLAGPERF_LOG_DIR", None)
    argv = [*torchrun, "-m", "flagperf.trainer", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"ours"'))))


def main(rounds: int, ranks: int) -> None:
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(yaml.safe_dump(config(ranks)))
        for number in range(rounds):
            figures = measure(path, ranks)
            measured.append(figures)
            ours, bare = (figures[name][0] * 1e6 for name in ("ours", "bare"))
            print(f"round {number + 1}: CPU {ours:.1f} us, bare {bare:.1f} us")
    cpu, wall = (statistics.median(f["ours"][kind] / f["bare"][kind] for f in measured) for kind in (0, 1))
    print(f"{ranks} rank(s): wall {wall:.3f} x")
    say(f"a step of a 64x64 MLP, {ranks} rank(s), CPU", cpu, LIMIT, "x a loop written by hand")


if __name__ == "__main__":
    main(*(int(number) for number in (sys.argv[1:] + ["5", "1"][len(sys.argv[1:]) :])))
