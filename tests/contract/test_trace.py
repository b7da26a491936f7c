"""The record of a traced step."""

from __future__ import annotations

import json

import pytest

from flagperf.contract.trace import Collective, MemoryPeak, OperatorCount, Trace, TracedCase, from_json, to_json
from flagperf.errors import ConfigError

CASE = TracedCase(
    case="llama3_8b",
    size="full",
    precision="amp_bf16",
    batch_size=1,
    micro_steps=2,
    sequence=8192,
    strategy="sharded",
    mesh={"dp_replicate": 1, "dp_shard": 8, "tp": 1},
    layers_traced=3,
    layers=32,
    how="shapes",
    versions={"torch": "2.14.1", "flagperf": "0.1"},
    fingerprint="ab12",
)
TRACE = Trace(
    case=CASE,
    samples=2,
    memory=MemoryPeak(4, 2, 8, 16, 1, 3, module="model.layers.2.mlp", phase="backward"),
    operators=(OperatorCount("aten.mm", "matmul", "bfloat16", "forward", 6, 1e12, 100, 50, 150),),
    collectives=(Collective("all_gather", "dp_shard", 8, "bfloat16", "forward", 33, 1000),),
    notes=("The network has 3 of 32 blocks.",),
)


def test_round_trip():
    assert from_json(to_json(TRACE), "trace") == TRACE
    assert TRACE.memory.total == 34
    assert TRACE.operations == 1e12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("torch is broken", "this is no trace", id="no JSON"),
        pytest.param(json.dumps({"schema": 1}), "this is no trace", id="a part is missing"),
        pytest.param(json.dumps({"schema": 99}), "a trace of another schema", id="another schema"),
    ],
)
def test_no_trace(text, message):
    with pytest.raises(ConfigError, match=message):
        from_json(text, "trace.json")
