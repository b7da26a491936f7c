"""Finds the verbs, and makes the texts of `--help` and of usage errors.

A verb is a module that an entry point of the group `flagperf.verbs` names, in our pyproject.toml or in that of another
package. Its docstring is its help: the first line is `flagperf NAME: what the verb does`. Its function `main` takes
the parsed line, prints, and returns the exit code. The docstring is read from the file, because importing all verbs
takes much longer than `--help` may take.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from inspect import cleandoc
from typing import Any

from flagperf.entry_points import named
from flagperf.errors import ConfigError

GROUP = "flagperf.verbs"
DEFAULT, DEFAULT_MODULE = "run", "flagperf.cli.run"  # the verb of a line without a verb; it needs no search
INTERRUPTED = 130
WIDEST = 28  # columns of a name beside its explanation
EXIT_CODES = {
    "0": "done",
    "2": "wrong usage or configuration",
    "3": "a host cannot be used",
    "4": "no valid case",
    "5": "a training failed, or a writer of data",
    "6": "target missed (require_target=true)",
    "7": "compare: outside the limits of gate= or align=; align: outside the band",
    "8": "compare: gate= or align= is undecided",
    "9": "the files of a bundle differ from its statement; modelzoo check: faults",
    str(INTERRUPTED): "interrupted",
}
OPTIONS = {
    "-m, --multirun": "sweep over comma-separated values: one job per combination",
    "--config-dir DIR": "a folder of your own with model/, vendor/, cluster/, experiment/ …; may be repeated",
    "-sc, --shell-completion install=bash|zsh|fish": 'shell completion, e.g. eval "$(flagperf -sc install=bash)"',
    "--version, -h, --help": "after a verb, --help is about that verb",
}
TABLES = {"options": OPTIONS, "exit codes": EXIT_CODES}  # a docstring names rows: `exit codes: 0, 2`
HEAD = """\
flagperf trains real models on AI accelerators and reports numbers that can be compared.

usage: flagperf [VERB] [OVERRIDES…] [OPTIONS]

  flagperf                                             resnet50 (tiny) on this machine's CPU, to its target
  flagperf model=glm nproc=2 repeat=3                  another case, two ranks, three rounds
  flagperf -m model=resnet50,glm nproc=1,2 max_steps=20            a sweep: one job per combination
  flagperf model=glm vendor=nvidia hardware=A100 nproc=8 dry_run=true        print it all, run nothing
"""


@cache
def verbs() -> Mapping[str, str]:
    """Name → module of each verb, in the order of names. A verb of another package cannot take the place of ours.

    Raises:
        ConfigError: flagperf was installed before its verbs were entry points.
    """
    modules = {name: value.partition(":")[0] for name, value in named(GROUP).items()}
    if DEFAULT not in modules:
        problem = "this installation of flagperf is older than its files"
        raise ConfigError(problem, where="installation", advice="pip install -e . in the folder of flagperf")
    return modules


def verb_help(name: str) -> str:
    """The text of `flagperf VERB --help`: the docstring, with the rows of TABLES that it names."""

    def rows(line: re.Match[str]) -> str:
        table = TABLES[line[1]]
        names = [next((row for row in table if name in re.split(r"[, ]+", row)), name) for name in line[2].split(", ")]
        return _table(line[1], {name: table.get(name, "") for name in names})

    return re.sub(rf"^({'|'.join(TABLES)}): (.+)\n", rows, _manual(name), flags=re.MULTILINE)


def help_text() -> str:
    """The text of `flagperf --help`."""
    summaries = {name: _manual(name).partition("\n")[0].partition(": ")[2] for name in verbs()}
    overrides = re.search(r"^overrides.*?\n\n", _manual(DEFAULT), re.MULTILINE | re.DOTALL)
    tables = {"verbs (flagperf VERB --help tells more)": summaries, **TABLES}
    first, *others = (_table(title, rows) for title, rows in tables.items())
    return "\n".join([HEAD, first, *([overrides[0][:-1]] if overrides else []), *others])


def usage(name: str) -> str:
    """The usage of a verb, in one line; several forms have a semicolon between them."""
    match = re.search(r"^usage: (.*?)\n\n", _manual(name), re.MULTILINE | re.DOTALL)
    return " ".join(match[1].split()).replace(" flagperf ", "; flagperf ") if match else f"flagperf {name}"


def words_of(name: str) -> list[str]:
    """The words in usage and explanations of a verb: "model=NAME", "check", "RUN_DIR"."""
    explained = _manual(name).partition("\nexamples:")[0]
    names = re.findall(r"^  (\S+(?: \S+)*)(?=  |\n)", explained, re.MULTILINE)
    forms = usage(name).replace(f"; flagperf {name} ", " ")
    return [word for text in (forms, *names) for word in re.split(r"[\s|\[\]]+", text) if word]


@cache
def _manual(name: str) -> str:
    """The docstring of a verb, read from its file; a line on the fault where another package is broken."""
    module = DEFAULT_MODULE if name == DEFAULT else verbs()[name]
    with suppress(Exception):  # a broken package of others must not hide the help of our verbs
        loader: Any = getattr(find_spec(module), "loader", None)
        tokens = tokenize.generate_tokens(io.StringIO(loader.get_source(module)).readline)
        text = next(token.string for token in tokens if token.type == tokenize.STRING)
        return f"{cleandoc(ast.literal_eval(text))}\n"
    return f"flagperf {name}: {module} has no docstring\n"


def _table(title: str, rows: Mapping[str, str]) -> str:
    """Names beside their explanations. A long name has its own line."""
    width = min(max(map(len, rows)), WIDEST)
    lines = [f"{title}:"]
    for name, text in rows.items():
        lines += [f"  {name:{width}}  {text}"] if len(name) <= width else [f"  {name}", f"  {'':{width}}  {text}"]
    return "\n".join([*lines, ""])
