"""Folders of other people: what a command would do for their author, and the word without which it does not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError
from flagperf.hosts.ssh.login import local_path
from flagperf.plain import plain
from flagperf.plan.values import CONFIG
from flagperf.report.writers import KEY
from flagperf.run import command_file
from flagperf.run.collecting import Round
from flagperf.run.command_file import Command
from flagperf.run.made_here import foreign
from flagperf.schedulers.interface import scheduler

WORD = "trust=true"
PROGRAMS = re.compile(r"[ \t]*(\w+command\b|match\b.*\bexec\b|proxyjump\b|include\b)", re.IGNORECASE)
LONGEST = 1 << 20  # characters of an ssh configuration that are looked at
BELOW = "\n" + " " * 11  # a further line of a detail


def trusted(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments without the word, and whether it was there."""
    return [word for word in arguments if word != WORD], WORD in arguments


def check(verb: str, run: Path, files: Iterable[Path], deeds: Iterable[str]) -> None:
    """Refuse a run's folder whose files are not as this user's flagperf wrote them on this machine.

    Args:
        files: those that the verb obeys.
        deeds: what it would do, a line each.

    Raises:
        ConfigError: with these lines.
    """
    strange = foreign(run, files)
    if strange:
        do = f"if you trust whoever made it: flagperf {verb} {shlex.quote(str(run))} … {WORD}"
        raise ConfigError(
            "this folder is not as your flagperf wrote it on this machine: whoever made it decides what is done",
            where=str(strange[0]),
            given=BELOW.join(plain(deed) for deed in deeds),
            allowed="a folder of your own runs, unchanged",
            advice=do,
        )


def of_command(command: Command, run: Path) -> Iterator[str]:
    """What a command that is given again does."""
    yield f"runs: {command.line()}"
    yield from (f"with what this file says: {path}" for path in command_file.files(run)[1:])


def check_writers(verb: str, run: Path, config: Mapping[str, Any]) -> None:
    """Refuse writers of reports that are not flagperf's own, where another wrote the configuration that names them."""
    named = [str(entry.get("_target_") if isinstance(entry, dict) else entry) for entry in config.get(KEY) or ()]
    others = [name for name in named if not name.startswith("flagperf.report.")]
    if others:
        check(verb, run, sorted(run.glob(f"*/{CONFIG}")), (f"calls {name}, of {KEY}" for name in others))


def of_collecting(found: Iterable[Round]) -> Iterator[str]:
    """What collecting the logs of these rounds does."""
    for one in found:
        for node, logs in one.logs:
            source = scheduler(one.hosts.source)
            yield f"{node.name}: {source.contact(node, one.hosts)}"
            if not source.keeps_logs:
                yield f"{node.name}: brings {logs}, and removes {Path(logs).parent.parent.parent} there"
        if one.hosts.ssh.config:
            yield from _programs(Path(local_path(one.hosts.ssh.config)))
        for name, secret in one.hosts.secrets.items():
            yield f"reads {secret.file or f'${secret.variable}'}, to hide the secret {name} in the logs"


def _programs(config: Path) -> Iterator[str]:
    """The lines of an ssh configuration by which it starts programs here, or names further files."""
    if config.is_file():
        with config.open(errors="replace") as file:
            lines = file.read(LONGEST).splitlines()
        yield from (f"{config}: {line.strip()}" for line in lines if PROGRAMS.match(line))
