"""A framework beside PyTorch lies in an environment of its own: tests run its code in processes of that one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import toy
import yaml

from flagperf.config.compose import compose
from flagperf.perflog import Event

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


def train(
    folder: Path, framework: str, *overrides: str, nproc: int = 1, resume: Path | None = None
) -> list[list[Event]]:
    """Train a tiny case of the framework by flagperf's starter of ranks; the events of each rank.

    Raises:
        Ended: with the output of the first rank.
    """
    folder.mkdir()
    given = [f"framework={framework}", "size=tiny", "division=open", "dry_run=true", *overrides]
    config = {**compose(given).config, "resume": resume and str(resume)}
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
    return [toy.read_log(log / f"rank{rank}.out.log") for rank in range(nproc)]
