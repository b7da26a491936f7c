"""What result.json says of a round beside its figures, and that ranks and config.yaml say the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flagperf.verify.logs import Round
from flagperf.verify.of_verdict import OF_A_ROUND, PARTS, differing_keys, read_by
from flagperf.verify.target import asked_limits, target_reached
from flagperf.verify.values import Derivation, Row, held, rows, same

SUBMITTED = "SUBMIT_INFO"
LAUNCHER = {  # what result.json has of the launcher → why it is not computed
    "seconds": "measured by the launcher; no log holds it",
    "trained": "measured by the launcher; no log holds it",
    "started": "measured by the launcher; no log holds it",
    "phases": "measured by the launcher; no log holds it",
}


def _submitted(*keys: str) -> Callable[[Round], Any]:
    """A value of the configuration that rank 0 read."""

    def found(round_: Round) -> Any:
        value: Any = round_.ranks[0].last(SUBMITTED).value["config"]
        for key in keys:
            value = value[key]
        return value

    return found


def _as_built(round_: Round) -> dict[str, Any]:
    """BUILT, with the image that the first host told, which no rank knows."""
    found = {**round_.ranks[0].last("BUILT").value}
    image = (round_.stated["built"].get("software") or {}).get("image")
    return found if image is None else {**found, "software": {**found["software"], "image": image}}


OF_A_RESULT: Mapping[str, Derivation] = {
    **{
        key: Derivation(_submitted(key), SUBMITTED)
        for key in ("case", "size", "revision", "division", "nnodes", "nproc", "seed")
    },
    **{key: Derivation(_submitted(key, "name"), SUBMITTED) for key in ("framework", "vendor", "hardware")},
    "built": Derivation(_as_built, "BUILT of the lowest rank; the image is of sys_info.log"),
}


def rows_of_result(place: str, round_: Round) -> Iterator[Row]:
    """A row for what it says beside the figures, and for each place where files contradict each other."""
    how = f"the last EVALUATE; limits asked: {asked_limits(round_) or 'none'}"
    yield from rows(place, round_.stated, {**OF_A_RESULT, "target_reached": Derivation(target_reached, how)}, round_)
    yield from _as_logged(place, round_)
    yield from _as_configured(place, round_)
    yield from _in_its_place(place, round_)
    for figure, why in LAUNCHER.items():
        if figure in round_.stated:
            said = "per node" if figure == "phases" else round_.stated[figure]
            yield Row(place, figure, said, None, "not recomputed", why)


def _as_logged(place: str, round_: Round) -> Iterator[Row]:
    """result.json against the FINISHED of every rank: a row for each figure that differs, and for ranks without one."""
    differing: dict[str, list[tuple[int, Any]]] = {}
    for rank in round_.ranks:
        logged = rank.all("FINISHED")
        if not logged:
            yield Row(place, f"rank {rank.number}: FINISHED", None, None, "not recomputed", "it logged none")
            continue
        for figure in sorted(round_.figures.keys() | logged[-1].value.keys()):
            value = logged[-1].value.get(figure)
            if not same(round_.figures.get(figure), value, (0.0, 0.0)):
                differing.setdefault(figure, []).append((rank.number, value))
    for figure, found in differing.items():
        said = f"FINISHED of rank{'s' if len(found) > 1 else ''} {', '.join(str(number) for number, _ in found)}"
        yield Row(place, figure, round_.figures.get(figure), found[0][1], "differs", said)


def _as_configured(place: str, round_: Round) -> Iterator[Row]:
    """config.yaml against what each rank says that it read: a row for each key that differs."""
    for rank in round_.ranks:
        if read := read_by(rank):
            for key in differing_keys(round_.config, read, (*PARTS[:-1], *OF_A_ROUND)):
                how = f"{SUBMITTED} of rank {rank.number}"
                yield Row(place, f"{key} of config.yaml", round_.config.get(key), read.get(key), "differs", how)


def _in_its_place(place: str, round_: Round) -> Iterator[Row]:
    """The seed and the recorded hash of the round before, which tell when a round was taken out."""
    if "repeat_seed" in round_.config:
        how = f"seed of config.yaml, and the number of the round; repeat_seed={round_.config['repeat_seed']}"
        yield held(place, f"seed of round {round_.number}", round_.stated.get("seed"), round_.seed, how)
    before = round_.folder.with_name(f"round{round_.number - 1}") / "result.json"
    if not round_.stated.get("previous"):
        why = "there is no round before" if round_.number == 1 else "not recorded: an older version wrote this result"
        yield Row(place, "previous", None, None, "not recomputed", why)
        return
    digest = hashlib.sha256(before.read_bytes()).hexdigest() if before.is_file() else ""
    yield held(place, "previous", round_.stated["previous"], digest, f"SHA-256 of {before.parent.name}/{before.name}")
