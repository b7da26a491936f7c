"""A round's folder → Result, and result.json. docs/results.md explains each field."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flagperf.contract.build import build, values_of_fields
from flagperf.contract.digest import sha256_of
from flagperf.contract.extent import extent_of
from flagperf.contract.identity import Identity
from flagperf.contract.outcome import Failure, Outage, Outcome
from flagperf.contract.perflog import Event, fits
from flagperf.contract.records import Change, LateRank, Result, SlowRank, Summary
from flagperf.contract.sample_data import is_sample_folder
from flagperf.contract.sys_info import clock_offset, read_sys_info
from flagperf.contract.target import Target
from flagperf.errors import ConfigError
from flagperf.results.achievable import achievable, trace_of
from flagperf.results.closed import notes
from flagperf.results.compared import compared
from flagperf.results.cost import cost_of, price_of_job
from flagperf.results.evidence import TRAINING_LIMITS, Evidence
from flagperf.results.image import with_image
from flagperf.results.json_record import read_json, write_json
from flagperf.results.parts import Part
from flagperf.results.probe import probed_devices, slower_devices
from flagperf.results.rank_log import RankLog, node_folders, read_rank_logs
from flagperf.results.restarts import restarts_of
from flagperf.results.round_monitors import round_monitors
from flagperf.results.slow_ranks import slow_and_late
from flagperf.results.took_part import took_part
from flagperf.results.verdict import judge

FILE = "result.json"
MISSED = 6  # exit code
RECORDED = ("case", "framework", "hardware", "vendor", "size", "nnodes", "nproc", "division", "revision")  # of Identity


@dataclass(frozen=True)
class Ending:
    """How a round ended, as its launcher or its nodes recorded it. The fields are those of `Result`."""

    status: str
    failure: Failure | None = None
    started: float | None = None
    seconds: float | None = None
    trained: float | None = None
    outages: tuple[Outage, ...] = ()
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Outcome | Part | Result) -> Ending:
        """The ending that a record of the round holds."""
        return cls(**values_of_fields(cls, vars(record)))


def read_round(
    outcome: Outcome, round_number: int, config: Mapping[str, Any], changes: Iterable[Change], sweep: Mapping[str, str]
) -> Result:
    """The result of a round that was executed, from its outcome and the logs in its folder.

    Args:
        round_number: the first round is 1.
        config, changes, sweep: of the job, as `result_of_logs` takes them.
    """
    result = result_of_logs(config, changes, round_number, outcome.folder, Ending.of(outcome), sweep)
    return dataclasses.replace(result, previous=digest(outcome.folder.parent / f"round{round_number - 1}"))


def result_of_logs(
    config: Mapping[str, Any],
    changes: Iterable[Change],
    round_number: int,
    folder: Path,
    ending: Ending,
    sweep: Mapping[str, str] | None = None,
) -> Result:
    """The result of a round from the logs of its ranks and nodes. Any of the logs may be missing.

    Args:
        config: the configuration of the job, as config.yaml holds it.
        changes: the values that differ from the case. They show which limits the user asked for.
        round_number, folder: of the round. The first round is 1. The folder need not exist.
        ending: how the round ended, as far as that is recorded.
        sweep: swept key → value, of a job of a multirun.
    """
    identity, logs = Identity.of(config), read_rank_logs(folder)
    evidence, probe = _evidence(config, changes, round_number, logs, ending), probed_devices(logs)
    values = evidence.finished
    evidence = replace(evidence, achievable=achievable(trace_of(folder.parent), config, values, probe))
    verdict, reasons = judge(evidence)
    findings = slow_and_late(folder, logs, config, identity.devices)
    monitors = round_monitors(folder, logs, config, values.get("num_trained_samples"))
    reached = _reached(evidence.target, values, evidence.user_limits) if _target_applies(evidence) else None
    price = price_of_job(config, identity.devices, identity.nnodes)
    return Result(
        identity=identity,
        round=round_number,
        verdict=verdict,
        reasons=reasons,
        sample_data=_sample_data(evidence),
        target=evidence.target,
        target_reached=reached,
        values=values,
        monitors=monitors,
        cost=cost_of(values, ending.phases, monitors.get("energy", {}), price, reached),
        clocks={path.name: offset for _, _, path in node_folders(folder) if (offset := clock_offset(path))},
        sweep=sweep or {},
        built=with_image(next(iter(evidence.built.values()), {}), folder),
        seed=_seed(logs),
        synthetic=bool(config.get("synthetic")),
        notes=(*_notes(evidence, folder), *slower_devices(probe)),
        probe=probe,
        other_data=evidence.other_data,
        slow_ranks=tuple(finding for finding in findings if isinstance(finding, SlowRank)),
        late_ranks=tuple(finding for finding in findings if isinstance(finding, LateRank)),
        achievable=evidence.achievable,
        restarts=restarts_of(folder, values),
        **vars(ending),
    )


def _evidence(
    config: Mapping[str, Any], changes: Iterable[Change], round_number: int, logs: Sequence[RankLog], ending: Ending
) -> Evidence:
    limits = {key: float(config[key]) for key in TRAINING_LIMITS if config.get(key) is not None}
    return Evidence(
        status=ending.status,
        world_size=Identity.of(config).devices,
        logs=logs,
        failure=ending.failure,
        round=round_number,
        seconds=ending.seconds,
        trained=ending.trained,
        unseen=sum(outage.seconds for outage in ending.outages),
        limits=limits,
        user_limits=[
            change.key for change in changes if change.key in limits and not change.source.startswith("tuning")
        ],
        target=_target(config),
        memory_gib=config["hardware"].get("memory_gib"),
        config=config,
        extent=None if config.get("synthetic") else extent_of(config),
    )


def _sample_data(evidence: Evidence) -> bool:
    """Whether the ranks trained on sample data."""
    return bool(evidence.finished.get("sample_data", is_sample_folder(evidence.config)))


def _target_applies(evidence: Evidence) -> bool:
    """Whether the ranks trained on data for which the target is meant."""
    other_data = evidence.config.get("synthetic") or evidence.other_data
    return not other_data and not (_sample_data(evidence) and evidence.config["size"] == "full")


def _notes(evidence: Evidence, folder: Path) -> Iterator[str]:
    yield from notes(evidence)
    yield from _profiled(evidence.config)
    yield from compared(evidence)
    yield from took_part(evidence)
    yield from _crowded(folder, evidence.config)
    yield from evidence.resume_notes


def _profiled(config: Mapping[str, Any]) -> Iterator[str]:
    if config.get("profile"):
        yield "profiled: some steps were traced (trace.json of rank 0), which takes time"


def _crowded(folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """A note where ranks that compute on processors shared cores, on the host with the fewest cores."""
    texts = [read_sys_info(node).get("cores", "") for _, _, node in node_folders(folder)]
    cores = [int(text) for text in texts if text.isdigit()]
    if config["vendor"].get("device") == "cpu" and cores and config["nproc"] > min(cores):
        yield f"{config['nproc']} ranks share {min(cores)} cores"


def _seed(logs: Iterable[RankLog]) -> int | None:
    """The seed that the ranks read."""
    submitted = (event.value for log in logs for event in log.all("SUBMIT_INFO"))
    return next((value["config"]["seed"] for value in submitted if "seed" in (value.get("config") or {})), None)


def exit_code(summaries: Iterable[Summary], require_target: bool) -> int:
    """0: every round can be used; 2: a rank refused the configuration; 5: a round is INVALID; 6: a target is missed."""
    results = [result for summary in summaries for result in summary.results]
    if any(result.failure is not None and result.failure.is_refusal for result in results):
        return ConfigError.exit_code
    if any(result.verdict == "INVALID" for result in results):
        return 5
    if require_target and any(result.target_reached is not True for result in results):
        return MISSED
    return 0


def write(result: Result, folder: Path) -> Path:
    """Write result.json into the round's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_json(record_of(result), folder / FILE)


def record_of(result: Result) -> dict[str, Any]:
    """A Result as plain data. The recorded fields of its identity are fields of the record."""
    record = dataclasses.asdict(result)
    identity = record.pop("identity")
    return {**{name: identity[name] for name in RECORDED}, **record}


def digest(folder: Path) -> str:
    """SHA-256 of a round's result.json; "" where there is none."""
    path = folder / FILE
    return sha256_of(path) if path.is_file() else ""


def read(folder: Path, config: Mapping[str, Any]) -> Result:
    """Read result.json of a round, of a job with this configuration.

    Raises:
        ConfigError: another version wrote the file, or it is damaged.
    """
    return from_record(read_json(folder / FILE), config, folder / FILE)


def from_record(record: Mapping[str, Any], config: Mapping[str, Any], path: Path) -> Result:
    """A Result from plain data of JSON, of a job with this configuration. Errors name `path`."""
    of_record = {name: record[name] for name in RECORDED if name in record}
    build(Identity, of_record, path.name, lambda _: str(path))
    identity = dataclasses.replace(Identity.of(config), **{"revision": 1, **of_record})
    fields = [field.name for field in dataclasses.fields(Result) if field.name != "identity"]
    known = {name: record[name] for name in fields if name in record}
    if isinstance(known.get("failure"), str):  # schema 1
        known["failure"] = {"cause": known["failure"]} if known["failure"] else None
    result = build(Result, {**known, "identity": vars(identity)}, path.name, lambda _: str(path))
    if result.values and not fits(Event("FINISHED", result.values)):
        raise ConfigError("a figure of this result has the wrong type", where=str(path), key="values")
    return result


def _target(config: Mapping[str, Any]) -> Target | None:
    target = config.get("target")
    if not target:
        return None
    stated = {name: target[name] for name in ("metric", "value", "direction")}
    optional = {name: target[name] for name in ("unit", "also") if target.get(name)}
    return build(Target, {**stated, **optional}, "target", lambda _: "config.yaml")


def _reached(target: Target | None, values: Mapping[str, Any], user_limits: Sequence[str]) -> bool | None:
    """Whether the target was reached; None: no target, its metric was not measured, or the user's limit ended it."""
    finals = {name: values.get(f"final_{name}") for name in target.values} if target else {}
    if target is None or None in finals.values():
        return None
    return not target.missed(finals) or (None if values.get("stop_reason") in user_limits else False)
