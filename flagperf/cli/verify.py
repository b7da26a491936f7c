"""flagperf verify: check hashes and signature of a bundle, and recompute its figures

usage: flagperf verify FILE.tar.zst [key=FILE]

All figures are recomputed from the logs of the ranks, by code of its own.

words:
  FILE.tar.zst  what flagperf export wrote
  key=FILE      the public key of the signer; without this option the signature is not checked

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
from flagperf.bundle.check import BundleCheck, check_bundle
from flagperf.bundle.signature import public_key
from flagperf.cli.words import expect, paths_and_options
from flagperf.run.console import print_unfolded
from flagperf.verify import Row, check

NOT_AS_STATED = 9
STYLES = {"agrees": "green", "differs": "bold red", "not recomputed": "dim"}
FROM_LOGS = ("p_whole", "p_train", "p_core", "target_reached")
LONGEST = 24  # characters of a value in the table


def main(options: argparse.Namespace) -> int:
    """Print one table for each round. The exit code is 0 where hashes, signature and figures agree, else 9."""
    paths, values = paths_and_options("verify", options.arguments, ("key",))
    expect("verify", paths, 1, "one bundle")
    key = public_key(Path(values["key"])) if "key" in values else None
    with tempfile.TemporaryDirectory(prefix="flagperf-verify-") as folder:
        run = unpack(paths[0], Path(folder))
        bundle, rows = check_bundle(run, key), check(run)
    for location, location_rows in groupby(rows, key=lambda row: row.location):
        print_unfolded(_table(location, list(location_rows)))
        print()
    doubtful = [row for row in rows if row.answer == "differs" or _is_not_in_logs(row)]
    for line in (*_file_lines(bundle), *_figure_lines(rows, doubtful)):
        print_unfolded(line)
    is_good = not bundle.wrong and bundle.is_trusted and not doubtful and _states_figures(rows)
    return 0 if is_good else NOT_AS_STATED


def _states_figures(rows: Sequence[Row]) -> bool:
    """Whether any round states a throughput. A bundle without a throughput proves nothing."""
    return any(row.figure in FROM_LOGS and row.stated is not None for row in rows)


def _is_not_in_logs(row: Row) -> bool:
    """Whether the logs lack a figure that the logs of every training contain."""
    return row.figure in FROM_LOGS and row.stated is not None and row.answer == "not recomputed"


def _table(location: str, rows: Sequence[Row]) -> Table:
    table = Table(title=location, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("figure", overflow="fold")
    table.add_column("stated", justify="right", overflow="fold")
    table.add_column("recomputed", justify="right", overflow="fold")
    table.add_column("")
    table.add_column("from, or why not", overflow="fold")
    for row in rows:
        stated, recomputed = _texts(row)
        table.add_row(
            Text(row.figure), Text(stated), Text(recomputed), Text(row.answer, STYLES[row.answer]), Text(row.how)
        )
    return table


def _texts(row: Row) -> tuple[str, str]:
    """The stated and the recomputed value. Two numbers that differ have enough digits to show the difference."""
    values, digits = (row.stated, row.recomputed), 6
    if row.answer == "differs" and all(isinstance(value, float) for value in values):
        digits = next((count for count in range(6, 17) if len({f"{value:.{count}g}" for value in values}) > 1), 17)
    stated, recomputed = (_text(value, digits) for value in values)
    return stated, "" if row.answer == "not recomputed" else recomputed


def _text(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, (dict, list)):
        return f"{len(value)} fields" if isinstance(value, dict) else f"{len(value)} entries"
    text = "–" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _file_lines(bundle: BundleCheck) -> list[Text]:
    if not bundle.wrong:
        lines = [Text(f"hashes: all {bundle.files} files agree", style="green")]
    else:
        lines = [Text(f"hashes: {len(bundle.wrong)} files differ from the statement", style="bold red")]
    lines += [Text(f"  {sentence}", style="bold red") for sentence in bundle.wrong]
    lines.append(Text(f"signature: {bundle.signature}", style="" if bundle.is_trusted else "bold red"))
    return [*lines, Text(f"secret values left out: {bundle.hidden}")]


def _figure_lines(rows: Sequence[Row], doubtful: Sequence[Row]) -> list[Text]:
    count = Counter(row.answer for row in rows)
    totals = f"{count['agrees']} agree, {count['differs']} differ, {count['not recomputed']} are not recomputed"
    lines = [Text(f"figures: {totals}", style="bold red" if doubtful else "green")]
    if not _states_figures(rows):
        lines.append(Text("  no round of this bundle states a throughput: the bundle proves nothing", style="bold red"))
    for row in doubtful:
        stated, recomputed = _texts(row)
        result = f"recomputed {recomputed}" if row.answer == "differs" else row.answer
        lines.append(Text(f"  {row.location}: {row.figure} is {stated}, {result} ({row.how})", style="bold red"))
    return lines
