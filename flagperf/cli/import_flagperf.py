"""flagperf import: write a configuration folder of what a FlagPerf checkout says

usage: flagperf import DIR|FILE… into=FOLDER

words:
  DIR|FILE…    a checkout of FlagPerf or a folder of it, or its files; they are read, never executed
  into=FOLDER  for --config-dir: cluster, experiment, vendors, products, tunings; nothing is overwritten

options: --config-dir

examples:
  flagperf import ~/FlagPerf into=~/bench
  flagperf import ~/FlagPerf/training/kunlunxin/bert-pytorch into=~/bench

exit codes: 0, 2
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from flagperf.cli.help import usage
from flagperf.config.files.user_path import user_path
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.checkout import read_checkout
from flagperf.partners.flagperf.importing.files import Imported, make_files, write_files


def main(options: argparse.Namespace) -> int:
    """Print the files that were written, what was not carried over, and the command that shows the result."""
    into = [text.partition("=")[2] for text in options.arguments if text.startswith("into=")]
    paths = [user_path(text) for text in options.arguments if not text.startswith("into=")]
    if len(into) != 1 or not into[0] or not paths:
        given = " ".join(options.arguments) or None
        raise ConfigError("import takes FlagPerf's files, and one folder", given=given, advice=usage("import"))
    folder = user_path(into[0])
    try:
        checkout = read_checkout(paths)
    except OSError as error:
        raise ConfigError(f"this cannot be read: {error.strerror}", given=error.filename) from None
    made = make_files(checkout, options.config_dir)
    if not made.files:
        told = "\n  ".join(made.told)
        raise ConfigError(f"nothing here has a counterpart:\n  {told}", given=" ".join(map(str, paths)))
    write_files(made.files, folder)
    print("\n".join(_report(made, folder)))
    return 0


def _report(made: Imported, folder: Path) -> list[str]:
    lines = [str(folder / name) for name in made.files]
    if made.told:
        lines += ["", "not carried over:", *(f"  {line}" for line in made.told)]
    if made.kept:
        lines += [
            "",
            "not as FlagPerf has it, because flagperf ships a value and says why:",
            *(f"  {line}" for line in made.kept),
        ]
    lines += ["", "what has no counterpart stands as a comment in its file; to see what would run:"]
    if made.show:
        return [*lines, f"  flagperf --config-dir {shlex.quote(str(folder))} {made.show}"]
    return [*lines, "  the command at the head of a file, with dry_run=true"]
