"""flagperf export: write the figures of a run for a spreadsheet or another program, or pack the run into a file

usage: flagperf export RUN_DIR FILE.csv|FILE.xlsx|FILE.json|FILE.tar.zst [key=FILE]
       flagperf export RUN_DIR FOLDER meter=node|FILE[,FILE…] [conversion=SHARE] [network=WATTS]

words:
  RUN_DIR       a folder that a run made, such as result/run20260101-120000; flagperf list runs shows them
  FILE.csv      one row per job: case, scale, verdict, mean and spread of each figure
  FILE.xlsx     the same as a sheet, and sheets of the rounds and of what was changed
  FILE.json     all of it, in the form that docs/benchmark.schema.json describes
  FILE.tar.zst  a bundle: all files of the run, without secrets, which others can check with flagperf verify; the same
                run gives the same bytes
  key=FILE      sign the bundle with this Ed25519 key, as ssh-keygen or openssl make them
  FOLDER        logs of each round by MLPerf's rules of power, for a run with sinks=[mllog]; docs/mlperf.md
  meter=        node: what the management controllers of the nodes measured; or a meter's log for each node
  conversion=   DC power of the nodes / measured power; default 1
  network=      estimated watts of the links between the nodes

examples:
  flagperf export result/run20260101-120000 summary.csv
  flagperf export result/run20260101-120000 benchmark.json
  flagperf export result/run20260101-120000 run.tar.zst key=~/.ssh/id_ed25519
  flagperf export result/run20260101-120000 power meter=node0.csv,node1.csv conversion=0.94 network=1200

exit codes: 0, 2
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from rich.text import Text

from flagperf import report
from flagperf.bundle.archive import SUFFIX
from flagperf.cli.words import above_0, expect, paths_and_options
from flagperf.errors import ConfigError
from flagperf.export.files import FORMATS, write
from flagperf.export.mlperf_power import write_power
from flagperf.export.record import benchmark
from flagperf.run.console import Terminal
from flagperf.user import user_path

POWER = ("meter", "conversion", "network")


def main(parsed: argparse.Namespace) -> int:
    """Print the path of the written file; of a bundle, also the number of hidden values."""
    paths, options = paths_and_options("export", parsed.arguments, ("key", *POWER))
    expect("export", paths, 2, "a run folder and the file to write")
    run, target = paths
    if "meter" in options:
        return _power(run, target, options)
    if target.name.endswith(SUFFIX) and target.name != SUFFIX:
        return _bundle(run, target, options.get("key"))
    if "key" in options:
        raise ConfigError("only a bundle is signed", key="key", given=options["key"], allowed=f"with FILE{SUFFIX}")
    if target.suffix.lower() not in FORMATS:
        allowed = " or ".join(f"FILE{suffix}" for suffix in (*FORMATS, SUFFIX))
        raise ConfigError("unknown format", given=target, allowed=allowed)
    write(benchmark(run, report.read_run(run)), target)
    print(target)
    return 0


def _power(run: Path, target: Path, options: Mapping[str, str]) -> int:
    summaries = report.read_run(run)
    if len(summaries) != 1:
        raise ConfigError("MLPerf's logs are those of one job", given=run, allowed="a run with one job")
    if target.exists():
        raise ConfigError("this folder exists already", given=target, advice="remove it, or choose another name")
    files = [] if options["meter"] == "node" else [user_path(file) for file in options["meter"].split(",")]
    numbers = {key: above_0(key, options[key]) for key in ("conversion", "network") if key in options}
    for scored in write_power(run, summaries[0], target, files, numbers.get("conversion", 1.0), numbers.get("network")):
        energy = f"{scored.joules / 3.6e6:.4g} kWh ({scored.joules:,.0f} J)"
        print(f"round {scored.round}: {energy}, {scored.readings} readings: {scored.folder}")
    return 0


def _bundle(run: Path, target: Path, key_file: str | None) -> int:
    from flagperf.bundle.pack import pack
    from flagperf.bundle.signature import key_id, private_key

    key = private_key(Path(key_file)) if key_file is not None else None
    packed = pack(run, target, key)
    signature_text = "not signed: key=FILE signs it" if key is None else f"signed by {key_id(key.public_key())}"
    lines = [f"{target}: {packed.files} files, {target.stat().st_size:,} bytes, {signature_text}"]
    total = sum(packed.hidden.values())
    lines.append(f"secret values left out: {total or 'none, beside those that the run itself had hidden'}")
    lines += [f"  {name}: {count}" for name, count in packed.hidden.items()]
    terminal = Terminal()
    for line in lines:
        terminal.print(Text(line), soft_wrap=True)
    return 0
