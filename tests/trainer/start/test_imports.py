"""Imports at the start of a rank: what is imported, in which order, and what the garbage collector sees of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flagperf.trainer.start.imports import import_components, without_garbage_collection


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the modules `early_*` imported so far, oldest first; they are made here and gone after the test."""
    order: list[str] = []
    for name in ("plugin", "task", "nested", "unused", "broken"):
        lines = [
            "import sys",
            "sys.early.append(__name__)",
            *(["raise OSError('no driver')"] if name == "broken" else []),
        ]
        (tmp_path / f"early_{name}.py").write_text("\n".join([*lines, "class Part: pass"]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "early", order, raising=False)
    yield order
    for name in order:
        sys.modules.pop(name, None)


def test_the_plug_in_comes_first_and_what_cannot_be_imported_is_passed_over(imported: list[str]) -> None:
    config = {
        "framework": {"parts": dict.fromkeys(("task", "network", "optimizer", "train_data", "eval_data"))},
        "vendor": {"plugin": "early_plugin"},
        "task": {"_target_": "early_task.Part"},
        "network": {"_target_": "early_broken.Part"},
        "optimizer": {"_target_": "early_task.NotThere"},
        "train_data": {"_target_": "nowhere.Data", "transforms": [{"of": {"_target_": "early_nested.Part"}}]},
        "eval_data": None,
        "data": {"sample": {"_target_": "early_unused.Part"}},  # a writer is needed where there is no data yet
    }
    import_components(config)
    assert imported == ["early_plugin", "early_task", "early_broken", "early_nested"]


def test_what_a_block_makes_is_not_looked_at_again() -> None:
    before, kept = gc.get_freeze_count(), []
    with without_garbage_collection():
        assert not gc.isenabled()
        kept.append([])
    try:
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        assert not any(found is kept[0] for found in gc.get_objects())
    finally:
        gc.unfreeze()


def test_the_collector_is_on_again_after_an_error() -> None:
    with pytest.raises(ImportError), without_garbage_collection():
        raise ImportError("no torch")
    gc.unfreeze()
    assert gc.isenabled()
