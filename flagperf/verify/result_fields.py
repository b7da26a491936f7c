"""Checks the other fields of result.json, and that ranks, result.json and config.yaml agree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flagperf.verify.logs import Round
from flagperf.verify.target import asked_limits, target_reached
from flagperf.verify.values import Derivation, Row, compare, compare_all, same
from flagperf.verify.verdict_rules import NODE_KEYS, ROUND_KEYS, config_of, differing_keys

SUBMITTED = "SUBMIT_INFO"
MEASURED_BY_LAUNCHER = ("seconds", "trained", "started", "phases")  # fields of result.json without a log


def _submitted(*keys: str) -> Callable[[Round], Any]:
    """The derivation of a value of the configuration that rank 0 read."""

    def value_of(round_: Round) -> Any:
        value: Any = round_.ranks[0].last(SUBMITTED).value["config"]
        for key in keys:
            value = value[key]
        return value

    return value_of


def _as_built(round_: Round) -> dict[str, Any]:
    """BUILT of the lowest rank, with the image that the first host reported. No rank knows its image."""
    built = {**round_.ranks[0].last("BUILT").value}
    image = (round_.stated["built"].get("software") or {}).get("image")
    return built if image is None else {**built, "software": {**built["software"], "image": image}}


RESULT_FIELDS: Mapping[str, Derivation] = {
    **{
        key: Derivation(_submitted(key), SUBMITTED)
        for key in ("case", "size", "revision", "division", "nnodes", "nproc", "seed")
    },
    **{key: Derivation(_submitted(key, "name"), SUBMITTED) for key in ("framework", "vendor", "hardware")},
    "built": Derivation(_as_built, "BUILT of the lowest rank; the image comes from sys_info.log"),
}


def result_rows(location: str, round_: Round) -> Iterator[Row]:
    """One row for each field beside the figures, and for each contradiction between files."""
    how = f"the last EVALUATE; limits of the user: {asked_limits(round_) or 'none'}"
    derivations = {**RESULT_FIELDS, "target_reached": Derivation(target_reached, how)}
    yield from compare_all(location, round_.stated, derivations, round_)
    yield from _compare_with_logs(location, round_)
    yield from _compare_with_configuration(location, round_)
    yield from _compare_with_previous(location, round_)
    yield from _share_of_achievable(location, round_)
    for field in MEASURED_BY_LAUNCHER:
        if field in round_.stated:
            value = "per node" if field == "phases" else round_.stated[field]
            why = "measured by the launcher; no log contains this figure"
            yield Row(location, field, value, None, "not recomputed", why)


def _share_of_achievable(location: str, round_: Round) -> Iterator[Row]:
    """The stated share of the hardware's limit. The allowed throughput itself comes from the traced step."""
    stated = round_.stated.get("achievable") or {}
    throughput, rate = stated.get("throughput"), round_.figures.get("p_train")
    if throughput and rate is not None:
        yield compare(location, "achievable.share", stated.get("share"), rate / throughput, "p_train / throughput")
        why = "only `flagperf report` computes the bound of the traced step"
        yield Row(location, "achievable.throughput", throughput, None, "not recomputed", why)


def _compare_with_logs(location: str, round_: Round) -> Iterator[Row]:
    """A row for each figure that differs from a rank's FINISHED, and for each rank without FINISHED."""
    differing: dict[str, list[tuple[int, Any]]] = {}
    for rank in round_.ranks:
        events = rank.all("FINISHED")
        if not events:
            name = f"rank {rank.number}: FINISHED"
            yield Row(location, name, None, None, "not recomputed", "the rank logged no FINISHED")
            continue
        logged = events[-1].value
        for figure in sorted(round_.figures.keys() | logged.keys()):
            if not same(round_.figures.get(figure), logged.get(figure), (0.0, 0.0)):
                differing.setdefault(figure, []).append((rank.number, logged.get(figure)))
    for figure, values in differing.items():
        how = f"FINISHED of rank{'s' if len(values) > 1 else ''} {', '.join(str(number) for number, _ in values)}"
        yield Row(location, figure, round_.figures.get(figure), values[0][1], "differs", how)


def _compare_with_configuration(location: str, round_: Round) -> Iterator[Row]:
    """A row for each key of config.yaml that differs from the configuration that a rank read."""
    for rank in round_.ranks:
        if read := config_of(rank):
            for key in differing_keys(round_.config, read, (*NODE_KEYS, *ROUND_KEYS)):
                how = f"{SUBMITTED} of rank {rank.number}"
                yield Row(location, f"{key} of config.yaml", round_.config.get(key), read.get(key), "differs", how)


def _compare_with_previous(location: str, round_: Round) -> Iterator[Row]:
    """The seed, and the recorded hash of the previous round. They reveal a round that was removed."""
    if "repeat_seed" in round_.config:
        how = f"seed of config.yaml, and the number of the round; repeat_seed={round_.config['repeat_seed']}"
        yield compare(location, f"seed of round {round_.number}", round_.stated.get("seed"), round_.seed, how)
    previous = round_.folder.with_name(f"round{round_.number - 1}") / "result.json"
    if not round_.stated.get("previous"):
        older = "not recorded: an older version wrote this result"
        why = "this is the first round" if round_.number == 1 else older
        yield Row(location, "previous", None, None, "not recomputed", why)
        return
    digest = hashlib.sha256(previous.read_bytes()).hexdigest() if previous.is_file() else ""
    how = f"SHA-256 of {previous.parent.name}/{previous.name}"
    yield compare(location, "previous", round_.stated["previous"], digest, how)
