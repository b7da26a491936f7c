"""Folders of other people: a command refuses them, with the list of its effects, unless the user gives `trust=true`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.components import targets
from flagperf.contract.made_here import foreign
from flagperf.errors import ConfigError
from flagperf.hosts.ssh.login import local_path
from flagperf.plain import plain
from flagperf.plan.values import CONFIG
from flagperf.report.writers import KEY, WRITERS, entries_of, is_built_in
from flagperf.run import command_file
from flagperf.run.collecting import Round
from flagperf.run.command_file import Command
from flagperf.schedulers.interface import scheduler

WORD = "trust=true"
PROGRAMS = re.compile(r"[ \t]*(\w+command\b|match\b.*\bexec\b|proxyjump\b|include\b)", re.IGNORECASE)
LONGEST = 1 << 20  # characters of an ssh configuration that are searched
BELOW = "\n" + " " * 11  # a further line of a detail


def trusted(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments without `trust=true`, and whether they had it."""
    return [word for word in arguments if word != WORD], WORD in arguments


def check(verb: str, run: Path, files: Iterable[Path], deeds: Iterable[str]) -> None:
    """Raise an error where the files of a run differ from those that this user's flagperf wrote on this machine.

    Args:
        files: the files that the verb uses.
        deeds: a line for each effect of the verb.

    Raises:
        ConfigError: with these lines.
    """
    foreign_files = foreign(run, files)
    if foreign_files:
        do = f"if you trust its author: flagperf {verb} {shlex.quote(str(run))} … {WORD}"
        raise ConfigError(
            "your flagperf did not write this folder on this machine: its author decides what the command does",
            where=str(foreign_files[0]),
            given=BELOW.join(plain(deed) for deed in deeds),
            allowed="a folder of your own runs, unchanged",
            advice=do,
        )


def of_command(command: Command, run: Path) -> Iterator[str]:
    """The effects of a command that is run again."""
    yield f"runs: {command.line()}"
    yield from (f"with the values of this file: {path}" for path in command_file.files(run)[1:])


def check_writers(verb: str, run: Path, config: Mapping[str, Any]) -> None:
    """Raise an error where somebody else's configuration describes more than flagperf's own writers of reports."""
    deeds = [f"{_called(entry)}, of {KEY}" for entry in entries_of(config) if not is_built_in(entry)]
    if deeds:
        check(verb, run, sorted(run.glob(f"*/{CONFIG}")), deeds)


def _called(entry: object) -> str:
    """What Hydra would call for an entry of `reports`, else the whole entry."""
    names = [name for name in targets(entry) if name not in WRITERS]
    return f"calls {', '.join(names)}" if names else f"makes {entry}"


def of_collecting(to_collect: Iterable[Round]) -> Iterator[str]:
    """The effects of collecting the logs of these rounds."""
    for round_ in to_collect:
        for node, logs in round_.logs:
            source = scheduler(round_.hosts.source)
            yield f"{node.name}: {source.contact(node, round_.hosts)}"
            if not source.keeps_logs:
                yield f"{node.name}: brings {logs}, and removes {Path(logs).parent.parent.parent} there"
        if round_.hosts.ssh.config:
            yield from _programs(Path(local_path(round_.hosts.ssh.config)))
        for name, secret in round_.hosts.secrets.items():
            yield f"reads {secret.file or f'${secret.variable}'}, to hide the secret {name} in the logs"


def _programs(config: Path) -> Iterator[str]:
    """The lines of an ssh configuration that start programs here, or include further files."""
    if config.is_file():
        with config.open(errors="replace") as file:
            lines = file.read(LONGEST).splitlines()
        yield from (f"{config}: {line.strip()}" for line in lines if PROGRAMS.match(line))
