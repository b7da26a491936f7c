"""Reads the shell scripts that hosts run: `*.sh` files beside their modules. A header lists the arguments."""

from __future__ import annotations

from itertools import dropwhile
from pathlib import Path

from flagperf.contract.command import Command


def script(module: str, name: str) -> str:
    """The text of the script `name` beside a module, without its header.

    Args:
        module: the module's `__file__`.
    """
    lines = Path(module).with_name(name).read_text("utf-8").splitlines(keepends=True)
    return "".join(dropwhile(lambda line: line.startswith("#"), lines))


def shell(text: str, *arguments: str) -> Command:
    """A shell that runs a script with these arguments."""
    return Command(("sh", "-c", text, "flagperf", *arguments))


LIMITED = script(__file__, "limited.sh")  # arguments: seconds, and a command that may not end by itself
MARKED = script(__file__, "marked.sh")  # a prefix for scripts that look for processes
OURS = script(__file__, "ours.sh")  # a prefix for scripts that open files in a folder of /tmp
OWN_FOLDER = script(__file__, "own_folder.sh")  # a prefix for scripts that work in a folder of this user
