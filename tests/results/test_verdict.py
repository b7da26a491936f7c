"""The verdict of a round: one sound round, and every way in which it can be unsound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from second_verdict import judge

from flagperf.contract.extent import Extent
from flagperf.contract.outcome import Failure, refusal
from flagperf.contract.perflog import Event
from flagperf.contract.records import Achievable
from flagperf.contract.target import Target
from flagperf.errors import InterruptedRunError
from flagperf.results.evidence import Evidence
from flagperf.results.rank_log import RankLog
from flagperf.results.verdict import worst

NAN = float("nan")

FINISHED: dict[str, Any] = {
    "e2e_time": 30.0,
    "raw_train_time": 20.0,
    "train_no_eval_time": 18.0,
    "pure_training_computing_time": 16.0,
    "num_trained_samples": 3200,
    "num_trained_units": 6400,
    "training_sequences_per_second": 160.0,
    "p_whole": 320.0,
    "p_train": 6400 / 18,
    "p_core": 400.0,
    "global_steps": 100,
    "epochs": 2,
    "converged": True,
    "stop_reason": "target",
    "final_loss": 0.5,
    "final_acc1": 97.0,
    "mfu": 0.4,
    "peak_memory": 3.0,
    "peak_memory_kind": "device",
    "eval_time": 1.5,
    "checkpoint_time": 0.5,
    "ranks": [
        {"rank": 0, "samples": 1600, "raw_train_time": 20.0, "step_time_sum": 17.9, "parameters_checksum": "ab12"},
        {"rank": 1, "samples": 1600, "raw_train_time": 19.9, "step_time_sum": 17.8, "parameters_checksum": "ab12"},
    ],
}


def log(rank: int, *, losses: tuple[float, ...] = (2.0, 1.0, 0.5), late: int = 0, **changed: Any) -> RankLog:
    """One rank's log; `late` milliseconds are added to its last step, keywords change its FINISHED."""
    steps = [
        Event(
            "STEP_END", {"step": 50 * step, "loss": loss}, time_ms=10_000 * step + (late if step == 2 else 0), rank=rank
        )
        for step, loss in enumerate(losses)
    ]
    start, end = Event("TRAIN_START", time_ms=0, rank=rank), Event("TRAIN_END", time_ms=20_000, rank=rank)
    finished = Event("FINISHED", {**FINISHED, **changed}, time_ms=20_100, rank=rank)
    return RankLog(rank, f"node{rank}", rank, (start, *steps, end, finished))


def evidence(**changed: Any) -> Evidence:
    """Two sound ranks, where keywords change what both say in FINISHED."""
    return Evidence(
        status="finished",
        world_size=2,
        logs=(log(0, **changed), log(1, **changed)),
        seconds=31.0,
        limits={"max_steps": 500.0, "max_epochs": 10.0},
        target=Target("acc1", 95.0, "higher", "%"),
        memory_gib=40.0,
    )


def ranks(**second: Any) -> list[dict[str, Any]]:
    """The `ranks` of FINISHED, where keywords change the second one."""
    first, other = FINISHED["ranks"]
    return [first, {**other, **second}]


def without(event: str) -> Evidence:
    sound = evidence()
    cut = tuple(found for found in sound.logs[1].events if found.event != event)
    return dataclasses.replace(sound, logs=(sound.logs[0], dataclasses.replace(sound.logs[1], events=cut)))


def beginning(sound: Evidence, event: str, *values: dict[str, Any]) -> Evidence:
    """The same evidence, with this event at the begin of each rank's log."""
    logs = [
        dataclasses.replace(log, events=(Event(event, value, rank=log.rank), *log.events))
        for log, value in zip(sound.logs, values, strict=True)
    ]
    return dataclasses.replace(sound, logs=logs)


def built(*counts: dict[str, int], **finished: Any) -> Evidence:
    """Sound ranks of a case on images. Every rank counted its data."""
    counted = beginning(evidence(**finished), "BUILT", *({"data": found} for found in counts))
    return dataclasses.replace(counted, extent=Extent("images", train=1_281_167, eval=50_000))


def frozen(start: str, end: str) -> Evidence:
    """Sound ranks with adapters, and the checksums of their frozen weights."""
    value = {"frozen": {"parameters": 10, "checksum": start}}
    return beginning(evidence(frozen_checksum=end), "BUILT", value, value)


def submitted(*configs: dict[str, Any]) -> Evidence:
    """Sound ranks, each of which says what its configuration is."""
    return beginning(evidence(), "SUBMIT_INFO", *({"config": config} for config in configs))


def aligned(software: dict[str, str]) -> Evidence:
    """Sound ranks on torch 2.4.0, of a run that requires an alignment and has one of this software."""
    versions = {"software": {"versions": {"torch": "2.4.0", "flagperf": "0.2.0", "timm": None}}}
    config = {"require_alignment": True, "alignment_record": {"software": software}}
    return dataclasses.replace(beginning(evidence(), "BUILT", versions, versions), config=config)


def changed(**fields: Any) -> Callable[[], Evidence]:
    return lambda: dataclasses.replace(evidence(), **fields)


STOPPED = {"converged": False, "stop_reason": "max_steps"}

CASES: dict[str, tuple[Callable[[], Evidence], str, tuple[str, ...]]] = {
    "sound": (evidence, "VALID", ()),
    "figures that do not apply are absent": (
        lambda: evidence(mfu=None, peak_memory=None, training_sequences_per_second=None, p_core=None),
        "VALID",
        (),
    ),
    "a limit of the case that another one forestalled": (
        lambda: evidence(converged=False, stop_reason="max_epochs", epochs=10),
        "VALID",
        (),
    ),
    "samples before a resume count for the limit": (
        lambda: dataclasses.replace(
            evidence(converged=False, stop_reason="max_samples_termination", global_samples=6400),
            limits={"max_samples_termination": 6400.0},
        ),
        "VALID",
        (),
    ),
    "host memory has no limit in the hardware's file": (
        lambda: evidence(peak_memory=64.0, peak_memory_kind="host rss"),
        "VALID",
        (),
    ),
    "failed": (
        changed(status="failed", failure=Failure("exit code 1", "node1", 1, 1, "training", last_lines=("last line",))),
        "INVALID",
        ("failed: rank 1 on node1 (node rank 1): exit code 1, during training",),
    ),
    "interrupted": (changed(status="interrupted", logs=()), "INVALID", ("interrupted",)),
    "interrupted before it began": (
        changed(status="interrupted", logs=(), failure=refusal(InterruptedRunError(" while waiting for nodes"))),
        "INVALID",
        ("interrupted while waiting for nodes",),
    ),
    "not started": (changed(status="not started", logs=()), "INVALID", ("not started",)),
    "the launcher died": (
        lambda: dataclasses.replace(without("FINISHED"), status="unfinished"),
        "INVALID",
        ("no FINISHED from rank 1", "no result.json that can be read: how the processes ended is not known"),
    ),
    "the launcher died after the training": (
        changed(status="unfinished"),
        "SUSPECT",
        ("no result.json that can be read: how the processes ended is not known",),
    ),
    "no log at all": (changed(logs=()), "INVALID", ("no log of ranks 0, 1",)),
    "a rank without a log": (lambda: dataclasses.replace(evidence(), logs=(log(0),)), "INVALID", ("no log of rank 1",)),
    "a rank without FINISHED": (lambda: without("FINISHED"), "INVALID", ("no FINISHED from rank 1",)),
    "lines that could not be read": (
        lambda: dataclasses.replace(evidence(), logs=(log(0), dataclasses.replace(log(1), unread=3))),
        "SUSPECT",
        ("rank 1: 3 PerfLog lines cannot be read, and do not count",),
    ),
    "a rank that finished twice": (
        lambda: dataclasses.replace(
            evidence(), logs=(log(0), dataclasses.replace(log(1), events=(*log(1).events, log(1).events[-1])))
        ),
        "SUSPECT",
        ("rank 1 logged FINISHED 2 times: the last one counts",),
    ),
    "more ranks than the world": (
        lambda: dataclasses.replace(evidence(), logs=(log(0), log(1), log(2))),
        "INVALID",
        ("rank 2 beyond the world size 2",),
    ),
    "places of a node's own": (
        lambda: submitted(
            {"run_name": "a", "deadlines": {"start": 300}, "data_dir": "/data", "files": ["/data/x", 1]},
            {"run_name": "b", "deadlines": {"start": 900}, "data_dir": "~/data", "files": ["/x", 1]},
        ),
        "VALID",
        (),
    ),
    "another configuration": (
        lambda: submitted(
            {"lr": 0.1, "precision": "fp32", "target": {"metric": "acc1"}, "data_dir": None},
            {"lr": 0.2, "precision": "fp32", "target": {"metric": "acc1", "also": None}, "data_dir": "/data"},
        ),
        "INVALID",
        ("rank 1 has another configuration than rank 0: lr, data_dir, target.also",),
    ),
    "ranks disagree": (
        lambda: dataclasses.replace(evidence(), logs=(log(0), log(1, final_loss=0.6, final_acc1=96.0))),
        "INVALID",
        ("ranks disagree about final_acc1, final_loss",),
    ),
    "frozen weights changed": (
        lambda: frozen("ab12", "ff00"),
        "INVALID",
        (
            "frozen weights changed during the training: their checksum was ab12 at the start (rank 0) and ff00 at the "
            "end; only the adapters may change",
        ),
    ),
    "frozen weights stayed": (lambda: frozen("ab12", "ab12"), "VALID", ()),
    "parameters differ": (
        lambda: evidence(ranks=ranks(parameters_checksum="ff00")),
        "INVALID",
        ("checksums of the parameters differ between ranks (rank 0 ab12, rank 1 ff00)",),
    ),
    "parameters of two parts, each alike": (
        lambda: evidence(ranks=ranks(parameters_checksum="ff00", parameters_group=1)),
        "VALID",
        (),
    ),
    "losses differ": (
        lambda: evidence(
            ranks=[{**FINISHED["ranks"][0], "loss_checksum": "1"}, {**FINISHED["ranks"][1], "loss_checksum": "2"}]
        ),
        "INVALID",
        ("checksums of the loss differ between ranks (rank 0 1, rank 1 2)",),
    ),
    "samples do not add up": (
        lambda: evidence(ranks=ranks(samples=1500)),
        "INVALID",
        ("ranks trained 3100 samples together, FINISHED says 3200",),
    ),
    "a slow rank": (
        lambda: evidence(ranks=ranks(raw_train_time=17.0, step_time_sum=15.0)),
        "SUSPECT",
        ("rank 0 trained 20.00 s, rank 1 17.00 s",),
    ),
    "loss not finite": (lambda: evidence(final_loss=NAN), "INVALID", ("the loss is not finite (final_loss nan)",)),
    "stopped by the loss": (
        lambda: evidence(converged=False, stop_reason="non_finite_loss", final_loss=None),
        "INVALID",
        ("the loss is not finite (final_loss None)",),
    ),
    "loss not finite in passing": (
        lambda: evidence(losses=(2.0, float("inf"), 0.5)),
        "SUSPECT",
        ("the loss was inf at step 50 on rank 0",),
    ),
    "more memory than the hardware has": (
        lambda: evidence(peak_memory=64.0),
        "INVALID",
        ("peak memory 64.0 GiB is over the hardware's 40 GiB",),
    ),
    "faster than the product allows": (
        lambda: dataclasses.replace(
            evidence(), achievable=Achievable(bound=390.0), config={"hardware": {"name": "X1"}}
        ),
        "SUSPECT",
        (
            "p_core is 400, above the 390 that the traced step and the data sheet of X1 allow: a peak, a count of "
            "operations or bytes, or the figure is wrong",
        ),
    ),
    "as fast as the product allows": (
        lambda: dataclasses.replace(evidence(), achievable=Achievable(bound=400.0)),
        "VALID",
        (),
    ),
    "claims a target it missed": (
        lambda: evidence(final_acc1=90.0),
        "INVALID",
        ("converged, but final_acc1 is 90.0, target 95",),
    ),
    "claims a target of two metrics and missed one": (
        lambda: dataclasses.replace(
            evidence(final_acc5=98.0), target=Target("acc1", 95.0, "higher", "%", {"acc5": 99})
        ),
        "INVALID",
        ("converged, but final_acc5 is 98.0, target 99",),
    ),
    "throughput is not samples over seconds": (
        lambda: evidence(p_whole=640.0, training_sequences_per_second=320.0),
        "INVALID",
        (
            "p_whole is 640, but num_trained_units / raw_train_time is 320",
            "training_sequences_per_second is 320, but num_trained_samples / raw_train_time is 160",
        ),
    ),
    "e2e shorter than training": (
        lambda: evidence(e2e_time=15.0),
        "INVALID",
        ("e2e_time 15.000 s is shorter than raw_train_time 20.000 s",),
    ),
    "longer than the launcher waited": (
        changed(seconds=25.0),
        "INVALID",
        ("e2e_time 30.00 s is longer than the launcher waited, 25.00 s",),
    ),
    "no step": (lambda: evidence(global_steps=0), "INVALID", ("no step was trained",)),
    "fewer steps than it says": (
        lambda: evidence(**STOPPED),
        "INVALID",
        ("stopped by max_steps=500, but global_steps is 100",),
    ),
    "fewer samples than it says": (
        lambda: dataclasses.replace(
            evidence(converged=False, stop_reason="max_samples_termination", global_samples=3200),
            limits={"max_samples_termination": 6400.0},
        ),
        "INVALID",
        ("stopped by max_samples_termination=6400, but global_samples is 3200",),
    ),
    "fewer steps than asked": (
        lambda: dataclasses.replace(
            evidence(converged=False, stop_reason="max_epochs", epochs=10), user_limits=["max_steps"]
        ),
        "SUSPECT",
        ("max_steps=500 was asked, max_epochs ended it at 100",),
    ),
    "asked for steps, stopped at the target": (changed(user_limits=["max_steps"]), "VALID", ()),
    "steps longer than the training": (
        lambda: evidence(ranks=ranks(step_time_sum=19.9)),
        "INVALID",
        ("rank 1: steps and evaluation add up to 21.90 s of 19.90 s of training",),
    ),
    "time outside the steps": (
        lambda: evidence(ranks=ranks(step_time_sum=14.0)),
        "SUSPECT",
        ("rank 1: 3.90 s of 19.90 s of training lie outside its steps",),
    ),
    "another wall clock": (
        lambda: evidence(raw_train_time=24.0, p_whole=6400 / 24, training_sequences_per_second=3200 / 24, ranks=None),
        "SUSPECT",
        ("rank 0: training took 20.00 s by the wall clock, 24.00 s measured",),
    ),
    "clock went back": (
        lambda: evidence(late=-12_500),
        "SUSPECT",
        ("rank 0: the clock went back by 2.500 s between two STEP_END",),
    ),
    "clock was set": (
        lambda: evidence(ranks=ranks(wall_drift=3600.0)),
        "SUSPECT",
        ("rank 1: the wall clock was set by +3600.00 s during training",),
    ),
    "the data of the case": (lambda: built(*[{"train": 1_281_167, "eval": 50_000}] * 2), "VALID", ()),
    "sixteen photos": (
        lambda: built(*[{"train": 16, "eval": 8}] * 2),
        "SUSPECT",
        ("not the data of the case: 16 of 1,281,167 training images, 8 of 50,000 evaluation images",),
    ),
    "sample data says so itself": (lambda: built(*[{"train": 16}] * 2, sample_data=True), "VALID", ()),
    "data that nobody counted": (lambda: built({}, {}), "VALID", ()),
    "counts that are none": (lambda: built({"train": "16"}, ["train"]), "VALID", ()),  # type: ignore[arg-type,dict-item]
    "one rank has other data": (
        lambda: built({"train": 1_281_167}, {"train": 1_281_160}),
        "SUSPECT",
        (
            "not the data of the case: 1,281,160 of 1,281,167 training images",
            "rank 1 has other data than rank 0: the samples differ",
        ),
    ),
    "a node has other files": (
        lambda: evidence(ranks=[{**rank, "data_fingerprint": f"{rank['rank']:016x}"} for rank in ranks()]),
        "SUSPECT",
        ("rank 1 has other data than rank 0: the files differ",),
    ),
    "a required alignment": (
        lambda: aligned({"torch": "2.4.0", "flagperf": "0.2.0"}),
        "VALID",
        (),
    ),
    "no required alignment": (
        changed(config={"require_alignment": True}),
        "INVALID",
        ("the run requires an alignment, and has none: flagperf align makes it",),
    ),
    "an alignment of other software": (
        lambda: aligned({"torch": "2.4.1", "flagperf": "0.1.0"}),
        "INVALID",
        ("rank 0 has other software than the alignment: torch 2.4.0, the alignment has 2.4.1",),
    ),
    "the worst comes first": (
        lambda: evidence(peak_memory=64.0, late=-12_500),
        "INVALID",
        (
            "peak memory 64.0 GiB is over the hardware's 40 GiB",
            "rank 0: the clock went back by 2.500 s between two STEP_END",
        ),
    ),
}


@pytest.mark.parametrize(("given", "verdict", "reasons"), CASES.values(), ids=CASES.keys())
def test_judge(given: Callable[[], Evidence], verdict: str, reasons: tuple[str, ...]) -> None:
    assert judge(given()) == (verdict, reasons)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        pytest.param(["VALID", "VALID"], "VALID", id="all valid"),
        pytest.param(["VALID", "SUSPECT"], "SUSPECT", id="one suspect"),
        pytest.param(["INVALID", "SUSPECT"], "INVALID", id="one invalid"),
        pytest.param([], "INVALID", id="nothing"),
    ],
)
def test_worst(verdicts: list[Any], expected: str) -> None:
    assert worst(verdicts) == expected
