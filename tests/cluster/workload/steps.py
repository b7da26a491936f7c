"""Stands for a training in tests of the launcher: PerfLog of steps that take a moment, or an end of some other kind.

    python -c "import steps; steps.start()" CONFIG NODE_RANK NPROC SCENARIO[@NODE]

Started like torchrun on each node; the ranks it stands for are all this one process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import yaml

from flagperf.contract.perflog import PerfLog

STEP = 0.2  # seconds


def main(config_path: str, node_rank: int, nproc: int, scenario: str) -> None:
    config = yaml.safe_load(Path(config_path).read_text())
    what, _, node = scenario.partition("@")
    happens = not node or int(node) == node_rank
    ranks = range(node_rank * nproc, (node_rank + 1) * nproc)
    folder = Path(os.environ["FLAGPERF_LOG_DIR"])
    logs = [
        PerfLog(rank, os.open(folder / f"rank{rank}.out.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)) for rank in ranks
    ]

    def tell(event: str, value: dict[str, object] | None = None) -> None:
        for log in logs:
            log.log(event, value)

    print(f"MINE={os.environ.get('MINE')}", flush=True)
    if what == "look":
        print((Path(config["data_dir"]) / "train/a/1.jpg").read_text(), flush=True)
    if what == "rights":
        lines = Path("/proc/self/status").read_text().splitlines()
        rights = dict(line.split(":\t", 1) for line in lines)
        print(*(f"{name}={rights[name].lstrip('0') or 0}" for name in ("CapEff", "NoNewPrivs", "Seccomp")), flush=True)
    tell("SUBMIT_INFO", {"vendor": "cpu", "case": config["case"], "config": config})
    tell("TRAIN_START")
    for step in range(1, config["max_steps"] + 1):
        time.sleep(STEP)
        tell("STEP_END", {"step": step, "epoch": 1, "loss": 1.0, "learning_rate": 0.1, "throughput": 5.0})
        if happens and step == 3:
            happen(what)
    tell("TRAIN_END")
    tell("FINISHED", {"global_steps": config["max_steps"], "stop_reason": "max_steps", "final_loss": 1.0})


def happen(what: str) -> None:
    """Step 3 is when things happen."""
    print(f"now: {what}", flush=True)
    if what == "tell":
        print("told:", os.environ["HF_TOKEN"], os.environ["OTHER"], flush=True)
    if what == "raise":
        raise RuntimeError("as asked")
    if what == "exit":
        sys.exit(7)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        time.sleep(3600)
    if what == "memory":
        hoard = bytearray(400 * 1024**2)
        for place in range(0, len(hoard), 4096):
            hoard[place] = 1


def start() -> None:
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
