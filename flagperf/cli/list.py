"""flagperf list: show the choices of a kind, a choice, the settings of a case, or the runs of a folder

usage: flagperf list [KIND… | CHOICE… | CASE [framework=NAME] [size=tiny] | runs [RESULT_DIR] [KEY=VALUE…] [sort=KEY]
       [html=FILE]]

words:
  KIND                          a word of the next line; without a word, all kinds
  cases|frameworks|vendors|hardware|clusters|experiments
                                names and titles; cases in groups: vision, language, speech, …
  CHOICE                        a vendor, product, framework, cluster or experiment: its file and its values
  CASE                          target, data, tunings, and settings: default, unit, range, and whether a closed run may
                                change it
  runs [RESULT_DIR]             the runs of a result folder (result), newest first
  case=NAME vendor=NAME hardware=NAME scale=1x8 precision=NAME verdict=VALID
                                only runs with this value, or with one of several: verdict=VALID,SUSPECT
  sort=date|run|job|verdict|p_train
                                the order of the runs; the newest and the fastest come first
  html=FILE                     also write the runs as a page, with links to their reports

options: --config-dir

examples:
  flagperf list hardware
  flagperf list A100
  flagperf list bert framework=paddle
  flagperf list runs case=resnet50 verdict=VALID sort=p_train

exit codes: 0, 2
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.markup import escape

from flagperf.cli.list_case import case_table, columns
from flagperf.cli.list_runs import list_runs
from flagperf.config.about_case import about_case, frameworks
from flagperf.config.about_choice import about_choice, groups_of, product_vendor
from flagperf.config.files import search_path
from flagperf.config.schema.keys import FIELDS
from flagperf.errors import ConfigError, meant
from flagperf.report.fitted import FittedTable
from flagperf.run.console import print_unfolded

KINDS = {
    "cases": "model",
    "frameworks": "framework",
    "vendors": "vendor",
    "hardware": "hardware",
    "clusters": "cluster",
    "experiments": "experiment",
}  # word of the command line → configuration group
RUNS = "runs"


def main(options: argparse.Namespace) -> int:
    """Print the choices of the given kinds, or of all kinds; or the runs of a folder; or the settings of a case."""
    first, folders = next(iter(options.arguments), None), search_path.search_path(options.config_dir)
    if first == RUNS:
        return list_runs(options.arguments[1:])
    if first in (cases := search_path.cases(folders)):
        print_unfolded(case_table(about_case(first, options.arguments[1:], options.config_dir)))
        return 0
    for kind in options.arguments or KINDS:
        if kind in KINDS:
            print_unfolded(_kind_table(kind, options.config_dir))
            continue
        if not (groups := groups_of(kind, folders)):
            choices = (name for group in KINDS.values() for name in search_path.options(group, folders))
            lists = [*KINDS, RUNS]
            allowed = meant(kind, {*lists, *cases, *choices}) or f"{', '.join(lists)}, or a name in one of these lists"
            raise ConfigError("no list and no choice has this name", given=kind, allowed=allowed)
        for group in groups:
            print_unfolded(columns(iter(about_choice(group, kind, folders))))
    return 0


def _kind_table(kind: str, config_dirs: Sequence[Path]) -> FittedTable:
    folders = search_path.search_path(config_dirs)
    table = FittedTable(title=kind, title_justify="left", show_header=False, padding=(0, 1, 0, 1))
    for heading, members in _grouped(kind, rows(kind, config_dirs), folders):
        if heading:
            table.add_row(f"[bold]{heading}[/bold]")
        for name, title in members:
            further = [", ".join(FURTHER[kind](name, folders))] if kind in FURTHER else []
            table.add_row(*map(escape, ("  " * bool(heading) + name, title, *further)))
    return table


def _grouped(
    kind: str, choices: Sequence[tuple[str, str]], folders: Sequence[Path]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Cases by their field; a case of the user's own may have none. Other choices are one group without a heading."""
    if kind != "cases":
        yield "", list(choices)
        return
    fields = {name: _field(name, folders) for name, _ in choices}
    for field in (*FIELDS, ""):
        members = [choice for choice in choices if fields[choice[0]] == field]
        if members:
            yield field or "other", members


def _field(case: str, folders: Sequence[Path]) -> str:
    """The field of a case: of its file, or of the file that it begins with; empty for none, or for a wrong one."""
    paths = (search_path.find(name, folders) for name in search_path.chain(f"model/{case}", folders))
    values = (_value("field", path.read_text(encoding="utf-8")) for path in paths if path)
    value = next(filter(None, values), "")
    return value if value in FIELDS else ""


def rows(kind: str, config_dirs: Sequence[Path] = ()) -> list[tuple[str, str]]:
    """Name and title of each choice of a kind, sorted by name, also from the user's own folders.

    Files are not parsed, so that an error in a file does not hide the other files.
    """
    folders = search_path.search_path(config_dirs)
    group = KINDS[kind]
    paths = ((name, search_path.find(f"{group}/{name}", folders)) for name in search_path.options(group, folders))
    return [(name, _title(path.read_text(encoding="utf-8"))) for name, path in paths if path]


def install(framework: str, folders: Sequence[Path]) -> list[str]:
    """The advice of a framework's file on how to install the framework; empty where the file has none."""
    file = search_path.find(f"framework/{framework}", folders)
    text = _value("install", file.read_text(encoding="utf-8")) if file else None
    return [text] if text else []


def vendor(hardware: str, folders: Sequence[Path]) -> list[str]:
    """The vendor of a product."""
    return [product_vendor(hardware, folders)]


# kind → further texts of a choice, beside its title
FURTHER: Mapping[str, Callable[[str, Sequence[Path]], Sequence[str]]] = {
    "cases": frameworks,
    "frameworks": install,
    "hardware": vendor,
}


def _value(key: str, text: str) -> str | None:
    """The value of a key, where the value is a text in the line of the key."""
    match = re.search(rf"^\s*{key}:\s*(.+?)\s*$", text, re.MULTILINE)
    return match[1].split("  #")[0].strip().strip("\"'") if match else None


def _title(text: str) -> str:
    """The value of `title:`, else the first comment that is not a command."""
    if title := _value("title", text):
        return title
    comments = re.findall(r"^# (?!@package|flagperf)(.+)$", text, re.MULTILINE)
    return comments[0] if comments else ""
