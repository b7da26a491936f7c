"""Recomputes the verdict of a round. This is a second implementation of the rules of docs/results.md."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from flagperf.verify.built_rules import built_findings
from flagperf.verify.logs import Rank, Round
from flagperf.verify.target import LIMITS, is_reached
from flagperf.verify.values import CLOCKS, Row, is_number, same

Findings = Iterator[tuple[str, str]]  # SUSPECT or INVALID, and the reason
VERDICTS = ("VALID", "SUSPECT", "RUNNING", "INVALID")  # from the best to the worst
EXACT = (1e-3, 0.0)
SEEN = (0.02, 3.0)  # tolerance of the launcher's training time against that of the ranks
OUTSIDE = (0.1, 0.5)  # share and seconds of a training that may lie outside its steps
BOUND = 1.02  # a throughput may exceed its bound by what data sheets round
RATES = {"p_whole": "raw_train_time", "p_train": "train_no_eval_time", "p_core": "pure_training_computing_time"}
NESTED = ("e2e_time", "raw_train_time", "train_no_eval_time", "pure_training_computing_time")
NODE_KEYS = ("run_name", "result_dir", "reports", "log_level", "deadlines", "monitor")  # may differ between nodes
ROUND_KEYS = ("seed", "resume", "clear_caches", "cluster")  # may differ between rounds


def verdict(round_: Round) -> tuple[str, list[str]]:
    """The worst verdict of the rules, and its reasons."""
    has_finished = any(rank.all("FINISHED") for rank in round_.ranks)
    rules = (*ALWAYS, *(WITH_FINISHED if has_finished else ()))
    findings = [finding for rule in rules for finding in rule(round_)]
    worst = max((severity for severity, _ in findings), key=VERDICTS.index, default="VALID")
    return worst, [why for severity, why in findings if severity == worst]


def verdict_row(
    location: str, stated: Mapping[str, Any], recomputed: str, why: Sequence[str], figure: str = "verdict"
) -> Row:
    """Compare a stated verdict with the rules. A worse one with reasons is not compared: other rules may give it."""
    value, how = stated.get("verdict"), "; ".join(why) or "the rules of docs/results.md"
    if value in VERDICTS and VERDICTS.index(value) > VERDICTS.index(recomputed) and stated.get("reasons"):
        reason = f"by a rule that flagperf verify does not have: {stated['reasons'][0]}"
        return Row(location, figure, value, None, "not recomputed", reason)
    return Row(location, figure, value, recomputed, "agrees" if value == recomputed else "differs", how)


def differing_keys(left: Mapping[str, Any], logged: Mapping[str, Any], ignored: Sequence[str]) -> Iterator[str]:
    """Keys of two configurations that differ. All paths are equal. A value that the log hides never differs."""
    for key in sorted((left.keys() | logged.keys()) - {*ignored}):
        value, other = left.get(key), logged.get(key)
        if repr(value) == repr(other):  # nearly every key; what follows takes much longer
            continue
        if "***" not in str(other) and not same(_plain(value), _plain(other), (0.0, 0.0)):
            yield key


def _plain(value: Any) -> Any:
    """The value in the form of the log, with "/" for every path."""
    if isinstance(value, Mapping):
        return {str(key): item for key, old in value.items() if (item := _plain(old)) != {}}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return "/" if isinstance(value, str) and value.startswith(("/", "~")) else value


def config_of(rank: Rank) -> Mapping[str, Any]:
    """The configuration that a rank has logged; empty where the rank logged none."""
    configs = [event.value.get("config") for event in rank.all("SUBMIT_INFO")]
    return configs[0] if configs and isinstance(configs[0], dict) else {}


def _first(round_: Round) -> Mapping[str, Any]:
    """FINISHED of the lowest rank that logged that event."""
    return next(rank.finished for rank in round_.ranks if rank.all("FINISHED"))


def _per_rank(round_: Round, name: str) -> dict[int, Any]:
    return {rank["rank"]: rank[name] for rank in _first(round_).get("ranks") or () if rank.get(name) is not None}


def _numbers(values: Mapping[str, Any], *names: str) -> tuple[float, ...]:
    """Figures by their names; NaN for a missing figure, because every comparison with NaN is false."""
    figures: list[Any] = [values.get(name) for name in names]
    return tuple(float(value) if is_number(value) else math.nan for value in figures)


def _near(left: float, right: float, within: tuple[float, float] = CLOCKS) -> bool:
    return abs(left - right) <= within[0] * max(left, right) + within[1]


# ---------------------------------------------------------------- completeness


def _ended(round_: Round) -> Findings:
    status = round_.stated.get("status")
    if status != "finished":
        yield "SUSPECT" if status == "unfinished" else "INVALID", f"status {status}"


def _complete(round_: Round) -> Findings:
    world = int(round_.config["nnodes"]) * int(round_.config["nproc"])
    if round_.stated.get("status") in ("failed", "interrupted", "not started"):
        return
    if len(round_.ranks) != world or {rank.number for rank in round_.ranks} != set(range(world)):
        yield "INVALID", f"logs of {len(round_.ranks)} of {world} ranks"
    for rank in round_.ranks:
        if (count := len(rank.all("FINISHED"))) != 1:
            yield "SUSPECT" if count else "INVALID", f"rank {rank.number} logged {count} FINISHED"
        if rank.unread:
            yield "SUSPECT", f"{rank.unread} lines of rank {rank.number} cannot be read"


def _one_configuration(round_: Round) -> Findings:
    configs = {rank.number: config for rank in round_.ranks if (config := config_of(rank))}
    if not configs:
        return
    first = configs[min(configs)]
    for rank, config in configs.items():
        if keys := [*differing_keys(first, config, (*NODE_KEYS, "code"))]:
            yield "INVALID", f"rank {rank} read another {', '.join(keys)}"
    if keys := [*differing_keys(round_.config, first, (*NODE_KEYS, *ROUND_KEYS))]:
        yield "INVALID", f"config.yaml has another {', '.join(keys)} than the ranks read"
    if "repeat_seed" in round_.config and first["seed"] != (seed := round_.seed):
        yield "INVALID", f"seed {first['seed']} in place of {seed}"


# ---------------------------------------------------------------- agreement of the figures


def _ranks_agree(round_: Round) -> Findings:
    first = _first(round_)
    logged = [rank.finished for rank in round_.ranks if rank.all("FINISHED")]
    if names := sorted(
        {key for event in logged for key in event.keys() | first if not same(event.get(key), first.get(key), (0, 0))}
    ):
        yield "INVALID", f"ranks disagree about {', '.join(names)}"
    groups = _per_rank(round_, "parameters_group")
    for figure in ("loss", "parameters"):
        sums = {
            (groups.get(rank, 0) if figure == "parameters" else 0, checksum)
            for rank, checksum in _per_rank(round_, f"{figure}_checksum").items()
        }
        if len(sums) > len({group for group, _ in sums}):
            yield "INVALID", f"checksums of the {figure} differ"
    frozen = {(event.value.get("frozen") or {}).get("checksum") for rank in round_.ranks for event in rank.all("BUILT")}
    if frozen - {first.get("frozen_checksum")}:
        yield "INVALID", "the frozen weights changed"
    samples = _per_rank(round_, "samples")
    total = first.get("num_trained_samples")
    if samples and is_number(total) and sum(samples.values()) != total:
        yield "INVALID", "the samples of the ranks do not add up"
    times = _per_rank(round_, "raw_train_time").values()
    if times and not _near(max(times), min(times)):
        yield "SUSPECT", "the ranks' training times differ"
    if len({*_per_rank(round_, "data_fingerprint").values()}) > 1:
        yield "SUSPECT", "the files of the ranks differ"


def _possible(round_: Round) -> Findings:
    first, hardware = _first(round_), round_.config.get("hardware") or {}
    final, memory, limit = first.get("final_loss"), first.get("peak_memory"), hardware.get("memory_gib")
    losses = [event.value.get("loss") for rank in round_.ranks for event in rank.all("STEP_END")]
    if first.get("stop_reason") == "non_finite_loss" or (final is not None and not math.isfinite(final)):
        yield "INVALID", f"the loss is {final}"
    elif any(loss is not None and not math.isfinite(loss) for loss in losses):
        yield "SUSPECT", "a loss was not finite"
    if first.get("peak_memory_kind") == "device" and memory and limit and memory > limit:
        yield "INVALID", f"{memory} GiB are more than the hardware has"
    finals = {name.removeprefix("final_"): value for name, value in first.items()}
    if first.get("converged") and round_.config.get("target") and not is_reached(round_.config["target"], finals):
        yield "INVALID", "converged, but the target is missed"
    if is_number(first.get("mfu")) and first["mfu"] > 1:
        yield "SUSPECT", "MFU is over 1"


def _rates_and_times(round_: Round) -> Findings:
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


def _bound(round_: Round) -> Findings:
    """A throughput above the stated bound."""
    (allowed,) = _numbers(round_.stated.get("achievable") or {}, "bound")
    if any(rate > BOUND * allowed for rate in _numbers(_first(round_), *RATES)):
        yield "SUSPECT", f"a throughput is above {allowed:.6g}, which the hardware allows at most"


def _enough(round_: Round) -> Findings:
    first, stop = _first(round_), _first(round_).get("stop_reason")
    if not first.get("global_steps"):
        yield "INVALID", "no step was trained"
    for limit, figure in LIMITS.items():
        (allowed,), (reached,) = _numbers(round_.config, limit), _numbers(first, figure)
        is_asked = stop == limit or limit in round_.changed_keys
        if reached < allowed and stop not in ("target", "non_finite_loss") and is_asked:
            yield "INVALID" if stop == limit else "SUSPECT", f"{limit}={allowed}, but {figure} is {reached}"


def _clocks(round_: Round) -> Findings:
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


def _data(round_: Round) -> Findings:
    logged = [event.value.get("data") for rank in round_.ranks for event in rank.all("BUILT")[-1:]]
    counts = [{key: n for key, n in data.items() if isinstance(n, int)} for data in logged if isinstance(data, dict)]
    if any(count != counts[0] for count in counts if count and counts[0]):
        yield "SUSPECT", "the ranks counted other data"
    extent = (round_.config.get("data") or {}).get("extent") or {}
    if round_.config.get("size") != "full" or round_.config.get("synthetic") or _first(round_).get("sample_data"):
        return
    for name in ("train", "eval", "classes"):
        expected, share = extent.get(name), 0.0 if name == "classes" else extent.get("tolerance", 0.0)
        if expected is not None and any(
            abs(count.get(name, expected) - expected) > share * expected for count in counts
        ):
            yield "SUSPECT", f"not the data of the case: {name}"


def _learned(round_: Round) -> Findings:
    first = _first(round_)
    logged = [event.value.get("loss") for event in round_.ranks[0].all("STEP_END")]
    losses = [loss for loss in logged if loss is not None and math.isfinite(loss)]
    if len(losses) < 8 or (first.get("global_steps") or 0) - (first.get("resumed_from_step") or 0) < 100:
        return
    window = max(4, len(losses) // 4)
    means = [statistics.fmean(losses[start : start + window]) for start in range(len(losses) - window + 1)]
    began, least, ended = statistics.fmean(losses[:4]), min(means), means[-1]
    noise = 3 * statistics.stdev(after - before for before, after in pairwise(losses)) / math.sqrt(2)
    if ended - began > max(noise * math.sqrt(1 / window + 1 / 4), 0.01 * abs(began)):
        yield "SUSPECT", f"the loss ended above where it began: {ended:.4g}, from {began:.4g}"
    elif ended - least > max(0.5 * (began - least), noise * math.sqrt(2 / window), 0.01 * abs(least)):
        yield "SUSPECT", f"the loss diverged: from {began:.4g} to {least:.4g}, and back to {ended:.4g}"


def _built(round_: Round) -> Findings:
    names = (round_.config.get("hardware") or {}).get("device_names") or ()
    devices = [event.value.get("device_name") for rank in round_.ranks for event in rank.all("BUILT")[-1:]]
    for device in devices:
        if names and device is not None and not any(re.fullmatch(name, device) for name in names):
            yield "INVALID", f"the device is {device}"
    if round_.config.get("division") == "closed":
        yield from built_findings(round_)


def _aligned(round_: Round) -> Findings:
    """No alignment where the run requires one, or ranks with other software than that of the alignment."""
    record = round_.config.get("alignment_record")
    if record is None:
        if round_.config.get("require_alignment"):
            yield "INVALID", "the run requires an alignment, and has none"
        return
    aligned: Mapping[str, Any] = record["software"]
    for rank in round_.ranks:
        for event in rank.all("BUILT")[-1:]:
            versions: Mapping[str, Any] = (event.value.get("software") or {}).get("versions") or {}
            names = (aligned.keys() & versions.keys()) - {"flagperf"}
            if other := sorted(name for name in names if versions[name] != aligned[name]):
                yield "INVALID", f"rank {rank.number} has another version of {', '.join(other)} than the alignment"


ALWAYS: tuple[Callable[[Round], Findings], ...] = (_ended, _complete, _one_configuration)
WITH_FINISHED: tuple[Callable[[Round], Findings], ...] = (
    _ranks_agree,
    _possible,
    _rates_and_times,
    _bound,
    _enough,
    _clocks,
    _data,
    _learned,
    _built,
    _aligned,
)
