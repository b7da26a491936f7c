"""The checksums of two runs of one training: equal, or the first step, rank and value that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from jobs_of import JOB, job

from flagperf.compare.align import align
from flagperf.compare.checksums import Checksums, compared
from flagperf.compare.jobs import NamedJob
from flagperf.contract.perflog import Event

STEPS = range(1, 7)
RANKS = (0, 1)
Changed = Mapping[tuple[int, int], str]  # step and rank → name of the checksum that is another one


def training(folder: Path, changed: Changed | None = None, *, logged: bool = True) -> NamedJob:
    """A job of one round whose two ranks logged checksums."""
    made = job(str(folder), seed=0, values={"p_train": 100.0, "final_acc1": 80.0})
    for rank in RANKS:
        events = [Event("STEP_END", {"step": step, "loss": 1.0}) for step in STEPS]
        for step in STEPS if logged else ():
            same = dict.fromkeys(("loss", "gradients", "parameters"), f"of step {step}")
            name = (changed or {}).get((step, rank))
            other = {name: "another"} if name else {}
            events.append(Event("CHECKSUMS", {"step": step, **same, **other}))
        log = folder / JOB / f"round1/node0_noderank0/rank{rank}.out.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"{event.line()}\n" for event in events), encoding="utf-8")
    return made


ANSWERS: dict[str, tuple[Changed, Checksums, str]] = {
    "equal": ({}, Checksums(6), "checksums of 6 steps equal"),
    "another gradient, and all that follows": (
        {(4, 1): "gradients", (5, 0): "loss", (4, 0): "parameters"},
        Checksums(6, 4, 1, "gradients"),
        "checksums differ from step 4 on, first the gradients of rank 1",
    ),
}


@pytest.mark.parametrize(("changed", "answer", "text"), ANSWERS.values(), ids=ANSWERS.keys())
def test_two_rounds(tmp_path: Path, changed: Changed, answer: Checksums, text: str) -> None:
    reference, other = training(tmp_path / "a"), training(tmp_path / "b", changed)
    assert compared(*(Path(side.name) / "round1" for side in (reference, other))) == answer
    (exactly,) = align(reference, other, share=0.0)
    expected = "failed" if changed else "passed"
    assert (exactly.checksums, exactly.outcome) == (answer, expected)
    assert text in exactly.decision.why
    assert replace(exactly, share=0.01).outcome == "passed"  # other devices have other checksums


def test_rounds_without_checksums(tmp_path: Path) -> None:
    (alignment,) = align(training(tmp_path / "a", logged=False), training(tmp_path / "b"), share=0.0)
    assert (alignment.checksums, alignment.outcome) == (None, "passed")
    assert "checksums" not in alignment.decision.why
