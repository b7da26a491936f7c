"""What a run says of a step that does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contract.test_trace import CASE, TRACE
from example import example_job

from flagperf.contract.hardware import GIB
from flagperf.contract.trace import MemoryPeak
from flagperf.predict.memory import Fit
from flagperf.run import fit
from flagperf.run.predicted import Effect

TRACED = replace(
    TRACE,
    case=replace(CASE, batch_size=4),
    memory=MemoryPeak(0, 0, 0, 240 * GIB, 0, 0, module="", phase="backward"),
)


def test_refusal_names_changes_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Effect({"activation_checkpointing": True, "loss_chunk": 2048}, Fit(27.6, 35.9, 80))
    monkeypatch.setattr(fit, "ways_to_fit", lambda _: [way])
    assert str(fit.refusal(example_job(), TRACED, Fit(240.0, 292.9, 80))) == (
        "a step does not fit into the memory of a device\n"
        "  where:   config.yaml\n"
        "  key:     train_batch_size\n"
        "  given:   4: 240.0 GiB of tensors at the peak, in backward\n"
        "  allowed: at most 80 GiB, the memory of cpu\n"
        "  do:      activation_checkpointing=true loss_chunk=2048 (35.9 GiB) | predict=false: start all the same"
    )
