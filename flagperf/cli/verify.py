"""flagperf verify: check hashes and signature of a bundle, and compute its figures a second time

usage: flagperf verify FILE.tar.zst [key=FILE]

All figures come from the logs of the ranks, by code that shares nothing with what wrote them.

words:
  FILE.tar.zst  what flagperf export wrote
  key=FILE      the public key of who signed it; else the signature is not checked

examples:
  flagperf verify run.tar.zst
  flagperf verify run.tar.zst key=lab.pub

exit codes: 0, 2, 9
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from flagperf.bundle.archive import unpack
from flagperf.bundle.held import Held, hold
from flagperf.bundle.signature import public_key
from flagperf.cli.words import expect, paths_and_options
from flagperf.run.console import print_unfolded
from flagperf.verify import Row, check

NOT_AS_STATED = 9
STYLES = {"agrees": "green", "differs": "bold red", "not recomputed": "dim"}
PROVEN = ("p_whole", "p_train", "p_core", "target_reached")
LONGEST = 24  # characters of a value in the table


def main(options: argparse.Namespace) -> int:
    """Print a table a round; the exit code is 0 where hashes, signature and figures agree, else 9."""
    paths, given = paths_and_options("verify", options.arguments, ("key",))
    expect("verify", paths, 1, "one bundle")
    key = public_key(Path(given["key"])) if "key" in given else None
    with tempfile.TemporaryDirectory(prefix="flagperf-verify-") as folder:
        run = unpack(paths[0], Path(folder))
        held, rows = hold(run, key), check(run)
    for place, of_place in groupby(rows, key=lambda row: row.place):
        print_unfolded(_table(place, list(of_place)))
        print()
    doubtful = [row for row in rows if row.answer == "differs" or _lacks_proof(row)]
    for line in (*_of_files(held), *_of_figures(rows, doubtful)):
        print_unfolded(line)
    is_good = not held.wrong and held.is_trusted and not doubtful and _states_figures(rows)
    return 0 if is_good else NOT_AS_STATED


def _states_figures(rows: Sequence[Row]) -> bool:
    """Whether any round has a throughput: without one, nothing is shown."""
    return any(row.figure in PROVEN and row.stated is not None for row in rows)


def _lacks_proof(row: Row) -> bool:
    """A figure that every log of a training tells, and these do not."""
    return row.figure in PROVEN and row.stated is not None and row.answer == "not recomputed"


def _table(place: str, rows: Sequence[Row]) -> Table:
    table = Table(title=place, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("figure", overflow="fold")
    table.add_column("stated", justify="right", overflow="fold")
    table.add_column("recomputed", justify="right", overflow="fold")
    table.add_column("")
    table.add_column("from, or why not", overflow="fold")
    for row in rows:
        stated, found = _values(row)
        table.add_row(Text(row.figure), Text(stated), Text(found), Text(row.answer, STYLES[row.answer]), Text(row.how))
    return table


def _values(row: Row) -> tuple[str, str]:
    """Stated and recomputed; of two numbers that differ, all digits that tell them apart."""
    values, digits = (row.stated, row.found), 6
    if row.answer == "differs" and all(isinstance(value, float) for value in values):
        digits = next((count for count in range(6, 17) if len({f"{value:.{count}g}" for value in values}) > 1), 17)
    stated, found = (_shown(value, digits) for value in values)
    return stated, "" if row.answer == "not recomputed" else found


def _shown(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, (dict, list)):
        return f"{len(value)} fields" if isinstance(value, dict) else f"{len(value)} entries"
    text = "–" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _of_files(held: Held) -> list[Text]:
    if not held.wrong:
        lines = [Text(f"hashes: all {held.files} files agree", style="green")]
    else:
        lines = [Text(f"hashes: {len(held.wrong)} files differ from the statement", style="bold red")]
    lines += [Text(f"  {sentence}", style="bold red") for sentence in held.wrong]
    lines.append(Text(f"signature: {held.signature}", style="" if held.is_trusted else "bold red"))
    return [*lines, Text(f"secret values left out: {held.hidden}")]


def _of_figures(rows: Sequence[Row], doubtful: Sequence[Row]) -> list[Text]:
    count = Counter(row.answer for row in rows)
    said = f"{count['agrees']} agree, {count['differs']} differ, {count['not recomputed']} are not recomputed"
    lines = [Text(f"figures: {said}", style="bold red" if doubtful else "green")]
    if not _states_figures(rows):
        lines.append(Text("  no round of this bundle states a throughput: nothing is shown", style="bold red"))
    for row in doubtful:
        stated, found = _values(row)
        again = f"recomputed {found}" if row.answer == "differs" else row.answer
        lines.append(Text(f"  {row.place}: {row.figure} is {stated}, {again} ({row.how})", style="bold red"))
    return lines
