"""The operations of a traced step are those that the fingerprint of the case counts, in another way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from shipped import CASES

from cases.fingerprint import config_of
from flagperf.config.files.search_path import CONF, family_of
from flagperf.contract.components import component
from flagperf.trainer.pytorch.flops import count_forward
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.pytorch.trace.traced import trace

CPU = torch.device("cpu")
SIZES = [
    (case, size) for case in CASES for size in ("tiny", "full") if size == "tiny" or case == family_of(case, (CONF,))
]


def counted(case: str, size: str, config: Mapping[str, Any]) -> float:
    """Operations of one sample in a forward pass: as stated, or of the batch of the trace where that is another one."""
    task: Task = component(config, "task")
    if not task.values_decide:
        statement = yaml.safe_load(Path(CONF, f"fingerprint/{case}.yaml").read_text(encoding="utf-8"))
        choices = config["data"]["sample"].get("choices", 1)  # of a question; the statement is of one
        return float(statement[size]["forward"]["operations"]) * choices
    network = component(config, "network").train()
    batch = task.to_device(task.full_batch(config, 1), CPU, torch.contiguous_format)
    operations, note = count_forward(task, network, batch, Precision("fp32", CPU))
    assert operations is not None, note
    return operations


@pytest.mark.slow
@pytest.mark.parametrize(("case", "size"), [pytest.param(*each, id=" ".join(each)) for each in SIZES])
def test_operations(case: str, size: str) -> None:
    config = config_of(case, size)
    traced = trace(config, "", {})
    forward = sum(operator.operations for operator in traced.operators if operator.phase == "forward")
    within = max(0.001, component(config, "task").operations_within if traced.case.how == "values" else 0.0)
    assert forward / traced.samples == pytest.approx(counted(case, size, config), rel=within)
