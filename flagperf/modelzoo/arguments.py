"""Which arguments a model folder's scripts take, as read from their text: nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from flagperf.modelzoo import guide
from flagperf.modelzoo.fault import Fault

FILE = f"{guide.SCRIPTS}/{guide.ARGUMENT}"


def accepted(folder: Path) -> set[str]:
    """The long options that the scripts add to a parser, without their dashes."""
    found: set[str] = set()
    for path in sorted((folder / guide.SCRIPTS).glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            continue  # the short run will say so
        found |= {text[2:] for call in ast.walk(tree) for text in _options(call)}
    return found


def _options(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        for argument in node.args:
            if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
                yield str(argument.value)


def argument_faults(folder: Path) -> Iterator[Fault]:
    """Arguments of the guide that no script takes."""
    options = accepted(folder)
    asked = {
        "the guide": guide.ARGUMENTS,
        "the guide, for DDP on one machine": guide.OF_ONE_MACHINE,
        "the guide, for DDP on several machines": guide.OF_SEVERAL,
    }
    for who, names in asked.items():
        missing = [f"--{name}" for name in names if not options & set(guide.SPELLINGS.get(name, (name,)))]
        if missing:
            yield Fault(FILE, f"no {', '.join(missing)}", f"{', '.join(missing)}: {who}", "add them to the parser")


def spelled(name: str, options: set[str]) -> str:
    """The spelling of a parameter that the scripts take; its own where they take none."""
    return next((spelling for spelling in guide.SPELLINGS.get(name, ()) if spelling in options), name)
