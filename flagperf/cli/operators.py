"""`flagperf run probe=operators`: time, share of the peak and error of each operator of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from flagperf.config.files.search_path import find, options, search_path
from flagperf.config.schema.values import JobConfig
from flagperf.contract.operators import read_table
from flagperf.contract.regular import read_mapping, write_atomically
from flagperf.errors import ConfigError, nearest
from flagperf.predict.speeds import of_probe
from flagperf.report.operators import missing_lines, operator_rows, operators_page
from flagperf.results.json_record import write_json
from flagperf.results.operators import operators_of
from flagperf.results.probe import probed_devices
from flagperf.run.console import print_rows
from flagperf.run.ranks_alone import ask_ranks

GROUP = "operators"


def measure_operators(job: JobConfig, config_dirs: Sequence[str], file: str) -> int:
    """Measure the operators of a table, print them, and write `file` and report.html into the run folder.

    Raises:
        ConfigError: there is no such table, or it is wrong.
    """
    folder, logs = ask_ranks(_with_rows(job, config_dirs), "probe")
    operators, devices = operators_of(logs), probed_devices(logs)
    sheet, measured = job.config["hardware"], of_probe(devices, job.identity.precision)
    peaks = {**(measured.peaks if measured else {}), **(sheet.get("peak_flops") or {})}
    memory = sheet.get("memory_bandwidth") or (measured.memory if measured else None)
    source = "the data sheet" if sheet.get("peak_flops") else "this probe"
    rows = operator_rows(operators, peaks, memory)
    print_rows(rows)
    lines = [*missing_lines(operators), f"The peaks are those of {source}."]
    for line in lines:
        print(line)
    print(write_atomically(folder / "report.html", operators_page(job.name, rows, lines)))
    record = {"job": job.name, "peaks": peaks, "memory": memory, "source": source}
    shares = [operator.share(peaks, memory) for operator in operators]
    figures = [
        {**asdict(operator), "share": share and share[0], "of": share and share[1]}
        for operator, share in zip(operators, shares, strict=True)
    ]
    print(write_json({**record, "operators": figures}, folder / file))
    return 0


def _with_rows(job: JobConfig, config_dirs: Sequence[str]) -> JobConfig:
    """The job with the rows of its table of operators, for the ranks."""
    settings = job.config[GROUP]
    folders = search_path([Path(folder) for folder in config_dirs])
    path = find(f"{GROUP}/{settings['table']}", folders)
    if path is None:
        allowed = nearest(settings["table"], options(GROUP, folders))
        raise ConfigError("no such table of operators", key="operators.table", given=settings["table"], allowed=allowed)
    content = read_mapping(path)
    read_table(content, str(path))
    return replace(job, config={**job.config, GROUP: {**settings, "rows": content["operators"]}})
