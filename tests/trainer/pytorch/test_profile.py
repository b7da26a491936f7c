"""`profile=true`: a trace of three steps of rank 0, and losses as without it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import toy

FILE = "trace.json"


def traced_steps(path: Path) -> list[str]:
    """The steps that a trace names, in their order."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    names = {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}
    return sorted(names, key=lambda name: int(name.partition("#")[2]))


@pytest.mark.parametrize(
    ("max_steps", "traced"),
    [
        pytest.param(12, ["ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6"], id="after the warm-up, and one more"),
        pytest.param(3, None, id="a training that ends sooner"),
    ],
)
def test_some_steps_are_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_steps: int, traced: list[str] | None
) -> None:
    monkeypatch.setenv("FLAGPERF_LOG_DIR", str(tmp_path))
    settings = {"max_epochs": 2, "max_steps": max_steps, "warmup_steps": 3}
    plain = toy.train(toy.config(**settings), tmp_path)
    assert not (tmp_path / FILE).exists()
    profiled = toy.train(toy.config(**settings, profile=True), tmp_path)
    assert toy.losses(profiled) == toy.losses(plain)
    assert profiled[-1].value.keys() == plain[-1].value.keys()
    assert (traced_steps(tmp_path / FILE) if traced else (tmp_path / FILE).exists()) == (traced or False)


def test_of_rank_0_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_LOG_DIR", str(tmp_path))
    ranks = toy.fork_ranks(partial(toy.train, toy.config(max_epochs=4, profile=True)), tmp_path)
    assert [events[-1].event for events in ranks] == ["FINISHED"] * 2
    names = [name for name in tmp_path.iterdir() if name.name.startswith("trace")]
    assert [name.name for name in names] == [FILE]
    assert "aten::linear" in names[0].read_text(encoding="utf-8")
