"""The functions that a table of operators may name: those of torch, and none of the modules that torch imports."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from flagperf.contract.operators import Operator, read_table
from flagperf.trainer.pytorch.operators import _function

TABLES = Path(__file__).parents[3] / "conf/operators"


def row(call: str) -> Operator:
    return Operator.of("x", {"call": call, "sizes": {"n": 2}, "inputs": [["n"]], "operations": "n"}, "table")


@pytest.mark.parametrize(
    "call", ["os.system", "sys.exit", "nn.functional.warnings.warn", "hub.shutil.rmtree", "nosuch"]
)
def test_a_function_beside_torch_is_refused(call: str) -> None:
    with pytest.raises(ValueError, match=rf"^torch {torch.__version__.replace('+', '.')} has no {call}$"):
        _function(row(call))


def test_the_functions_of_shipped_tables_are_found() -> None:
    for path in TABLES.glob("*.yaml"):
        assert all(
            callable(_function(operator)) for operator in read_table(yaml.safe_load(path.read_text()), str(path))
        )
