"""`flagperf run probe=…`: what ranks measure in place of a training. Here: the figures and the slower devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from flagperf.cli.fabric import measure_fabric
from flagperf.cli.operators import measure_operators
from flagperf.config.schema.values import JobConfig
from flagperf.contract.records import ProbedDevice
from flagperf.errors import ConfigError
from flagperf.report.probe import probe_rows
from flagperf.results.json_record import write_json
from flagperf.results.probe import probed_devices, slower_devices
from flagperf.run.console import print_unfolded
from flagperf.run.ranks_alone import ask_ranks

FILE = "probe.json"


def probe(jobs: Sequence[JobConfig], config_dirs: Sequence[str]) -> int:
    """Start the ranks of a job as a run does, measure, print a table, and write it to probe.json.

    Raises:
        ConfigError: the command has several jobs.
    """
    if len(jobs) > 1:
        raise ConfigError(
            "a probe measures one job", key="probe", given=jobs[0].probe, advice="give one value of each key"
        )
    (job,) = jobs
    if job.probe in ("fabric", "links"):
        return measure_fabric(job, FILE)
    if job.probe == "operators":
        return measure_operators(job, config_dirs, FILE)
    folder, logs = ask_ranks(job, "probe")
    devices = probed_devices(logs)
    slower = list(slower_devices(devices))
    _print_table(job, devices, slower)
    figures = {"job": job.name, "data_sheet": job.hardware.peak_flops, "slower": slower}
    print(write_json({**figures, "devices": [asdict(device) for device in devices]}, folder / FILE))
    return 0


def _print_table(job: JobConfig, devices: Sequence[ProbedDevice], slower: Sequence[str]) -> None:
    """Print the figures of each device, and the devices that are slower than the others."""
    rows = probe_rows(devices, job.config["hardware"])
    table = Table(*(rows[0] if rows else ()), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    print_unfolded(table)
    for line in slower or (["No device is slower than its fellows."] if len(devices) > 1 else []):
        print(line)
