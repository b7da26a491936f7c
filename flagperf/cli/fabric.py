"""`flagperf run probe=fabric` and `probe=links`: the links of a job, measured by real ranks, and the slow ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from flagperf.config.schema.values import JobConfig
from flagperf.contract.fabric import NODE, Curve
from flagperf.contract.regular import write_atomically
from flagperf.errors import ConfigError, HostError
from flagperf.report.fabric import curve_rows, fabric_page, reason_lines
from flagperf.results.fabric import Searched, curves_of, searches_of, slow_lines
from flagperf.results.json_record import write_json
from flagperf.results.rank_log import RankLog
from flagperf.run.console import print_rows
from flagperf.run.ranks_alone import ask_ranks

PARTS = {NODE: "between the devices of each node"}


def measure_fabric(job: JobConfig, file: str) -> int:
    """Measure the links of a job, print them, and write `file` and report.html into the run folder.

    Returns the exit code: with probe=links, 3 where a link is slow.

    Raises:
        ConfigError: probe=links with one rank, which has no link.
    """
    if job.probe == "links" and job.world_size == 1:
        raise ConfigError(
            "a search for a slow link needs two ranks",
            key="nproc",
            given=1,
            advice="nproc=2, or a cluster and nnodes=2",
        )
    folder, logs = ask_ranks(job, "probe")
    curves, searches = curves_of(logs), searches_of(logs)
    hosts = hosts_of(logs, job.nproc)
    slow = slow_lines(searches, hosts, job.nproc)
    search_lines = slow or healthy_lines(searches)
    print_rows(curve_rows(curves))
    for line in [*reason_lines(curves), *search_lines]:
        print(line)
    if curves:
        print(write_atomically(folder / "report.html", fabric_page(job.name, curves, search_lines)))
    print(write_json(_record(job, hosts, curves, searches, slow), folder / file))
    return HostError.exit_code if slow and job.probe == "links" else 0


def hosts_of(logs: Sequence[RankLog], nproc: int) -> list[str]:
    """The hosts of the nodes, by node rank."""
    return [log.host for log in logs if log.rank % nproc == 0]


def healthy_lines(searches: Sequence[Searched]) -> list[str]:
    """What the search for slow links measured, where it names nobody."""
    return [
        f"No link {PARTS.get(search.part, 'between nodes')} is slow: {search.measured} measured in "
        f"{search.rounds} round{'s' if search.rounds > 1 else ''} of pairs."
        for search in searches
    ]


def _record(
    job: JobConfig, hosts: Sequence[str], curves: Sequence[Curve], searches: Sequence[Searched], slow: Sequence[str]
) -> dict[str, Any]:
    """What the file holds: seconds, bytes and bytes/s."""
    return {
        "job": job.name,
        "hosts": hosts,
        "nproc": job.nproc,
        "backend": job.vendor.backend,
        "slow": slow,
        "curves": [
            {
                **asdict(curve),
                "algorithm_bandwidths": curve.algorithm_bandwidths,
                "bus_bandwidths": curve.bus_bandwidths,
                "line": curve.line and asdict(curve.line),
            }
            for curve in curves
        ],
        "searches": [asdict(search) for search in searches],
    }
