"""flagperf rerun: run the command of an earlier run again, from its folder

usage: flagperf rerun RUN_DIR [OVERRIDES…]

words:
  RUN_DIR     a folder that a run made, such as result/run20260101-120000; flagperf list runs shows them
  OVERRIDES…  changes, such as cluster= or data_dir= on another machine
  trust=true  use a folder that you did not make on this machine (docs/trust.md)

options: --config-dir

examples:
  flagperf rerun result/run20260101-120000
  flagperf rerun result/run20260101-120000 cluster=lab repeat=5

exit codes: 0, 2, 3, 4, 5, 6, 130
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from flagperf.cli import run, trust
from flagperf.cli.help import usage
from flagperf.errors import ConfigError
from flagperf.run import command_file
from flagperf.run.command_file import Command, merged_overrides
from flagperf.run.console import Terminal
from flagperf.user import user_path


def main(options: argparse.Namespace) -> int:
    """Compose and run the earlier command with the user's files of that time. New overrides replace old overrides."""
    words, is_trusted = trust.trusted(options.arguments)
    if not words or "=" in words[0]:
        raise ConfigError("rerun takes one run folder", advice=usage("rerun"))
    folder = user_path(words[0])
    command = command_file.read(folder)
    if not is_trusted:
        trust.check("rerun", folder, command_file.files(folder), trust.of_command(command, folder))
    options.arguments = merged_overrides(command.overrides, words[1:])
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
    """Notes on code and folder that differ from those of the earlier run."""
    now = Command((), False, (), str(Path.cwd()), 0.0)
    notes = []
    if now.code != command.code:
        before, after = (
            "flagperf {}, code {}".format(side.version, " ".join(side.code.values())) for side in (command, now)
        )
        notes.append(f"note: the code is not that of the run: {before}; now {after}")
    if now.folder != command.folder:
        notes.append(f"note: the run began in {command.folder}; relative paths count from {now.folder} now")
    return notes
