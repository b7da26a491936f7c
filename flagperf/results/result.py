"""A round's folder → Result, and result.json. What each field means: docs/results.md."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import build
from flagperf.contract.digest import sha256_of
from flagperf.contract.extent import extent_of
from flagperf.contract.identity import Identity
from flagperf.contract.outcome import Failure, Outage, Outcome
from flagperf.contract.perflog import Event, decode, encode, fits
from flagperf.contract.records import Change, Result, Summary
from flagperf.contract.regular import regular, write_whole
from flagperf.contract.sample_data import is_sample
from flagperf.contract.sys_info import clock_offset, read_sys_info
from flagperf.contract.target import Target
from flagperf.errors import ConfigError
from flagperf.results.closed import notes
from flagperf.results.compared import compared
from flagperf.results.evidence import TRAINING_LIMITS, Evidence
from flagperf.results.image import with_image
from flagperf.results.monitors import job_energy, summarize
from flagperf.results.probe import probed_devices, slower_devices
from flagperf.results.rank_log import RankLog, node_folders, read_rank_logs
from flagperf.results.took_part import took_part
from flagperf.results.used_devices import used_devices
from flagperf.results.verdict import judge

SCHEMA = 3  # of result.json and summary.json; raised when a field changes its meaning or goes
READ = (1, 2, 3)  # what can be read; 1: `failure` is text; up to 2: no revision, seed, built; all rounds have one seed
FILE = "result.json"
RECORDED = ("case", "framework", "hardware", "vendor", "size", "nnodes", "nproc", "division", "revision")  # of Identity
NO_LOG = {"not_available": "there is no log of it"}


def read_round(job: JobConfig, outcome: Outcome, round_number: int, folder: Path) -> Result:
    """The result of a round that was executed, from its logs in `folder` and its outcome."""
    return dataclasses.replace(
        result_of_logs(
            job.config,
            job.changes,
            round_number,
            folder,
            status=outcome.status,
            failure=outcome.failure,
            seconds=outcome.seconds,
            trained=outcome.trained,
            outages=outcome.outages,
            sweep=job.sweep,
        ),
        phases=outcome.phases,
        previous=digest(folder.parent / f"round{round_number - 1}"),
        started=outcome.started,
    )


def result_of_logs(
    config: Mapping[str, Any],
    changes: Iterable[Change],
    round_number: int,
    folder: Path,
    *,
    status: str,
    failure: Failure | None = None,
    seconds: float | None = None,
    trained: float | None = None,
    outages: Sequence[Outage] = (),
    sweep: Mapping[str, str] | None = None,
) -> Result:
    """The result of a round from its logs alone, however few there are.

    Args:
        config: the configuration of the job, as config.yaml holds it.
        changes: what differs from the case; says which limits the user asked for.
        round_number: the first round is 1.
        folder: the round's folder; need not exist.
        status: how the round ended, see `Result.status`.
        failure: what failed, where the executor could tell.
        seconds: the whole round by the launcher's clock, where known.
        trained: the training by the launcher's clock, where known.
        outages: of hosts that came back.
        sweep: swept key → value, of a job of a multirun.
    """
    identity, target, logs = Identity.of(config), _target(config), read_rank_logs(folder)
    probe = probed_devices(logs)
    limits = {key: float(config[key]) for key in TRAINING_LIMITS if config.get(key) is not None}
    asked = [change.key for change in changes if change.key in limits and not change.source.startswith("tuning")]
    evidence = Evidence(
        status=status,
        world_size=identity.devices,
        logs=logs,
        failure=failure,
        round=round_number,
        seconds=seconds,
        trained=trained,
        unseen=sum(outage.seconds for outage in outages),
        limits=limits,
        asked=asked,
        target=target,
        memory_gib=config["hardware"].get("memory_gib"),
        config=config,
        extent=None if config.get("synthetic") else extent_of(config),
    )
    verdict, reasons = judge(evidence)
    values = evidence.finished
    sample_data = bool(values["sample_data"]) if "sample_data" in values else is_sample(config)
    synthetic = bool(config.get("synthetic"))
    target_applies = not (synthetic or evidence.other_data or (sample_data and identity.size == "full"))
    return Result(
        identity=identity,
        round=round_number,
        status=status,
        verdict=verdict,
        reasons=reasons,
        sample_data=sample_data,
        target=target,
        target_reached=_reached(target, values, asked) if target_applies else None,
        values=values,
        failure=failure,
        monitors=_monitors(folder, logs, config, values.get("num_trained_samples")),
        clocks={path.name: offset for _, _, path in node_folders(folder) if (offset := clock_offset(path))},
        sweep=sweep or {},
        seconds=seconds,
        trained=trained,
        outages=tuple(outages),
        built=with_image(next(iter(evidence.built.values()), {}), folder),
        seed=_seed(logs),
        synthetic=synthetic,
        notes=(
            *notes(evidence),
            *_beside(evidence),
            *_crowded(folder, config, identity.nproc),
            *evidence.resume_notes,
            *slower_devices(probe),
        ),
        probe=probe,
        other_data=evidence.other_data,
    )


def _beside(evidence: Evidence) -> Iterator[str]:
    if evidence.config.get("profile"):
        yield "profiled: some steps were traced (trace.json of rank 0), which takes time"
    yield from compared(evidence)
    yield from took_part(evidence)


def _crowded(folder: Path, config: Mapping[str, Any], nproc: int) -> Iterator[str]:
    """Whether ranks that compute on processors had fewer cores than there were ranks, on the host with the fewest."""
    cores = [
        int(said) for _, _, node in node_folders(folder) if (said := read_sys_info(node).get("cores", "")).isdigit()
    ]
    if config["vendor"].get("device") == "cpu" and cores and nproc > min(cores):
        yield f"{nproc} ranks share {min(cores)} cores"


def _seed(logs: Iterable[RankLog]) -> int | None:
    """The seed that the ranks read."""
    submitted = (event.value for log in logs for event in log.all("SUBMIT_INFO"))
    return next((value["config"]["seed"] for value in submitted if "seed" in value.get("config", {})), None)


def exit_code(summaries: Iterable[Summary], require_target: bool) -> int:
    """0: every round can be used; 2: a rank refused the configuration; 5: a round is INVALID; 6: a target not shown."""
    results = [result for summary in summaries for result in summary.results]
    if any(result.failure is not None and result.failure.is_refusal for result in results):
        return ConfigError.exit_code
    if any(result.verdict == "INVALID" for result in results):
        return 5
    if require_target and any(result.target_reached is not True for result in results):
        return 6
    return 0


def write(result: Result, folder: Path) -> Path:
    """Write result.json into the round's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_json(record_of(result), folder / FILE)


def record_of(result: Result) -> dict[str, Any]:
    """A Result as plain data: what JSON holds of its identity stands among its own fields."""
    record = dataclasses.asdict(result)
    identity = record.pop("identity")
    return {**{name: identity[name] for name in RECORDED}, **record}


def digest(folder: Path) -> str:
    """SHA-256 of a round's result.json; "" where there is none."""
    path = folder / FILE
    return sha256_of(path) if path.is_file() else ""


def read(folder: Path, config: Mapping[str, Any]) -> Result:
    """Read a round's result.json back. Raises ConfigError where it was written by another version or is damaged.

    Args:
        config: the configuration of the job, as config.yaml holds it.
    """
    return from_record(read_json(folder / FILE), config, folder / FILE)


def from_record(record: Mapping[str, Any], config: Mapping[str, Any], path: Path) -> Result:
    """A Result from the plain data that JSON holds, of a job with this configuration; `path` is named in errors."""
    of_record = {name: record[name] for name in RECORDED if name in record}
    build(Identity, of_record, path.name, lambda _: str(path))
    identity = dataclasses.replace(Identity.of(config), **{"revision": 1, **of_record})
    fields = [field.name for field in dataclasses.fields(Result) if field.name != "identity"]
    known = {name: record[name] for name in fields if name in record}
    if isinstance(known.get("failure"), str):  # schema 1
        known["failure"] = {"cause": known["failure"]} if known["failure"] else None
    found = build(Result, {**known, "identity": vars(identity)}, path.name, lambda _: str(path))
    if found.values and not fits(Event("FINISHED", found.values)):
        raise ConfigError("a figure of this result has the wrong type", where=str(path), key="values")
    return found


def write_json(record: Mapping[str, Any], path: Path) -> Path:
    """Write a record with its schema number; a reader never sees half of it."""
    text = json.dumps(encode({"schema": SCHEMA, **record}), indent=2, ensure_ascii=False, allow_nan=False)
    return write_whole(path, text + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a record that `write_json` wrote."""
    try:
        record = decode(json.loads(regular(path).read_text(encoding="utf-8")))
        schema = record.pop("schema")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError, OSError) as error:
        raise ConfigError("not a result of flagperf", where=str(path), given=str(error)) from None
    if schema not in READ:
        allowed = " or ".join(map(str, READ))
        raise ConfigError("written by another version", where=str(path), key="schema", given=schema, allowed=allowed)
    return dict(record)


def _target(config: Mapping[str, Any]) -> Target | None:
    target = config.get("target")
    if not target:
        return None
    unit, also = target.get("unit") or "", target.get("also") or {}
    return Target(target["metric"], target["value"], target["direction"], unit, also)


def _reached(target: Target | None, values: Mapping[str, Any], asked: Sequence[str]) -> bool | None:
    """None when no target applies, its metric was not measured, or a limit that the user set came first."""
    finals = {name: values.get(f"final_{name}") for name in target.values} if target else {}
    if target is None or None in finals.values():
        return None
    return not target.missed(finals) or (None if values.get("stop_reason") in asked else False)


def _monitors(
    folder: Path, logs: Sequence[RankLog], config: Mapping[str, Any], samples: float | None
) -> dict[str, Any]:
    """What each node's monitors saw during training, and the energy of the whole job."""
    marks = {event.event: event.time_ms / 1000 for log in logs[:1] for event in log.events}
    if "TRAIN_START" not in marks:
        return {}
    started, ended = marks["TRAIN_START"], marks.get("TRAIN_END", max(marks.values()))
    visible = {log.node_rank: event.value.get("visible_devices") for log in logs for event in log.all("SUBMIT_INFO")}
    nodes = {
        path.name: _node_monitors(path, started, ended, config, visible.get(rank))
        for _, rank, path in node_folders(folder)
    }
    names = sorted({name for node in nodes.values() for name in node})
    nodes = {path: {name: node.get(name, NO_LOG) for name in names} for path, node in nodes.items()}
    return {"nodes": nodes, "energy": job_energy(nodes, samples)} if any(nodes.values()) else {}


def _node_monitors(
    folder: Path, started: float, ended: float, config: Mapping[str, Any], visible: str | None
) -> dict[str, Any]:
    """What one node's monitors saw. Devices count only when it is known which ones the job used."""
    ahead = clock_offset(folder)  # the logs have the node's own time
    try:
        devices = used_devices(config, visible)
    except ValueError as error:
        why = {"not_available": f"the devices of the job are not known: {error}"}
        return summarize(folder, started + ahead, ended + ahead, devices=()) | {config["vendor"]["name"]: why}
    return summarize(folder, started + ahead, ended + ahead, devices)
