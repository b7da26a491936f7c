"""Finds the package `cases` of an installed flagperf. Only the standard library, and Python 3.8.

A wheel has the code of the cases in flagperf/cases: in site-packages, the name `cases` is free for other packages.
Configurations call this code `cases.…`, as in a checkout, where the folder lies beside flagperf.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from itertools import takewhile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
NAME = "cases"


class InstalledCases:
    """A finder of the package `cases` alone: in folders that come before flagperf's, such as code_dir, or in flagperf.

    A package `cases` of others, beside flagperf in site-packages, is not imported in place of ours.
    """

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        """The spec of the package; None for every other module."""
        if name != NAME:
            return None
        earlier = takewhile(lambda folder: Path(folder).resolve() != PACKAGE.parent, sys.path)
        return PathFinder.find_spec(name, [*earlier, str(PACKAGE)])


def install() -> None:
    """Let this process import `cases`. In a checkout nothing is to be done."""
    if (PACKAGE / NAME).is_dir():
        sys.meta_path.insert(0, InstalledCases)
