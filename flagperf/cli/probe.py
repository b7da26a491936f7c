"""`flagperf probe`: what each device of a job achieves, measured by real ranks, and which are slower than others."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

from rich.table import Table

from flagperf.config.compose import compose
from flagperf.config.resolve import check_hosts
from flagperf.config.values import RunConfig
from flagperf.errors import InterruptedRunError, TrainingError
from flagperf.plan.dry_run import dry_run_text
from flagperf.plan.plan import make_plan
from flagperf.report.probe import probe_rows
from flagperf.results.probe import probed_devices, slower_devices
from flagperf.results.rank_log import read_rank_logs
from flagperf.results.result import write_json
from flagperf.results.values import ProbedDevice
from flagperf.run import folder as run_folder
from flagperf.run.console import Terminal, print_unfolded
from flagperf.run.execute import execute
from flagperf.run.progress import Progress

ALONE = ("size=tiny", "probe=alone")  # the reduced case: no data is needed
FILE = "probe.json"


def main(options: argparse.Namespace) -> int:
    """Start the ranks of a job as a run does, measure, print a table, and write it to probe.json."""
    run = compose([*options.arguments, *ALONE], options.config_dir)
    if run.dry_run:
        print(dry_run_text(run))
        return 0
    check_hosts(run)
    folder = run_folder.create(replace(run, run_name=run.run_name or f"probe{datetime.now():%Y%m%d-%H%M%S}"))
    devices = asyncio.run(measure(run, folder))
    slower = list(slower_devices(devices))
    report(run, devices, slower)
    figures = {"job": run.name, "data_sheet": run.hardware.peak_flops, "slower": slower}
    print(write_json({**figures, "devices": [asdict(device) for device in devices]}, folder / FILE))
    return 0


async def measure(run: RunConfig, folder: Path) -> tuple[ProbedDevice, ...]:
    """What the devices of the job achieved, by rank.

    Raises:
        FlagperfError: a host cannot be used, a rank failed, or the user interrupted it.
    """
    with Progress(run, Terminal(stderr=True)) as progress:
        outcome = await execute(run, make_plan(run, 1, folder), folder, progress)
    if outcome.status == "interrupted":
        raise InterruptedRunError("interrupted")
    if outcome.failure is not None:
        raise TrainingError(outcome.failure.line)  # told in full when it happened
    return probed_devices(read_rank_logs(outcome.folder))


def report(run: RunConfig, devices: Sequence[ProbedDevice], slower: Sequence[str]) -> None:
    """Print the figures of each device, and what is slower than its fellows."""
    rows = probe_rows(devices, run.config["hardware"].get("peak_flops") or {})
    table = Table(*(rows[0] if rows else ()), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    print_unfolded(table)
    for line in slower or (["No device is slower than its fellows."] if len(devices) > 1 else []):
        print(line)
