"""The rounds of a job as MLPerf's power rules ask for them: a log of power for each round and node.

The rules: github.com/mlcommons/training_policies, power_measurement.adoc. The keys and the score are those of
`mlperf_logging` (github.com/mlcommons/logging), result_summarizer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.contract.monitor_log import SUFFIX, monitor_log, node_samples, parse_stamp
from flagperf.contract.records import Summary
from flagperf.contract.regular import parse_json
from flagperf.contract.sys_info import clock_offset
from flagperf.errors import ConfigError
from flagperf.results.rank_log import node_folders

MOST_SECONDS = 1.1  # between two readings: at least one a second, and the jitter of a meter's clock
LEAST_READINGS = 60
TOKEN = ":::MLLOG "
SPACES = re.compile(r"[\t,]\s*")


class Reading(NamedTuple):
    """A reading of a meter."""

    time: float  # seconds since the epoch
    watts: float


class Scored(NamedTuple):
    """A round whose logs were written."""

    round: int
    joules: float  # by MLPerf's formula, over all nodes and the network
    readings: int  # of the node with the fewest
    folder: Path


def write_power(
    run: Path, summary: Summary, target: Path, meters: Sequence[Path], conversion: float, network: float | None
) -> Iterator[Scored]:
    """Write `result_<n>.txt` and `power/result_<n>/node_<m>.txt` of each finished round into a new folder.

    Args:
        run: folder of the run.
        summary: of its job.
        meters: a log for each node, in the order of the node ranks; none: pwr_monitor.log of each node.
        conversion: DC power of the nodes / measured power.
        network: watts of the links between the nodes, estimated; written as `sw_0.txt`.

    Raises:
        ConfigError: a log breaks one of the rules, or is missing.
    """
    finished = [result for result in summary.results if result.status == "finished"]
    if not finished:
        raise ConfigError("no round has finished", given=run)
    target.mkdir(parents=True, exist_ok=True)
    for number, result in enumerate(finished):
        nodes = node_folders(run / summary.name / f"round{result.round}")
        log = nodes[0][2] / "mllog.log"
        text = _mllog(log)
        began, ended = (_time_of(text, key, log) for key in ("run_start", "run_stop"))
        measured = {}
        for (host, _, node), meter in _with(nodes, meters):
            path, readings = _readings(host, node, nodes[0][2], meter)
            measured[host] = _covering(readings, began, ended, path)
        files = {f"node_{at}": list(_node_lines(measured[host], conversion, host)) for at, host in enumerate(measured)}
        if network is not None:
            files["sw_0"] = [_line("POINT_IN_TIME", "interconnect_power_est", network, began, {"host": "sw_0"})]
        folder = target / "power" / f"result_{number}"
        folder.mkdir(parents=True)
        (target / f"result_{number}.txt").write_text(text, encoding="utf-8")
        for name, lines in files.items():
            (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
        joules = math.fsum(conversion * _joules(readings, ended - began) for readings in measured.values())
        joules += (network or 0.0) * (ended - began)
        yield Scored(result.round, joules, min(map(len, measured.values())), folder)


def _with(nodes: Sequence[tuple[str, int, Path]], meters: Sequence[Path]) -> Iterator[tuple[Any, Path | None]]:
    """Each node with its meter."""
    if meters and len(meters) != len(nodes):
        raise ConfigError("all nodes must be measured", key="meter", given=len(meters), allowed=f"{len(nodes)} files")
    of_nodes: Sequence[Path | None] = meters or [None] * len(nodes)
    return zip(nodes, of_nodes, strict=True)


def _mllog(log: Path) -> str:
    if not log.is_file():
        raise ConfigError("the run has no log of MLPerf", where=str(log), advice="run it with sinks=[mllog]")
    return log.read_text(encoding="utf-8")


def _time_of(text: str, key: str, log: Path) -> float:
    """The time of the last line with a key, in seconds since the epoch."""
    bodies = (parse_json(line[len(TOKEN) :]) for line in text.splitlines() if line.startswith(TOKEN))
    try:
        times = [float(body["time_ms"]) / 1000 for body in bodies if body["key"] == key]
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError("the log of MLPerf cannot be read", where=str(log), given=str(error)) from None
    if not times:
        raise ConfigError(f"the log has no {key}", where=str(log))
    return times[-1]


def _readings(host: str, node: Path, first: Path, meter: Path | None) -> tuple[Path, list[Reading]]:
    """The readings of a node, in the order of their times, by the clock of the first node; and their file."""
    if meter is not None:
        return meter, sorted(_of_meter(meter))
    path = node / f"pwr{SUFFIX}"
    samples = list(node_samples(monitor_log(node, "pwr")))
    if not samples or len(samples[-1][1]) > 1:  # a counter: RAPL
        raise ConfigError(
            f"no meter measured the whole node {host}",
            where=str(path),
            advice="meter=FILE for each node, or run with a management controller and monitor.power_interval=1",
        )
    ahead = clock_offset(node) - clock_offset(first)
    return path, sorted(Reading(time - ahead, values[0]) for time, values in samples)


def _of_meter(meter: Path) -> Iterator[Reading]:
    """The readings of a meter's log. Lines before the first reading, such as a heading, are left out."""
    try:
        text = meter.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"the log cannot be read: {error.strerror}", key="meter", given=meter) from None
    known = False
    for number, line in enumerate(text.splitlines(), start=1):
        words = SPACES.split(line.strip())
        time = _moment(words[0])
        try:
            yield Reading(time or float(words[0]), float(words[1]))
            known = True
        except (ValueError, IndexError):
            if known and line.strip():
                raise ConfigError(
                    "no reading",
                    where=f"{meter}:{number}",
                    given=line[:80],
                    allowed="TIME,WATTS; TIME is ISO 8601, seconds since the epoch, or a time of pwr_monitor.log",
                ) from None


def _moment(word: str) -> float | None:
    try:
        return datetime.fromisoformat(word).timestamp()
    except ValueError:
        return parse_stamp(word)


def _covering(readings: Sequence[Reading], began: float, ended: float, path: Path) -> list[Reading]:
    """The readings from the last one before a run to the first one after it.

    Raises:
        ConfigError: they do not cover the run, are too few, or too far apart.
    """
    before = [at for at, reading in enumerate(readings) if reading.time <= began]
    after = [at for at, reading in enumerate(readings) if reading.time >= ended]
    if not before or not after:
        where = "begin" if not before else "end"
        raise ConfigError(f"the readings do not cover the {where} of the run", where=str(path), allowed="the whole run")
    covering = list(readings[before[-1] : after[0] + 1])
    longest = max(later.time - earlier.time for earlier, later in pairwise(covering))
    if longest > MOST_SECONDS:
        raise ConfigError(
            "two readings are too far apart",
            where=str(path),
            given=f"{longest:.2f} s",
            allowed="one reading in each second",
        )
    if len(covering) < LEAST_READINGS:
        raise ConfigError(
            "too few readings: the run is too short",
            where=str(path),
            given=len(covering),
            allowed=f"at least {LEAST_READINGS}",
            advice="train for a minute or longer",
        )
    return covering


def _joules(readings: Sequence[Reading], seconds: float) -> float:
    """Energy of a run of these seconds: each reading counts for the time since the one before it."""
    total = sum(later.watts * (later.time - earlier.time) for earlier, later in pairwise(readings))
    return total * seconds / (readings[-1].time - readings[0].time)


def _node_lines(readings: Sequence[Reading], conversion: float, host: str) -> Iterator[str]:
    first, *others = readings
    yield _line("INTERVAL_START", "power_measurement_start", None, first.time, {"host": host})
    yield _line("POINT_IN_TIME", "conversion_eff", conversion, first.time, {"host": host})
    for reading in others:
        yield _line("POINT_IN_TIME", "power_reading", reading.watts, reading.time, {"host": host})
    yield _line("INTERVAL_END", "power_measurement_stop", None, readings[-1].time, {"host": host})


def _line(kind: str, key: str, value: float | None, time: float, metadata: dict[str, Any]) -> str:
    body = {"namespace": "", "time_ms": round(time * 1000), "event_type": kind, "key": key, "value": value}
    return f"{TOKEN}{json.dumps({**body, 'metadata': metadata})}\n"
