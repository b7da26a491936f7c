"""flagperf verify: check hashes and signature of a bundle, and recompute its figures

usage: flagperf verify FILE.tar.zst [key=FILE] [keys=FILE]

All figures are recomputed from the logs of the ranks, by code of its own.

words:
  FILE.tar.zst  what flagperf export wrote
  key=FILE      the public key of the signer; without this option the signature is not checked
  keys=FILE     public keys with their owners, a line each: NAME ssh-ed25519 AAAA…; for the approval of the vendor in
                FILE.tar.zst.approval.json, which flagperf approve writes

examples:
  flagperf verify run.tar.zst
  flagperf verify run.tar.zst key=lab.pub
  flagperf verify run.tar.zst keys=vendors.keys

exit codes: 0, 2, 9
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from rich.table import Table
from rich.text import Text

from flagperf.bundle.apart import Refused, examine
from flagperf.bundle.approval import approved_by
from flagperf.bundle.archive import unpack
from flagperf.bundle.check import BundleCheck, check_bundle
from flagperf.bundle.keyring import Keyring, read_keyring
from flagperf.bundle.signature import public_key
from flagperf.cli.words import expect, paths_and_options
from flagperf.run.console import print_unfolded
from flagperf.verify import Row, check, objections, texts

NOT_AS_STATED = 9
STYLES = {"agrees": "green", "differs": "bold red", "not recomputed": "dim"}


def main(options: argparse.Namespace) -> int:
    """Print one table for each round. The exit code is 0 where hashes, signatures and figures agree, else 9."""
    paths, values = paths_and_options("verify", options.arguments, ("key", "keys"))
    expect("verify", paths, 1, "one bundle")
    key = public_key(Path(values["key"])) if "key" in values else None
    keyring = read_keyring(Path(values["keys"])) if "keys" in values else {}
    (answer,) = examine(partial(_examined, key=key, keyring=keyring), paths)
    if isinstance(answer, Refused):
        if answer.error is not None:
            raise answer.error
        print_unfolded(Text(f"refused: {answer.reason}", style="bold red"))
        return NOT_AS_STATED
    bundle, rows, (approval, is_approval) = answer
    for location, location_rows in groupby(rows, key=lambda row: row.location):
        print_unfolded(_table(location, list(location_rows)))
        print()
    against = list(objections(rows))
    for line in (*_file_lines(bundle), approval, *_figure_lines(rows, against)):
        print_unfolded(line)
    is_good = not bundle.wrong and bundle.is_trusted and is_approval and not against
    return 0 if is_good else NOT_AS_STATED


def _examined(
    bundle: Path, folder: Path, key: Ed25519PublicKey | None, keyring: Keyring
) -> tuple[BundleCheck, list[Row], tuple[Text, bool]]:
    """The comparison of hashes and signature, that of all figures, and the approval."""
    run = unpack(bundle, folder)
    return check_bundle(run, key), check(run), _approval(bundle, keyring)


def _approval(bundle: Path, keyring: Keyring) -> tuple[Text, bool]:
    """A line on the vendor's approval, and whether there is nothing wrong with the approval."""
    try:
        signed = approved_by(bundle, keyring)
    except (ValueError, OSError) as error:
        return Text(f"approval: cannot be believed: {error}", style="bold red"), False
    if signed is None:
        return Text("approval: none"), True
    if not signed.owners:
        return Text(f"approval: by {signed.key}; not checked: give keys=FILE with this public key"), True
    return Text(f"approval: good, by {', '.join(signed.owners)}, {signed.key}", style="green"), True


def _table(location: str, rows: Sequence[Row]) -> Table:
    table = Table(title=location, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("figure", overflow="fold")
    table.add_column("stated", justify="right", overflow="fold")
    table.add_column("recomputed", justify="right", overflow="fold")
    table.add_column("")
    table.add_column("from, or why not", overflow="fold")
    for row in rows:
        stated, recomputed = texts(row)
        table.add_row(
            Text(row.figure), Text(stated), Text(recomputed), Text(row.answer, STYLES[row.answer]), Text(row.how)
        )
    return table


def _file_lines(bundle: BundleCheck) -> list[Text]:
    if not bundle.wrong:
        lines = [Text(f"hashes: all {bundle.files} files agree", style="green")]
    else:
        lines = [Text(f"hashes: {len(bundle.wrong)} files differ from the statement", style="bold red")]
    lines += [Text(f"  {sentence}", style="bold red") for sentence in bundle.wrong]
    lines.append(Text(f"signature: {bundle.signature}", style="" if bundle.is_trusted else "bold red"))
    return [*lines, Text(f"secret values left out: {bundle.hidden}")]


def _figure_lines(rows: Sequence[Row], against: Sequence[str]) -> Iterator[Text]:
    count = Counter(row.answer for row in rows)
    totals = f"{count['agrees']} agree, {count['differs']} differ, {count['not recomputed']} are not recomputed"
    yield Text(f"figures: {totals}", style="bold red" if against else "green")
    yield from (Text(f"  {sentence}", style="bold red") for sentence in against)
