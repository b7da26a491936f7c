"""The verdict on a round: VALID, SUSPECT or INVALID, with reasons. Pure: no files, no clock.

INVALID: the numbers cannot be used. SUSPECT: a person should check the reason before using the numbers. RUNNING: the
round is not over. Each rule is a function; docs/results.md lists them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flagperf.contract.records import Finding, Verdict
from flagperf.contract.settings import ON_SAMPLE_DATA
from flagperf.results.achievable import within_the_bound
from flagperf.results.aligned import as_aligned
from flagperf.results.closed import BUILT
from flagperf.results.evidence import TRAINING_LIMITS, Evidence
from flagperf.results.extent import DATA
from flagperf.results.learning import LEARNING
from flagperf.results.one_configuration import as_recorded, one_configuration
from flagperf.results.running import GOES_ON, so_far

VERDICTS: tuple[Verdict, ...] = ("VALID", "SUSPECT", "RUNNING", "INVALID")  # the worst last
EXACT = 1e-3  # relative error allowed where two figures are the same by definition
CLOCK_SHARE, CLOCK_SECONDS = 0.02, 0.5  # two clocks, or two ranks, may differ by this share plus these seconds
SEEN_SECONDS = 3.0  # the same for the launcher, which reads the logs of other hosts
UNEXPLAINED_SHARE = 0.1  # of the training time may lie outside steps, evaluation and checkpoints
EXPLAINED = ("failed", "interrupted", "not started")  # these statuses explain why ranks have no FINISHED
Rule = Callable[[Evidence], Iterator[Finding]]


def judge(evidence: Evidence) -> tuple[Verdict, tuple[str, ...]]:
    """The worst verdict of all rules, and the reasons, the worst first."""
    if evidence.status in GOES_ON:
        return "RUNNING", (so_far(evidence),)
    checks = COMPLETE + ((*CONSISTENT, *LEARNING, *BUILT) if evidence.finished else ())
    findings = [finding for check in checks for finding in check(evidence)]
    reasons = [text for verdict, text in findings if verdict == "INVALID"]
    verdict: Verdict = "INVALID" if reasons else "SUSPECT" if findings else "VALID"
    return verdict, (*reasons, *(text for verdict, text in findings if verdict == "SUSPECT"))


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts; INVALID when there is none."""
    return max(verdicts, key=VERDICTS.index, default="INVALID")


# ---------------------------------------------------------------- completeness


def _status(evidence: Evidence) -> Iterator[Finding]:
    if evidence.status == "unfinished":
        yield "SUSPECT", "no result.json that can be read: how the processes ended is not known"
    elif evidence.status != "finished":
        yield "INVALID", evidence.failure.after(evidence.status) if evidence.failure else evidence.status


def _ranks_present(evidence: Evidence) -> Iterator[Finding]:
    if evidence.status in EXPLAINED:
        return
    silent = set(range(evidence.world_size)) - {log.rank for log in evidence.logs}
    if silent:
        yield "INVALID", f"no log of {_ranks(silent)}"
    unfinished = {log.rank for log in evidence.logs if log.finished is None}
    if unfinished:
        yield "INVALID", f"no FINISHED from {_ranks(unfinished)}"
    surplus = {log.rank for log in evidence.logs} - set(range(evidence.world_size))
    if surplus:
        yield "INVALID", f"{_ranks(surplus)} beyond the world size {evidence.world_size}"


def _lines_read(evidence: Evidence) -> Iterator[Finding]:
    for log in evidence.logs:
        if log.unread:
            yield "SUSPECT", f"rank {log.rank}: {log.unread} PerfLog lines cannot be read, and do not count"


def _finished_once(evidence: Evidence) -> Iterator[Finding]:
    for log in evidence.logs:
        if (count := len(log.all("FINISHED"))) > 1:
            yield "SUSPECT", f"rank {log.rank} logged FINISHED {count} times: the last one counts"


# ---------------------------------------------------------------- agreement of the ranks


def _ranks_agree(evidence: Evidence) -> Iterator[Finding]:
    first = evidence.finished
    differing: dict[str, None] = {}
    for log in evidence.logs:
        for name in (log.finished or first).keys() | first.keys():
            if not same((log.finished or first).get(name), first.get(name)):
                differing[name] = None
    if differing:
        yield "INVALID", f"ranks disagree about {', '.join(sorted(differing))}"


def _checksums_agree(evidence: Evidence) -> Iterator[Finding]:
    losses, parameters = (evidence.per_rank(f"{kind}_checksum") for kind in ("loss", "parameters"))
    groups = evidence.per_rank("parameters_group")  # ranks of a group hold the same part of the network
    for part in sorted({groups.get(rank, 0) for rank in parameters}):
        alike = {rank: value for rank, value in parameters.items() if groups.get(rank, 0) == part}
        yield from _differing("parameters", alike)
    yield from _differing("loss", losses)


def _frozen_unchanged(evidence: Evidence) -> Iterator[Finding]:
    """With adapters, all other weights are frozen: their checksums at the start and at the end are equal."""
    end = evidence.finished.get("frozen_checksum")
    for rank, built in evidence.built.items():
        start = (built.get("frozen") or {}).get("checksum")
        if start != end:
            yield (
                "INVALID",
                f"frozen weights changed during the training: their checksum was {start} at the start (rank {rank}) "
                f"and {end} at the end; only the adapters may change",
            )
            return


def _differing(kind: str, checksums: Mapping[int, str]) -> Iterator[Finding]:
    if len(set(checksums.values())) > 1:
        listed = ", ".join(f"rank {rank} {value}" for rank, value in checksums.items())
        yield "INVALID", f"checksums of the {kind} differ between ranks ({listed})"


def _samples_add_up(evidence: Evidence) -> Iterator[Finding]:
    samples, total = evidence.per_rank("samples"), evidence.number("num_trained_samples")
    if samples and total is not None and sum(samples.values()) != total:
        yield "INVALID", f"ranks trained {sum(samples.values())} samples together, FINISHED says {total:.0f}"


def _rank_times_agree(evidence: Evidence) -> Iterator[Finding]:
    times = evidence.per_rank("raw_train_time")
    if times and not _clocks_agree(max(times.values()), min(times.values())):
        fast, slow = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
        yield "SUSPECT", f"rank {slow} trained {times[slow]:.2f} s, rank {fast} {times[fast]:.2f} s"


# ---------------------------------------------------------------- possible values


def _loss_is_finite(evidence: Evidence) -> Iterator[Finding]:
    final = evidence.finished.get("final_loss")
    if evidence.finished.get("stop_reason") == "non_finite_loss" or (final is not None and not math.isfinite(final)):
        yield "INVALID", f"the loss is not finite (final_loss {final})"
        return
    for log in evidence.logs:
        for event in log.all("STEP_END"):
            loss = event.value.get("loss")
            if loss is not None and not math.isfinite(loss):
                yield "SUSPECT", f"the loss was {loss} at step {event.value.get('step')} on rank {log.rank}"
                return


def _within_the_hardware(evidence: Evidence) -> Iterator[Finding]:
    memory = evidence.number("peak_memory")
    on_device = evidence.finished.get("peak_memory_kind") == "device"
    if memory is not None and on_device and evidence.memory_gib and memory > evidence.memory_gib:
        yield "INVALID", f"peak memory {memory:.1f} GiB is over the hardware's {evidence.memory_gib:g} GiB"


def _target_claim(evidence: Evidence) -> Iterator[Finding]:
    target = evidence.target
    if target and evidence.finished.get("converged"):
        finals = {name: evidence.number(f"final_{name}") for name in target.values}
        for name in target.missed(finals):
            yield "INVALID", f"converged, but final_{name} is {finals[name]}, target {target.values[name]:g}"


# ---------------------------------------------------------------- figures that depend on each other


def _throughput(evidence: Evidence) -> Iterator[Finding]:
    for name, count, seconds in (
        ("p_whole", "num_trained_units", "raw_train_time"),
        ("p_train", "num_trained_units", "train_no_eval_time"),
        ("p_core", "num_trained_units", "pure_training_computing_time"),
        ("training_sequences_per_second", "num_trained_samples", "raw_train_time"),
    ):
        given, amount, time = (evidence.number(key) for key in (name, count, seconds))
        if given is None or amount is None or not time:
            continue
        if not math.isclose(given, amount / time, rel_tol=EXACT):
            yield "INVALID", f"{name} is {given:.6g}, but {count} / {seconds} is {amount / time:.6g}"


def _times_nest(evidence: Evidence) -> Iterator[Finding]:
    nested = ("e2e_time", "raw_train_time", "train_no_eval_time", "pure_training_computing_time")
    for outer, inner in itertools.pairwise(nested):
        long, short = evidence.number(outer), evidence.number(inner)
        if long is not None and short is not None and short > long * (1 + EXACT):
            yield "INVALID", f"{outer} {long:.3f} s is shorter than {inner} {short:.3f} s"
    e2e, waited = evidence.number("e2e_time"), evidence.seconds
    if e2e is not None and waited is not None and e2e > waited and not _clocks_agree(e2e, waited):
        yield "INVALID", f"e2e_time {e2e:.2f} s is longer than the launcher waited, {waited:.2f} s"


def _as_the_launcher_saw(evidence: Evidence) -> Iterator[Finding]:
    measured, seen = evidence.number("raw_train_time"), evidence.trained
    if measured is None or seen is None:
        return
    if abs(measured - seen) > CLOCK_SHARE * max(measured, seen) + SEEN_SECONDS + evidence.unseen:
        yield (
            "SUSPECT",
            f"the ranks measured {measured:.2f} s of training, the launcher saw it go on for {seen:.2f} s",
        )


def _enough_steps(evidence: Evidence) -> Iterator[Finding]:
    stop = str(evidence.finished.get("stop_reason"))
    if not evidence.number("global_steps"):
        yield "INVALID", "no step was trained"
    for limit, amount in evidence.limits.items():
        done = evidence.number(TRAINING_LIMITS[limit])
        if done is None or done >= amount or stop in ("target", ON_SAMPLE_DATA, "non_finite_loss"):
            continue
        if stop == limit:
            yield "INVALID", f"stopped by {limit}={amount:g}, but {TRAINING_LIMITS[limit]} is {done:g}"
        elif limit in evidence.user_limits:
            yield "SUSPECT", f"{limit}={amount:g} was asked, {stop} ended it at {done:g}"


# ---------------------------------------------------------------- clocks


def _steps_fill_the_time(evidence: Evidence) -> Iterator[Finding]:
    steps, times = evidence.per_rank("step_time_sum"), evidence.per_rank("raw_train_time")
    elsewhere = (evidence.number("eval_time") or 0.0) + (evidence.number("checkpoint_time") or 0.0)
    outside = {rank: times[rank] - steps[rank] - elsewhere for rank in sorted(steps.keys() & times.keys())}
    if not outside:
        return
    lowest, highest = min(outside, key=outside.__getitem__), max(outside, key=outside.__getitem__)
    if -outside[lowest] > CLOCK_SHARE * times[lowest] + CLOCK_SECONDS:
        parts = times[lowest] - outside[lowest]
        yield (
            "INVALID",
            f"rank {lowest}: steps and evaluation add up to {parts:.2f} s of {times[lowest]:.2f} s of training",
        )
    if outside[highest] > UNEXPLAINED_SHARE * times[highest] + CLOCK_SECONDS:
        yield (
            "SUSPECT",
            f"rank {highest}: {outside[highest]:.2f} s of {times[highest]:.2f} s of training lie outside its steps",
        )


def _wall_clock(evidence: Evidence) -> Iterator[Finding]:
    seconds = evidence.number("raw_train_time")
    for log in evidence.logs:
        starts, ends = log.all("TRAIN_START"), log.all("TRAIN_END")
        wall = (ends[-1].time_ms - starts[-1].time_ms) / 1000 if starts and ends else None
        if wall is not None and seconds is not None and not _clocks_agree(wall, seconds):
            yield "SUSPECT", f"rank {log.rank}: training took {wall:.2f} s by the wall clock, {seconds:.2f} s measured"
            return


def _clock_goes_on(evidence: Evidence) -> Iterator[Finding]:
    drifts = evidence.per_rank("wall_drift")
    drifted = max(drifts, key=lambda rank: abs(drifts[rank]), default=None)
    if drifted is not None and abs(drifts[drifted]) > CLOCK_SECONDS:
        yield "SUSPECT", f"rank {drifted}: the wall clock was set by {drifts[drifted]:+.2f} s during training"
    for log in evidence.logs:
        for kind in ("STEP_END", "EVALUATE"):
            times = (event.time_ms for event in log.all(kind))
            back = max((before - after for before, after in itertools.pairwise(times)), default=0)
            if back > 0:
                yield "SUSPECT", f"rank {log.rank}: the clock went back by {back / 1000:.3f} s between two {kind}"
                return


COMPLETE: tuple[Rule, ...] = (
    _status,
    _ranks_present,
    one_configuration,
    as_recorded,
    _lines_read,
    _finished_once,
)
CONSISTENT: tuple[Rule, ...] = (
    _ranks_agree,
    _checksums_agree,
    _frozen_unchanged,
    _samples_add_up,
    _rank_times_agree,
    _loss_is_finite,
    _within_the_hardware,
    within_the_bound,
    _target_claim,
    _throughput,
    _times_nest,
    _as_the_launcher_saw,
    _enough_steps,
    _steps_fill_the_time,
    _wall_clock,
    _clock_goes_on,
    *DATA,
    as_aligned,
)


# ---------------------------------------------------------------- small parts


def _clocks_agree(seconds: float, other_seconds: float) -> bool:
    return abs(seconds - other_seconds) <= CLOCK_SHARE * max(seconds, other_seconds) + CLOCK_SECONDS


def same(figure: Any, other_figure: Any) -> bool:
    """Whether two figures are the same; NaN equals NaN."""
    both_nan = (
        isinstance(figure, float)
        and isinstance(other_figure, float)
        and math.isnan(figure)
        and math.isnan(other_figure)
    )
    return both_nan or figure == other_figure


def _ranks(ranks: Iterable[int]) -> str:
    listed = sorted(ranks)
    return f"rank{'s' if len(listed) > 1 else ''} {', '.join(map(str, listed))}"
