"""`flagperf probe`: what each device of a job achieves, measured by real ranks, and which are slower than others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from flagperf.cli.ranks_alone import ask_ranks
from flagperf.config.compose import compose
from flagperf.config.schema.values import JobConfig
from flagperf.contract.records import ProbedDevice
from flagperf.plan.dry_run import dry_run_text
from flagperf.report.probe import probe_rows
from flagperf.results.probe import probed_devices, slower_devices
from flagperf.results.result import write_json
from flagperf.run.console import print_unfolded

ALONE = ("size=tiny", "probe=alone")  # the reduced case: no data is needed
FILE = "probe.json"


def main(options: argparse.Namespace) -> int:
    """Start the ranks of a job as a run does, measure, print a table, and write it to probe.json."""
    job = compose([*options.arguments, *ALONE], options.config_dir)
    if job.dry_run:
        print(dry_run_text(job))
        return 0
    folder, logs = ask_ranks(job, "probe")
    devices = probed_devices(logs)
    slower = list(slower_devices(devices))
    report(job, devices, slower)
    figures = {"job": job.name, "data_sheet": job.hardware.peak_flops, "slower": slower}
    print(write_json({**figures, "devices": [asdict(device) for device in devices]}, folder / FILE))
    return 0


def report(job: JobConfig, devices: Sequence[ProbedDevice], slower: Sequence[str]) -> None:
    """Print the figures of each device, and what is slower than its fellows."""
    rows = probe_rows(devices, job.config["hardware"].get("peak_flops") or {})
    table = Table(*(rows[0] if rows else ()), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    print_unfolded(table)
    for line in slower or (["No device is slower than its fellows."] if len(devices) > 1 else []):
        print(line)
