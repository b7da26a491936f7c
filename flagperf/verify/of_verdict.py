"""The verdict of a round by the rules of docs/results.md, written a second time: what its figures and events give."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from flagperf.verify.logs import Rank, Round
from flagperf.verify.of_built import other_than_the_case
from flagperf.verify.target import LIMITS, is_reached
from flagperf.verify.values import CLOCKS, Row, is_number, same

Found = Iterator[tuple[str, str]]  # SUSPECT or INVALID, and why
VERDICTS = ("VALID", "SUSPECT", "RUNNING", "INVALID")  # the worst last
EXACT = (1e-3, 0.0)
SEEN = (0.02, 3.0)  # what the launcher saw of a training, against what its ranks measured
OUTSIDE = (0.1, 0.5)  # of a training may lie outside its steps
RATES = {"p_whole": "raw_train_time", "p_train": "train_no_eval_time", "p_core": "pure_training_computing_time"}
NESTED = ("e2e_time", "raw_train_time", "train_no_eval_time", "pure_training_computing_time")
PARTS = ("run_name", "result_dir", "reports", "log_level", "deadlines", "monitor", "code")  # a node may have its own
OF_A_ROUND = ("seed", "resume", "clear_caches", "cluster")  # a round may have its own


def verdict(round_: Round) -> tuple[str, list[str]]:
    """The worst verdict of the rules, and why."""
    rules = (*OF_EACH, *(OF_FINISHED if any(rank.all("FINISHED") for rank in round_.ranks) else ()))
    found = [one for rule in rules for one in rule(round_)]
    worst = max((one for one, _ in found), key=VERDICTS.index, default="VALID")
    return worst, [why for one, why in found if one == worst]


def row_of_verdict(
    place: str, stated: Mapping[str, Any], found: str, why: Sequence[str], figure: str = "verdict"
) -> Row:
    """A verdict beside the one by the rules. A worse one that has its reasons may come of a rule that is not here."""
    said, how = stated.get("verdict"), "; ".join(why) or "the rules of docs/results.md"
    if said in VERDICTS and VERDICTS.index(said) > VERDICTS.index(found) and stated.get("reasons"):
        return Row(place, figure, said, None, "not recomputed", f"by a rule that is not here: {stated['reasons'][0]}")
    return Row(place, figure, said, found, "agrees" if said == found else "differs", how)


def differing_keys(one: Mapping[str, Any], other: Mapping[str, Any], but: Sequence[str]) -> Iterator[str]:
    """Keys of two configurations that differ; a path is any path, and what the log hides may be anything."""
    for key in sorted((one.keys() | other.keys()) - {*but}):
        if "***" not in str(other.get(key)) and not same(_plain(one.get(key)), _plain(other.get(key)), (0.0, 0.0)):
            yield key


def _plain(value: Any) -> Any:
    """As the log has it, with each path the same."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items() if _plain(one) != {}}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return "/" if isinstance(value, str) and value.startswith(("/", "~")) else value


def read_by(rank: Rank) -> Mapping[str, Any]:
    """The configuration that a rank says it read; empty where it does not say."""
    found = [event.value.get("config") for event in rank.all("SUBMIT_INFO")]
    return found[0] if found and isinstance(found[0], dict) else {}


def _first(round_: Round) -> Mapping[str, Any]:
    """FINISHED of the lowest rank that logged it."""
    return next(rank.finished for rank in round_.ranks if rank.all("FINISHED"))


def _per_rank(round_: Round, name: str) -> dict[int, Any]:
    return {one["rank"]: one[name] for one in _first(round_).get("ranks") or () if one.get(name) is not None}


def _numbers(values: Mapping[str, Any], *names: str) -> tuple[float, ...]:
    """Figures by their names; NaN, of which no comparison holds, where one is not there."""
    found: list[Any] = [values.get(name) for name in names]
    return tuple(float(value) if is_number(value) else math.nan for value in found)


def _near(one: float, other: float, within: tuple[float, float] = CLOCKS) -> bool:
    return abs(one - other) <= within[0] * max(one, other) + within[1]


# ---------------------------------------------------------------- is everything there?


def _ended(round_: Round) -> Found:
    status = round_.stated.get("status")
    if status != "finished":
        yield "SUSPECT" if status == "unfinished" else "INVALID", f"status {status}"


def _complete(round_: Round) -> Found:
    world = int(round_.config["nnodes"]) * int(round_.config["nproc"])
    if round_.stated.get("status") in ("failed", "interrupted", "not started"):
        return
    if {rank.number for rank in round_.ranks} != set(range(world)):
        yield "INVALID", f"logs of {len(round_.ranks)} of {world} ranks"
    for rank in round_.ranks:
        if (count := len(rank.all("FINISHED"))) != 1:
            yield "SUSPECT" if count else "INVALID", f"rank {rank.number} logged {count} FINISHED"
        if rank.unread:
            yield "SUSPECT", f"{rank.unread} lines of rank {rank.number} cannot be read"


def _one_configuration(round_: Round) -> Found:
    read = {rank.number: found for rank in round_.ranks if (found := read_by(rank))}
    if not read:
        return
    first = read[min(read)]
    for rank, config in read.items():
        if keys := [*differing_keys(first, config, PARTS)]:
            yield "INVALID", f"rank {rank} read another {', '.join(keys)}"
    if keys := [*differing_keys(round_.config, first, (*PARTS[:-1], *OF_A_ROUND))]:
        yield "INVALID", f"config.yaml has another {', '.join(keys)} than the ranks read"
    if "repeat_seed" in round_.config and first["seed"] != (seed := round_.seed):
        yield "INVALID", f"seed {first['seed']} in place of {seed}"


# ---------------------------------------------------------------- do the figures fit together?


def _ranks_agree(round_: Round) -> Found:
    first = _first(round_)
    logged = [rank.finished for rank in round_.ranks if rank.all("FINISHED")]
    if names := sorted(
        {key for one in logged for key in one.keys() | first if not same(one.get(key), first.get(key), (0, 0))}
    ):
        yield "INVALID", f"ranks disagree about {', '.join(names)}"
    groups = _per_rank(round_, "parameters_group")
    for what in ("loss", "parameters"):
        sums = {
            (groups.get(rank, 0) if what == "parameters" else 0, one)
            for rank, one in _per_rank(round_, f"{what}_checksum").items()
        }
        if len(sums) > len({group for group, _ in sums}):
            yield "INVALID", f"checksums of the {what} differ"
    samples = _per_rank(round_, "samples")
    if (
        samples
        and is_number(first.get("num_trained_samples"))
        and sum(samples.values()) != first["num_trained_samples"]
    ):
        yield "INVALID", "the samples of the ranks do not add up"
    times = _per_rank(round_, "raw_train_time").values()
    if times and not _near(max(times), min(times)):
        yield "SUSPECT", "the ranks' training times differ"
    if len({*_per_rank(round_, "data_fingerprint").values()}) > 1:
        yield "SUSPECT", "the files of the ranks differ"


def _possible(round_: Round) -> Found:
    first, hardware = _first(round_), round_.config.get("hardware") or {}
    final, memory, limit = first.get("final_loss"), first.get("peak_memory"), hardware.get("memory_gib")
    losses = [event.value.get("loss") for rank in round_.ranks for event in rank.all("STEP_END")]
    if first.get("stop_reason") == "non_finite_loss" or (final is not None and not math.isfinite(final)):
        yield "INVALID", f"the loss is {final}"
    elif any(loss is not None and not math.isfinite(loss) for loss in losses):
        yield "SUSPECT", "a loss was not finite"
    if first.get("peak_memory_kind") == "device" and memory and limit and memory > limit:
        yield "INVALID", f"{memory} GiB are more than the hardware's"
    finals = {name.removeprefix("final_"): value for name, value in first.items()}
    if first.get("converged") and round_.config.get("target") and not is_reached(round_.config["target"], finals):
        yield "INVALID", "converged, but the target is missed"
    if is_number(first.get("mfu")) and first["mfu"] > 1:
        yield "SUSPECT", "MFU is over 1"


def _fit(round_: Round) -> Found:
    first = _first(round_)
    counts = {**dict.fromkeys(RATES, "num_trained_units"), "training_sequences_per_second": "num_trained_samples"}
    for name, count in counts.items():
        given, amount, time = _numbers(first, name, count, RATES.get(name, "raw_train_time"))
        if time > 0 and not math.isnan(given + amount) and not same(given, amount / time, EXACT):
            yield "INVALID", f"{name} is not its count over its seconds"
    for outer, inner in pairwise(NESTED):
        long, short = _numbers(first, outer, inner)
        if short > long * (1 + EXACT[0]):
            yield "INVALID", f"{outer} is shorter than {inner}"
    (waited, trained), (e2e, measured) = _numbers(round_.stated, "seconds", "trained"), _numbers(first, *NESTED[:2])
    if e2e > waited and not _near(e2e, waited):
        yield "INVALID", "e2e_time is longer than the launcher waited"
    unseen = sum(outage["seconds"] for outage in round_.stated.get("outages") or ())
    if not math.isnan(trained + measured) and not _near(trained, measured, (SEEN[0], SEEN[1] + unseen)):
        yield "SUSPECT", f"the launcher saw {trained:.6g} s of training, the ranks measured {measured:.6g} s"


def _enough(round_: Round) -> Found:
    first, stop = _first(round_), _first(round_).get("stop_reason")
    if not first.get("global_steps"):
        yield "INVALID", "no step was trained"
    for limit, figure in LIMITS.items():
        (asked,), (done,) = _numbers(round_.config, limit), _numbers(first, figure)
        if done < asked and stop not in ("target", "non_finite_loss") and (stop == limit or limit in round_.asked):
            yield "INVALID" if stop == limit else "SUSPECT", f"{limit}={asked}, but {figure} is {done}"


def _clocks(round_: Round) -> Found:
    first, steps, times = _first(round_), _per_rank(round_, "step_time_sum"), _per_rank(round_, "raw_train_time")
    elsewhere = (first.get("eval_time") or 0) + (first.get("checkpoint_time") or 0)
    for number in sorted(steps.keys() & times):
        outside = times[number] - steps[number] - elsewhere
        if -outside > CLOCKS[0] * times[number] + CLOCKS[1]:
            yield "INVALID", f"steps and evaluations of rank {number} are longer than its training"
        elif outside > OUTSIDE[0] * times[number] + OUTSIDE[1]:
            yield "SUSPECT", f"{outside:.6g} s of rank {number} lie outside its steps"
    if any(abs(drift) > CLOCKS[1] for drift in _per_rank(round_, "wall_drift").values()):
        yield "SUSPECT", "the wall clock was set"
    for rank in round_.ranks:
        if "raw_train_time" in first and rank.all("TRAIN_START") and rank.all("TRAIN_END"):
            wall = rank.last("TRAIN_END").seconds - rank.last("TRAIN_START").seconds
            if not _near(wall, first["raw_train_time"]):
                yield "SUSPECT", f"the wall clock of rank {rank.number} says {wall:.6g} s of training"
        for kind in ("STEP_END", "EVALUATE"):
            if any(after.seconds < before.seconds for before, after in pairwise(rank.all(kind))):
                yield "SUSPECT", f"the clock of rank {rank.number} went back"


def _data(round_: Round) -> Found:
    counted = [event.value.get("data") for rank in round_.ranks for event in rank.all("BUILT")[-1:]]
    counts = [{name: n for name, n in one.items() if isinstance(n, int)} for one in counted if isinstance(one, dict)]
    if any(one != counts[0] for one in counts if one and counts[0]):
        yield "SUSPECT", "the ranks counted other data"
    extent = (round_.config.get("data") or {}).get("extent") or {}
    if round_.config.get("size") != "full" or round_.config.get("synthetic") or _first(round_).get("sample_data"):
        return
    for name in ("train", "eval", "classes"):
        wanted, share = extent.get(name), 0.0 if name == "classes" else extent.get("tolerance", 0.0)
        if wanted is not None and any(abs(one.get(name, wanted) - wanted) > share * wanted for one in counts):
            yield "SUSPECT", f"not the data of the case: {name}"


def _learned(round_: Round) -> Found:
    first = _first(round_)
    logged = [event.value.get("loss") for event in round_.ranks[0].all("STEP_END")]
    losses = [loss for loss in logged if loss is not None and math.isfinite(loss)]
    if len(losses) < 8 or (first.get("global_steps") or 0) - (first.get("resumed_from_step") or 0) < 100:
        return
    window = max(4, len(losses) // 4)
    means = [statistics.fmean(losses[at : at + window]) for at in range(len(losses) - window + 1)]
    began, least, ended = statistics.fmean(losses[:4]), min(means), means[-1]
    noise = 3 * statistics.stdev(after - before for before, after in pairwise(losses)) / math.sqrt(2)
    if ended - began > max(noise * math.sqrt(1 / window + 1 / 4), 0.01 * abs(began)):
        yield "SUSPECT", f"the loss ended above where it began: {ended:.4g}, from {began:.4g}"
    elif ended - least > max(0.5 * (began - least), noise * math.sqrt(2 / window), 0.01 * abs(least)):
        yield "SUSPECT", f"the loss diverged: from {began:.4g} to {least:.4g}, and back to {ended:.4g}"


def _as_built(round_: Round) -> Found:
    names = (round_.config.get("hardware") or {}).get("device_names") or ()
    devices = [event.value.get("device_name") for rank in round_.ranks for event in rank.all("BUILT")[-1:]]
    for device in devices:
        if names and device is not None and not any(re.fullmatch(name, device) for name in names):
            yield "INVALID", f"the device is {device}"
    if round_.config.get("division") == "closed":
        yield from other_than_the_case(round_)


OF_EACH: tuple[Callable[[Round], Found], ...] = (_ended, _complete, _one_configuration)
OF_FINISHED: tuple[Callable[[Round], Found], ...] = (
    _ranks_agree,
    _possible,
    _fit,
    _enough,
    _clocks,
    _data,
    _learned,
    _as_built,
)
