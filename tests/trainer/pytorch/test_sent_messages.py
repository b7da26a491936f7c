"""Messages of a traced step beside those that the ranks of a training give to gloo, as torch's profiler notes them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from flagperf_command import flagperf

from flagperf.trainer.pytorch.trace.traced import trace

KINDS = {  # operator of the profile → collective operation
    "c10d::allreduce_": "all_reduce",
    "c10d::_allgather_base_": "all_gather",
    "c10d::allgather_into_tensor_coalesced_": "all_gather",
    "c10d::_reduce_scatter_base_": "reduce_scatter",
    "c10d::send": "send",
    "c10d::recv_": "recv",
    "c10d::broadcast_": "broadcast",
}
FLOAT = 4  # bytes: these cases train in fp32
SHARDED = ("model=llama3_8b", "division=open", "global_batch_size=null", "gradient_accumulation_steps=1")
STAGES = (
    "model=llama3_8b",
    "division=open",
    "global_batch_size=null",
    "gradient_accumulation_steps=4",
    "parallel.mesh.pp=2",
)
FOUR = ("nproc=4", "oversubscribe=true")

Messages = dict[str, tuple[int, int]]  # collective operation → calls and bytes of a step


def noted(path: Path) -> Messages:
    """The messages of the first step of a profile: later ones also sum the figures of the log."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    step = next(event for event in events if event.get("name", "").startswith("ProfilerStep#"))
    inside = [event for event in events if "ts" in event and step["ts"] <= event["ts"] < step["ts"] + step["dur"]]
    sent = defaultdict[str, list[int]](list)
    for event in inside:
        if event["name"] in KINDS:
            sent[KINDS[event["name"]]].append(FLOAT * max(map(numbers, event["args"]["Input Dims"])))
    return {kind: (len(sizes), sum(sizes)) for kind, sizes in sent.items()}


def numbers(shape: Any) -> int:
    """Numbers in a tensor of this shape, or in a list of tensors; 0: the argument is no tensor."""
    if shape and isinstance(shape[0], list):
        return sum(numbers(inner) if inner else 1 for inner in shape)  # []: a tensor of one number
    return math.prod(shape) if shape else 0


def predicted(path: Path) -> Messages:
    """The messages of the traced step of a configuration, of the first rank: the profiled one."""
    sent = defaultdict[str, list[tuple[int, int]]](list)
    traced = trace(yaml.safe_load(path.read_text(encoding="utf-8")), "", {})
    for collective in (traced.pipeline or (traced,))[0].collectives:
        sent[collective.kind].append((collective.calls, collective.bytes))
    return {kind: (sum(calls for calls, _ in each), sum(size for _, size in each)) for kind, each in sent.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("model=glm", "division=open", "nproc=2"), id="gradients of two whole networks"),
        pytest.param((*SHARDED, "nproc=2", "parallel.mesh.dp_shard=2"), id="divided over two ranks"),
        pytest.param(
            (*SHARDED, *FOUR, "parallel.mesh.dp_replicate=2", "parallel.mesh.dp_shard=2"), id="two divided copies"
        ),
        pytest.param((*SHARDED, *FOUR, "parallel.mesh.dp_shard=2", "parallel.mesh.tp=2"), id="tensor parallelism"),
        pytest.param((*STAGES, *FOUR, "parallel.mesh.dp_shard=2"), id="pipeline of divided stages"),
        pytest.param(
            (*STAGES, *FOUR, "parallel.mesh.tp=2", "parallel.stages=2", "network.config.num_hidden_layers=4"),
            id="interleaved pipeline with tensor parallelism",
        ),
    ],
)
def test_ranks_send_what_the_trace_counts(words: tuple[str, ...], tmp_path: Path) -> None:
    steps = ("profile=true", "warmup_steps=2", "max_steps=6", "result_dir=.")
    done = flagperf(*words, *steps, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (profile,) = tmp_path.glob("run*/*/round1/*/trace.json")
    assert noted(profile) == predicted(profile.parents[1] / "config.yaml")
