"""flagperf import: write a configuration folder from a checkout of FlagPerf

usage: flagperf import DIR|FILE… into=FOLDER

words:
  DIR|FILE…    a checkout of FlagPerf or a folder of it, or its files; they are read, and never executed
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
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.checkout import read_checkout
from flagperf.partners.flagperf.importing.files import Imported, make_files, write_files
from flagperf.user import user_path


def main(options: argparse.Namespace) -> int:
    """Print the written files, the values that were not imported, and the command that shows the result."""
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
    imported = make_files(checkout, options.config_dir)
    if not imported.files:
        lines = "\n  ".join(imported.not_imported)
        raise ConfigError(f"no value has a counterpart:\n  {lines}", given=" ".join(map(str, paths)))
    write_files(imported.files, folder)
    print("\n".join(_report(imported, folder)))
    return 0


def _report(imported: Imported, folder: Path) -> list[str]:
    lines = [str(folder / name) for name in imported.files]
    if imported.not_imported:
        lines += ["", "not carried over:", *(f"  {line}" for line in imported.not_imported)]
    if imported.kept:
        lines += [
            "",
            "other values than FlagPerf's, because flagperf ships a value with a reason:",
            *(f"  {line}" for line in imported.kept),
        ]
    lines += ["", "values without a counterpart are comments in their files; to see what would run:"]
    if imported.show:
        return [*lines, f"  flagperf --config-dir {shlex.quote(str(folder))} {imported.show}"]
    return [*lines, "  the command at the head of a file, with dry_run=true"]
