"""Configurations → their traces: from the cache, or by the program that the framework's file names.

The program runs in the environment of the ranks and imports their framework; this module does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flagperf.contract.regular import write_atomically
from flagperf.contract.sent_code import identities
from flagperf.contract.trace import Trace, from_json, to_json
from flagperf.errors import ConfigError
from flagperf.predict.traced import traced

TIMEOUT = 600.0  # seconds for one configuration


@dataclass(frozen=True)
class Untraced:
    """Why a configuration has no trace."""

    reason: str
    module: str = ""  # of the network, in which tracing ended; "" where no module ran


class Stopped(BaseException):
    """Another thread stopped this one. No handler of errors takes it for one."""


class Stopper:
    """Ends the programs of a thread that traces, from another thread."""

    def __init__(self) -> None:
        self._running: subprocess.Popen[str] | None = None
        self._stopped = False

    def call(self, command: Sequence[str], environment: Mapping[str, str], cwd: str, limit: float) -> tuple[str, str]:
        """Output and errors of a program. It ends, with its children, when the call ends for any reason.

        Raises:
            OSError, TimeoutExpired: it did not start, or took longer than `limit` seconds.
            Stopped: it was stopped.
        """
        with subprocess.Popen(
            command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as self._running:
            try:
                if not self._stopped:
                    output, errors = self._running.communicate(timeout=limit)
            finally:
                _kill(self._running)
        if self._stopped:
            raise Stopped
        return output, errors

    def stop(self) -> None:
        """End the running program, and all later ones."""
        self._stopped = True
        if self._running is not None:
            _kill(self._running)


def _kill(program: subprocess.Popen[str]) -> None:
    """Kill a program and its children, which are in its session."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


stopper: ContextVar[Stopper | None] = ContextVar("stopper", default=None)  # of this thread


@dataclass(frozen=True)
class Tracer:
    """The program of a framework, and the interpreter of the ranks.

    Args:
        python: the interpreter, on this machine.
        module: the program.
        path: of its imports: PYTHONPATH.
        cache: folder in which traces are kept.
    """

    python: str
    module: str
    path: str
    cache: Path

    def cached(self, config: Mapping[str, Any]) -> Trace | None:
        """The trace that was made earlier of the same configuration by the same code; None where there is none."""
        path = self._path(config)
        try:
            return from_json(path.read_text(encoding="utf-8"), str(path))
        except (OSError, ConfigError):  # of another schema: the trace is made again
            return None

    def traces(self, configs: Sequence[Mapping[str, Any]]) -> list[Trace | Untraced]:
        """The traces of configurations, in one process for all that the cache lacks."""
        answers: list[Trace | Untraced | None] = [self.cached(config) for config in configs]
        lacking = [number for number, trace in enumerate(answers) if trace is None]
        if lacking:
            for number, answer in zip(lacking, self._run([configs[number] for number in lacking]), strict=True):
                answers[number] = answer
                if isinstance(answer, Trace):
                    self._keep(configs[number], answer)
        return [answer or Untraced("the program that traces ended early") for answer in answers]

    def _run(self, configs: Sequence[Mapping[str, Any]]) -> list[Trace | Untraced]:
        with tempfile.TemporaryDirectory(prefix="flagperf-trace-") as folder:
            paths = [Path(folder, str(number), f"{self._key(config)}.yaml") for number, config in enumerate(configs)]
            for path, config in zip(paths, configs, strict=True):
                path.parent.mkdir()
                path.write_text(yaml.safe_dump(traced(config)), encoding="utf-8")
            environment = {**os.environ, "PYTHONPATH": self.path, "CUDA_VISIBLE_DEVICES": ""}
            command = [self.python, "-m", self.module, *map(str, paths)]
            limit = TIMEOUT * len(configs)
            try:
                output, errors = (stopper.get() or Stopper()).call(command, environment, folder, limit)
            except (OSError, subprocess.TimeoutExpired) as error:
                return [Untraced(str(error))] * len(configs)
        answers = [_answer(line, self.module) for line in output.splitlines() if line.startswith("{")]
        ended = Untraced((errors.strip().splitlines() or ["it printed nothing"])[-1])
        return [*answers, *[ended] * (len(configs) - len(answers))]

    def _path(self, config: Mapping[str, Any]) -> Path:
        return self.cache / f"{self._key(config)}.json"

    def _key(self, config: Mapping[str, Any]) -> str:
        """A SHA-256 over all that a trace depends on: settings, code and packages."""
        of_environment = [self.module, _version(self.python), identities()]
        kept = {key: value for key, value in traced(config).items() if key != "data_dir"}
        text = json.dumps([kept, of_environment], sort_keys=True, default=str)
        if config.get("data_dir"):  # no trace reads data
            text = text.replace(json.dumps(config["data_dir"])[1:-1], "<data_dir>")
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _keep(self, config: Mapping[str, Any], trace: Trace) -> None:
        """Write a trace into the cache. Without room or rights there, the next command traces again."""
        path = self._path(config)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, to_json(trace))


def _answer(line: str, where: str) -> Trace | Untraced:
    answer = json.loads(line)
    if "trace" not in answer:
        return Untraced(answer["reason"], answer["module"])
    return from_json(json.dumps(answer["trace"]), where)


def _version(python: str) -> list[Any]:
    """What tells that the environment of an interpreter changed: when its packages did."""
    folders = sorted(Path(python).parent.parent.glob("lib/python3*/site-packages"))
    return [python, [folder.stat().st_mtime_ns for folder in folders]]
