"""The command line of the programs that write one file for each case below conf/."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

from flagperf.config.files.search_path import CONF, options


def write_files(description: str | None, group: str, text: Callable[[str, Sequence[Path]], str]) -> None:
    """Write the files of the cases that the command line names, or of all cases on PyTorch.

    Args:
        description: the help of the program.
        group: the folder of the files, below conf/ or below the folder of --config-dir.
        text: makes the content of a file from the name of a case and the folders of the user.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config-dir", type=Path)
    parser.add_argument("case", nargs="*")
    given = parser.parse_args()
    folders = [given.config_dir] if given.config_dir else []
    for case in given.case or options("model", [given.config_dir or CONF]):
        path = Path(given.config_dir or CONF, group, f"{case}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(case, folders), encoding="utf-8")
        print(path, flush=True)
