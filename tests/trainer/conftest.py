"""Trainings run in this process leave its global settings as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import toy


@pytest.fixture(autouse=True)
def torch_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No variables of torchrun or the launcher from outside; precision and determinism back to torch's own."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "FLAGPERF_LOG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    toy.reset_settings()
