"""`flagperf bundle RUN_DIR FILE.tar.zst`: packs a run into one file that others can check."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from flagperf.bundle.pack import pack
from flagperf.bundle.signature import key_id, private_key
from flagperf.cli.words import expect, paths_and_options
from flagperf.run.console import Terminal


def main(options: argparse.Namespace) -> int:
    """Print what went into the bundle, and what was left out of it."""
    paths, given = paths_and_options("bundle", options.arguments, ("key",))
    expect("bundle", paths, 2, "a run folder and the file to write")
    run, target = paths
    key = private_key(Path(given["key"])) if "key" in given else None
    packed = pack(run, target, key)
    signed = "not signed: key=FILE signs it" if key is None else f"signed by {key_id(key.public_key())}"
    lines = [f"{target}: {packed.files} files, {target.stat().st_size:,} bytes, {signed}"]
    total = sum(packed.hidden.values())
    lines.append(f"secret values left out: {total or 'none, beside those that the run itself had hidden'}")
    lines += [f"  {name}: {count}" for name, count in packed.hidden.items()]
    terminal = Terminal()
    for line in lines:
        terminal.print(Text(line), soft_wrap=True)
    return 0
