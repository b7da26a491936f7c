"""Tables of operators: shapes, operations, smaller sizes, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from flagperf.contract.operators import Operator, read_table
from flagperf.contract.trace import OperatorCount, Trace
from flagperf.errors import ConfigError
from flagperf.predict.operator_table import operator_table
from flagperf.results.operators import MeasuredOperator

TABLE = Path(__file__).parents[2] / "conf/operators/flagperf.yaml"
MM = {"call": "mm", "sizes": {"m": 8, "n": 16, "k": 4}, "inputs": [["m", "n"], ["n", "k"]], "operations": "2 m n k"}


def test_the_shipped_table() -> None:
    operators = {operator.name: operator for operator in read_table(yaml.safe_load(TABLE.read_text()), str(TABLE))}
    assert len(operators) == 52
    assert operators["mm"].work == 2 * 8192**3
    assert operators["native_group_norm"].given == (20, 6, 32768, 3, 1e-5)


def test_smaller_sizes() -> None:
    operator = Operator.of("mm", MM, "table.yaml")
    assert (operator.shapes, operator.work) == (((8, 16), (16, 4)), 1024)
    assert (operator.within(40).shapes, operator.within(None)) == (((4, 8), (8, 4)), operator)


INCOMPLETE = "a row of operators is not complete, or has an unknown key"
TYPE = "wrong type of value"
REFUSED: dict[str, tuple[object, str, str]] = {
    "no row": (3, INCOMPLETE, ""),
    "unknown key": ({**MM, "shape": 1}, INCOMPLETE, ""),
    "incomplete": ({"call": "mm"}, INCOMPLETE, ""),
    "unknown size": ({**MM, "operations": "2 m n x"}, "unknown word", ""),
    "unknown values": ({**MM, "values": "negative"}, "no such option", ".values"),
    "no list of shapes": ({**MM, "inputs": 3}, TYPE, ".inputs"),
    "text for shapes": ({**MM, "inputs": "mm"}, TYPE, ".inputs"),
    "no shape": ({**MM, "inputs": ["m", 3]}, TYPE, ".inputs[0]"),
    "a size that is a list": ({**MM, "inputs": [[["m"]]]}, TYPE, ".inputs[0][0]"),
    "no tensor": ({**MM, "inputs": []}, "an operator without a tensor", ".inputs"),
    "no sizes": ({**MM, "sizes": ["m"]}, TYPE, ".sizes"),
    "a size of text": ({**MM, "sizes": {"m": "x"}}, TYPE, ".sizes.m"),
    "a size of 0": ({**MM, "sizes": {"m": 0}}, "value out of range", ".sizes.m"),
    "no list of arguments": ({**MM, "arguments": 3}, TYPE, ".arguments"),
    "classes of no size": ({**MM, "classes": ["m"]}, TYPE, ".classes"),
}


@pytest.mark.parametrize(("row", "problem", "key"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(row: object, problem: str, key: str) -> None:
    """A table may come from anyone."""
    with pytest.raises(ConfigError) as caught:
        read_table({"operators": {"mm": row}}, "table.yaml")
    assert (caught.value.problem, caught.value.where, caught.value.key) == (problem, "table.yaml", f"operators.mm{key}")


SHARES = [
    pytest.param({"fp32": 1e12}, 1e12, (0.5, "memory bandwidth"), id="memory"),
    pytest.param({"fp32": 1e10}, 1e12, (10.0, "compute"), id="compute"),
    pytest.param({"bf16": 1e10}, None, None, id="no peak"),
]


@pytest.mark.parametrize(("peaks", "memory", "expected"), SHARES)
def test_share(peaks: dict[str, float], memory: float | None, expected: tuple[float, str] | None) -> None:
    measured = MeasuredOperator("mm", "fp32", ((1,),), 1.0, seconds=1.0, operations=10**11, bytes=5 * 10**11)
    assert measured.share(peaks, memory) == expected


def test_the_table_of_a_traced_step() -> None:
    """Calls of the same shapes are a row, those with most operations first. The optimizer's are left out."""

    def count(name: str, calls: int, work: float, *call: Any, phase: Any = "forward") -> OperatorCount:
        return OperatorCount(f"aten.{name}", "other", "float32", phase, calls, work, 10, 10, 20, *call)

    convolution = ("convolution", ((32, 64, 56, 56), (64, 64, 3, 3)), (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1))
    operators = (
        count("mul", 5, 0, "mul", ((8, 16), (8, 16))),
        count("native_layer_norm", 2, 0, "nn.functional.layer_norm", ((8, 16),), ([16],)),
        count("sqrt", 9, 0, "sqrt", ((16,),), phase="optimizer"),
        count("embedding", 1, 0),
        count("mm", 2, 4e6, "mm", ((8, 16), (16, 4))),
        count("mm", 3, 6e6, "mm", ((8, 16), (16, 4)), phase="backward"),
        count("convolution", 1, 9e6, *convolution),
    )
    trace = SimpleNamespace(operators=operators, case=SimpleNamespace(case="net", batch_size=32))
    text = operator_table(cast(Trace, trace), "flagperf run probe=operators operators.table=net")
    rows = {row.name: row for row in read_table(yaml.safe_load(text), "net.yaml")}
    assert list(rows) == ["mm_1", "convolution_1", "mul_1", "layer_norm_1"]
    assert (rows["mm_1"].shapes, rows["mm_1"].work) == (((8, 16), (16, 4)), None)
    assert (rows["convolution_1"].shapes, rows["convolution_1"].given) == (convolution[1], convolution[2])
    assert rows["layer_norm_1"].within(64).given == ([8],)
    assert "operations: counted}  # 5 calls in a step" in text.splitlines()[4]
