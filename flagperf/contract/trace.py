"""The trace of one optimizer step of one rank: what it holds, computes and sends, counted without a device.

`flagperf.trainer.pytorch.trace` makes a trace in the environment of the ranks; `flagperf.predict` reads it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Literal

from flagperf.contract.regular import parse_json
from flagperf.errors import ConfigError

SCHEMA = 1

Phase = Literal["forward", "backward", "optimizer"]
OperatorClass = Literal[
    "matmul",
    "attention",
    "convolution",
    "normalisation",
    "elementwise",
    "reduction",
    "optimizer",
    "copy",
    "embedding",
    "other",
]
KINDS = ("parameters", "gradients", "optimizer", "activations", "temporary", "communication")


@dataclass(frozen=True)
class TracedCase:
    """What was traced. Values of the case as the rank got them."""

    case: str
    size: str  # full, tiny
    precision: str
    batch_size: int  # train_batch_size: samples of one rank and micro step
    micro_steps: int  # gradient_accumulation_steps
    sequence: int | None  # tokens of a sample, where the case has the key seq_length
    strategy: str  # ddp, sharded, or the class path of another
    mesh: Mapping[str, int]  # side → ranks: contract/mesh.py
    layers_traced: int | None  # equal blocks that the traced network had; None: the network was traced as a whole
    layers: int | None  # equal blocks that the case has
    how: str  # "shapes": no value was computed; "values": all but matrix products were, for 1 and 2 samples
    versions: Mapping[str, str]  # torch, flagperf
    fingerprint: str  # SHA-256 over everything that the trace depends on


@dataclass(frozen=True)
class MemoryPeak:
    """Bytes of the tensors that one rank holds at the moment of an optimizer step when it holds most.

    What the device's context, its libraries and the reserve of its allocator need is not in here.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    temporary: int
    communication: int
    module: str  # in which the peak occurs: the path of its name; "" where no module runs
    phase: Phase

    @property
    def total(self) -> int:
        """Bytes of all kinds."""
        return sum(getattr(self, kind) for kind in KINDS)


@dataclass(frozen=True)
class OperatorCount:
    """All calls of one operator in an optimizer step with the same data type, phase, operations and bytes of a call.

    A roofline takes the larger of two times for each call, so calls of other sizes are counts of their own.
    """

    name: str  # such as aten.mm
    operator_class: OperatorClass
    dtype: str  # of the products or the output, as torch names it: float32, bfloat16, float16
    phase: Phase
    calls: int
    operations: float  # floating-point operations; a multiply-add counts as two
    read: int  # bytes
    written: int  # bytes
    chain: int  # bytes read and written where chains of neighbouring element-wise operators are one kernel
    function: str = ""  # function of torch that makes such a call again; "" where none does …
    shapes: tuple[tuple[int, ...], ...] = ()  # … of its tensors …
    arguments: tuple[Any, ...] = ()  # … and what follows the tensors


@dataclass(frozen=True)
class Collective:
    """All calls of one collective operation in an optimizer step with the same group, data type and phase."""

    kind: str  # all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv
    side: str  # of the mesh, such as dp_shard; "dp_shard x tp" where the group spans both
    group: int  # ranks that take part
    dtype: str
    phase: Phase
    calls: int
    bytes: int  # of the larger of input and output of one rank, over all calls


@dataclass(frozen=True)
class PipelineRank:
    """What a rank of a pipeline does in an optimizer step."""

    position: int  # along pp
    alike: int  # ranks along pp that do the same, this one included
    passes: int  # micro batches x stages of the rank
    memory: MemoryPeak
    operators: tuple[OperatorCount, ...]
    collectives: tuple[Collective, ...]


@dataclass(frozen=True)
class Trace:
    """One optimizer step of one rank.

    Of the ranks of a pipeline: the operators and collectives of the rank that computes most, and the memory of the rank
    that holds most.
    """

    case: TracedCase
    samples: int  # of one rank in the step
    memory: MemoryPeak
    operators: tuple[OperatorCount, ...]
    collectives: tuple[Collective, ...] = ()
    notes: tuple[str, ...] = ()  # what to know about the counts, one sentence each
    pipeline: tuple[PipelineRank, ...] = ()  # from the first rank along pp to the last; empty without a pipeline
    schema: int = SCHEMA

    @property
    def operations(self) -> float:
        """Floating-point operations of the step, of the average rank."""
        return self._of_average_rank(lambda operator: operator.operations)

    @property
    def moved(self) -> float:
        """Bytes that the operators of the step read and write, of the average rank."""
        return self._of_average_rank(lambda operator: operator.read + operator.written)

    def _of_average_rank(self, count: Callable[[OperatorCount], float]) -> float:
        if not self.pipeline:
            return float(sum(map(count, self.operators)))
        total = sum(rank.alike * sum(map(count, rank.operators)) for rank in self.pipeline)
        return total / sum(rank.alike for rank in self.pipeline)


def to_json(trace: Trace) -> str:
    """The trace as one line of JSON."""
    return json.dumps(dataclasses.asdict(trace))


def from_json(text: str, where: str) -> Trace:
    """The trace that `to_json` wrote.

    Args:
        where: file or program that the text is from, for the message.

    Raises:
        ConfigError: the text is no trace, or a trace of another schema.
    """
    try:
        content: dict[str, Any] = parse_json(text)
        if content["schema"] != SCHEMA:
            raise ConfigError(
                "a trace of another schema", where=where, key="schema", given=content["schema"], allowed=str(SCHEMA)
            )
        return Trace(
            case=TracedCase(**content["case"]),
            samples=content["samples"],
            notes=tuple(content["notes"]),
            pipeline=tuple(PipelineRank(**{**rank, **_counts(rank)}) for rank in content.get("pipeline", ())),
            **_counts(content),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError("this is no trace", where=where, advice=f"{type(error).__name__}: {error}") from error


def _counts(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "memory": MemoryPeak(**content["memory"]),
        "operators": tuple(map(_operator_count, content["operators"])),
        "collectives": tuple(Collective(**each) for each in content["collectives"]),
    }


def _operator_count(each: Mapping[str, Any]) -> OperatorCount:
    shapes, arguments = each.get("shapes", ()), each.get("arguments", ())
    return OperatorCount(**{**each, "shapes": tuple(map(tuple, shapes)), "arguments": tuple(arguments)})
