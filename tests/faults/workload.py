"""Stands in the trainer's place: writes PerfLog lines as it does, and fails in the way that the configuration says."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from flagperf.contract.perflog import PerfLog
from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints.files import SingleRank, checkpoint_folder, newest_intact, save


def main(
    config: dict[str, Any], collective: bool, step_seconds: float, fault: str, rank: int, step: int, times: int
) -> None:
    me = int(os.environ["RANK"])
    log = PerfLog(me)

    def strike(now: int) -> None:
        if now == step and rank in (me, -1) and len(list(checkpoint_folder().parent.glob("attempt*"))) < times:
            while now and not peers_began():  # on a busy machine a peer may still be importing
                time.sleep(0.02)
            FAULTS[fault]()

    strike(0)
    log.log("SUBMIT_INFO", {"config": config})
    log.log("INIT_START")
    if collective:
        from torch import distributed, ones  # slow to import

        distributed.init_process_group("gloo")
    log.log("INIT_END")
    log.log("TRAIN_START")
    begun = int(newest_intact(Path(config["resume"]), SingleRank()).path.stem[4:]) if config["resume"] else 0
    for now in range(begun + 1, config["max_steps"] + 1):
        strike(now)
        if collective:
            distributed.all_reduce(ones(1))
        time.sleep(step_seconds)
        log.log("STEP_END", {"step": now, "epoch": 1, "loss": 1 / now, "throughput": 10.0})
        if me == 0 and config["checkpoint_freq"] and now % config["checkpoint_freq"] == 0:
            save(checkpoint_folder(), now, lambda file: file.write(b"the state"))
    log.log("TRAIN_END")
    log.log("FINISHED", {"global_steps": config["max_steps"], "resumed_from_step": begun or None})
    os._exit(0)


def peers_began() -> bool:
    """Whether every rank of this node has logged that it begins."""
    logs = Path(os.environ["FLAGPERF_LOG_DIR"]).glob("rank*.out.log")
    return sum("INIT_START" in log.read_text() for log in logs) == int(os.environ["LOCAL_WORLD_SIZE"])


def fail() -> None:
    raise RuntimeError("the workload fails as it was told")


def leave() -> None:
    print("leaving with 3", flush=True)
    os._exit(3)


def refuse() -> None:
    """As the trainer does with what the launcher could not know."""
    print(f"ConfigError: {ConfigError('no such step', where='config.yaml', key='task.step', given=3)}", flush=True)
    os._exit(ConfigError.exit_code)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(1000)


def hang_deaf() -> None:
    """Hang, ignoring SIGTERM, and have a child in a session of its own that does so too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
    while True:
        time.sleep(1000)


def tell() -> None:
    """Print all that was given in secret, and when the file GATE is there, fail with it."""
    told = os.environ["HF_TOKEN"], os.environ["OTHER"], os.environ["WANDB_API_KEY"]
    print(*told, sep="\n", flush=True)
    while not Path(os.environ["GATE"]).exists():
        time.sleep(0.05)
    raise RuntimeError(" ".join(told))


def fill() -> None:
    """Write to the log until the disk is full."""
    while True:
        os.write(1, b"x" * (1 << 20) + b"\n")


FAULTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "raise": fail,
    "exit": leave,
    "refuse": refuse,
    "leave": lambda: os._exit(0),
    "kill_launcher": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "kill": kill,
    "hang": hang,
    "hang_deaf": hang_deaf,
    "fill": fill,
    "tell": tell,
}


if __name__ == "__main__":
    folder = Path(os.environ["FLAGPERF_LOG_DIR"])
    log_file = os.open(folder / f"rank{os.environ['RANK']}.out.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log_file, 1)
    os.dup2(log_file, 2)
    config = yaml.safe_load(Path(sys.argv[1]).read_text())
    words = {name: value for name, value in config["task"].items() if name != "_target_"}
    main(config, **words)
