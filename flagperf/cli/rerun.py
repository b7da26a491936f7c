"""`flagperf rerun RUN_DIR [OVERRIDES…]`: gives the command of a run again, from its folder alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from flagperf.cli import run, trust
from flagperf.cli.verbs import usage
from flagperf.config.files.user_path import user_path
from flagperf.errors import ConfigError
from flagperf.run import command_file
from flagperf.run.command_file import Command, again
from flagperf.run.console import Terminal


def main(options: argparse.Namespace) -> int:
    """Compose and run as then, with the user's files as they were; an override that follows replaces an old one."""
    words, is_trusted = trust.trusted(options.arguments)
    if not words or "=" in words[0]:
        raise ConfigError("rerun takes one run folder", advice=usage("rerun"))
    folder = user_path(words[0])
    command = command_file.read(folder)
    if not is_trusted:
        trust.check("rerun", folder, command_file.files(folder), trust.of_command(command, folder))
    options.arguments = again(command.overrides, words[1:])
    options.multirun = command.multirun
    options.config_dir = [*options.config_dir, *(path.resolve() for path in command_file.kept_folders(command, folder))]
    terminal = Terminal()
    for line in (
        Command(tuple(options.arguments), command.multirun, command.config_dirs, "", 0.0).line(),
        *_differs(command),
    ):
        terminal.print(Text(line, style="dim"), soft_wrap=True)
    return run.main(options)


def _differs(command: Command) -> list[str]:
    """What is not as it was then."""
    now = Command((), False, (), str(Path.cwd()), 0.0)
    found = []
    if now.code != command.code:
        before, after = (
            "flagperf {}, code {}".format(side.version, " ".join(side.code.values())) for side in (command, now)
        )
        found.append(f"note: the code is not that of the run: {before}; now {after}")
    if now.folder != command.folder:
        found.append(f"note: the run began in {command.folder}; relative paths count from {now.folder} now")
    return found
