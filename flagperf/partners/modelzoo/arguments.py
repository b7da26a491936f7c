"""The arguments of a model folder's scripts, from their text. No script is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.fault import Fault

FILE = f"{guide.SCRIPTS}/{guide.ARGUMENT}"


def accepted(folder: Path) -> set[str]:
    """The long options that the scripts add to a parser, without their dashes."""
    names: set[str] = set()
    for path in sorted((folder / guide.SCRIPTS).glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            continue  # the short run reports it
        names |= {text[2:] for call in ast.walk(tree) for text in _options(call)}
    return names


def _options(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        for argument in node.args:
            if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
                yield str(argument.value)


def argument_faults(folder: Path) -> Iterator[Fault]:
    """Faults: arguments of the guide that no script takes, or that the scripts' page does not describe."""
    options = accepted(folder)
    for source, names in guide.ASKED_ARGUMENTS.items():
        if missing := ", ".join(f"--{name}" for name in _absent(names, options)):
            yield Fault(FILE, f"no {missing}", f"{missing}: {source}", "add them to the parser")
    page = next((path for name in guide.SCRIPT_READMES if (path := folder / guide.SCRIPTS / name).is_file()), None)
    words = set(re.findall(r"\w+", page.read_text(encoding="utf-8", errors="replace"))) if page else set()
    everything = [name for names in guide.ASKED_ARGUMENTS.values() for name in names]
    if page and words and (absent := _absent(everything, words)):
        where = f"{guide.SCRIPTS}/{page.name}"
        yield Fault(where, f"no word of {', '.join(absent)}", "what each argument is", "describe them")


def _absent(names: Sequence[str], known: set[str]) -> list[str]:
    return [name for name in names if not known & set(guide.SPELLINGS.get(name, (name,)))]


def spelled(name: str, options: set[str]) -> str:
    """The spelling of a parameter that the scripts take; the name itself where they take none."""
    return next((spelling for spelling in guide.SPELLINGS.get(name, ()) if spelling in options), name)
