"""A framework beside PyTorch lies in an environment of its own: tests run its code in processes of that one."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import toy
import yaml

from flagperf.config.compose import compose
from flagperf.contract.perflog import Event

ROOT = Path(__file__).parents[1]


class Ended(Exception):
    """A training that did not end with exit status 0."""


def run(
    framework: str, *arguments: str | Path, timeout: float = 250, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the framework's Python with these arguments; its output is text.

    Raises:
        AssertionError: there is no such environment; these tests do not pass without one.
    """
    python = Path(f"{sys.prefix}-{framework}/bin/python")
    assert python.exists(), f"no environment with {framework}; do: make {framework}"
    return subprocess.run(
        [python, "-W", "ignore", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def configured(framework: str, *overrides: str) -> dict[str, Any]:
    """The configuration of a tiny case of the framework."""
    return dict(compose([f"framework={framework}", "size=tiny", "division=open", "dry_run=true", *overrides]).config)


def train(
    folder: Path, framework: str, *overrides: str, nproc: int = 1, resume: Path | None = None
) -> list[list[Event]]:
    """Train a tiny case of the framework by flagperf's starter of ranks; the events of each rank.

    Raises:
        Ended: with the output of the first rank.
    """
    folder.mkdir()
    config = {**configured(framework, *overrides), "resume": resume and str(resume)}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ("--nnodes", "1", "--nproc", str(nproc), "--node-rank", "0", "--address", "127.0.0.1", "--port", str(port))
    log = folder / "node"
    log.mkdir()
    arguments = ("-m", "flagperf.trainer.start", *place, folder / "config.yaml")
    variables = {"FLAGPERF_LOG_DIR": str(log), "FLAGPERF_CHECKPOINT_DIR": str(folder / "checkpoint")}
    done = run(framework, *arguments, **variables)
    if done.returncode:
        raise Ended((log / "rank0.out.log").read_text() + done.stdout + done.stderr)
    return events(folder)


def events(folder: Path) -> list[list[Event]]:
    """What each rank of a training logged."""
    return [toy.read_log(log) for log in sorted(folder.glob("node/rank*.out.log"))]


def once(folder: Path, train: Callable[[Path], list[list[Event]]]) -> list[list[Event]]:
    """The events of the training in `folder`, which the first worker that asks makes; the others wait for its end."""
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            attempt = folder.with_suffix(".attempt")
            shutil.rmtree(attempt, ignore_errors=True)
            train(attempt)
            attempt.rename(folder)
        return events(folder)
