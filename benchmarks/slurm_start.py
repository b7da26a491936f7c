"""Command to first training step on two nodes of Slurm: flagperf against salloc, srun and torchrun by hand.

    python benchmarks/slurm_start.py [ROUNDS]

By hand: `salloc -N 2 srun … torchrun … benchmarks/bare/resnet50_pytorch.py`, one rank a node. Both read the same sample
data with the same batch size, in turns, and neither evaluates before the first step. The median of each is printed,
with their difference and what flagperf's phases took. Needs what tests/cluster/slurm_lab.py needs: root, and Debian's
munge, slurmctld, slurmd and slurm-client; both nodes are this machine.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from baseline import BASELINES, FLAGPERF, first_step_end, last_json, print_phases, print_starts

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
from slurm_lab import SlurmLab

PYTORCH = BASELINES["pytorch"]
BARE = Path(__file__).parent / "bare" / PYTORCH.script
LIMIT = 1.0  # seconds above the commands by hand
OURS = ("cluster=slurm", "nnodes=2", "nproc=1", "division=open", "initial_evaluation=false", "max_steps=1")


def environment(lab: SlurmLab) -> dict[str, str]:
    return {**PYTORCH.environment, **lab.env, "OMP_NUM_THREADS": "1"}


def by_hand(lab: SlurmLab) -> float:
    """Wall-clock seconds from the command to the end of the first step."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(port), "--node-rank"]
    script = [str(BARE), str(PYTORCH.data), str(PYTORCH.config["train_batch_size"]), "1", "0"]
    line = f"{shlex.join(torchrun)} $SLURM_NODEID {shlex.join(script)}"
    argv = ["salloc", "--nodes=2", "--exclusive", "srun", "--ntasks-per-node=1", "sh", "-c", line]
    with tempfile.TemporaryDirectory() as folder:
        started = time.time()
        done = subprocess.run(argv, env=environment(lab), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"by hand: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return float(last_json(done.stdout)["first_step"]) - started


def flagperf(lab: SlurmLab) -> tuple[float, dict[str, float]]:
    """Wall-clock seconds from the command to the end of the first step, and the phases of node 0."""
    with tempfile.TemporaryDirectory() as results:
        command = [*FLAGPERF, *OURS, f"data_dir={PYTORCH.data}", f"result_dir={results}", "run_name=run"]
        started = time.time()
        done = subprocess.run(command, env=environment(lab), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"flagperf: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        (round_,) = Path(results).glob("run/*/round1")
        (log,) = round_.glob("*_noderank0/rank0.out.log")
        end = first_step_end(log)
        phases = json.loads((round_ / "result.json").read_text())["phases"][log.parent.name]
    return end - started, phases


def main(rounds: int) -> None:
    with SlurmLab() as lab:
        by_hand(lab), flagperf(lab)  # fills the page cache
        pairs = [(by_hand(lab), flagperf(lab)) for _ in range(rounds)]
    print_starts("two nodes of Slurm", "srun by hand", [(hand, seconds) for hand, (seconds, _) in pairs], LIMIT)
    differences = sorted(seconds - hand for hand, (seconds, _) in pairs)
    print("    differences of the rounds: " + ", ".join(f"{difference:+.2f}" for difference in differences))
    print_phases([phases for _, (_, phases) in pairs])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
