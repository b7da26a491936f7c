"""The counts of a step → its Trace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from flagperf.contract.settings import Settings
from flagperf.contract.trace import Collective, MemoryPeak, OperatorCount, PipelineRank, Trace, TracedCase
from flagperf.trainer.pytorch.parallel import Strategy
from flagperf.trainer.pytorch.trace.counts import Counts
from flagperf.trainer.pytorch.trace.linear import FEW, LENGTHS, along_line

if TYPE_CHECKING:
    from flagperf.trainer.pytorch.trace.pipeline import Form, TracedRank


class Blocks(NamedTuple):
    """Equal blocks of a network. The trace has only FEW of them."""

    stages: tuple[int, ...]  # blocks of each stage of a pipeline; without one, the network is the only stage
    of_rank: int  # stages of the rank
    held: int  # blocks of the rank

    def line(self, counts: Sequence[Counts]) -> Counts:
        """The counts of all blocks of the rank, from those of FEW blocks of each stage."""
        return along_line(counts, (FEW[0] * self.of_rank, FEW[1] * self.of_rank), self.held)


@dataclass
class Counted:
    """The counts of the case's step, and how they were made."""

    counts: Counts
    how: str
    blocks: Sequence[Blocks]
    length: int | None
    guessed: set[str]
    form: Form | None  # of the tensor that stages of a pipeline pass on


def record(
    config: Mapping[str, Any],
    settings: Settings,
    strategy: Strategy,
    counted: Counted,
    fingerprint: str,
    versions: Mapping[str, str],
) -> Trace:
    """The trace of one rank."""
    counts, stages = counted.counts, [stage for few in counted.blocks for stage in few.stages]
    (phase, module), peak = max(counts.peaks.items(), key=lambda item: sum(item[1].values()))
    return Trace(
        case=TracedCase(
            case=config["case"],
            size=config["size"],
            precision=settings.precision,
            batch_size=settings.train_batch_size,
            micro_steps=settings.gradient_accumulation_steps,
            sequence=config.get("seq_length"),
            strategy=type(strategy).__name__.lower(),
            mesh=vars(strategy.mesh),
            layers_traced=FEW[1] * len(stages) if stages else None,
            layers=sum(stages) if stages else None,
            how=counted.how,
            versions=versions,
            fingerprint=fingerprint,
        ),
        samples=round(counts.samples),
        memory=MemoryPeak(**{kind: round(size) for kind, size in peak.items()}, module=module, phase=phase),  # type: ignore[arg-type]
        operators=tuple(
            OperatorCount(
                name,
                kind,
                dtype,
                at,
                round(row.calls),
                row.operations,
                round(row.read),
                round(row.written),
                round(row.chain),
                function,
                shapes,
                tuple(json.loads(arguments)),
            )
            for (name, kind, dtype, at, *_, (function, shapes, arguments)), row in counts.rows.items()
            if round(row.calls)
        ),
        collectives=tuple(
            Collective(kind, side, group, dtype, at, round(sent.calls), round(sent.bytes))
            for (kind, side, group, dtype, at), sent in counts.sent.items()
        ),
        notes=tuple(_notes(config, counted)),
    )


def record_of_pipeline(traces: Sequence[Trace], ranks: Sequence[TracedRank]) -> Trace:
    """The trace of a pipeline, from those of some of its ranks, the last of them included."""
    pipeline = tuple(
        PipelineRank(
            rank.position,
            rank.alike,
            each.case.micro_steps * rank.stages,
            each.memory,
            each.operators,
            each.collectives,
        )
        for rank, each in zip(ranks, traces)
    )
    holds = max(pipeline, key=lambda rank: rank.memory.total)
    computes, most = max(zip(pipeline, traces), key=lambda pair: pair[1].operations)
    positions = ", ".join(str(rank.position) for rank in ranks)
    note = (
        f"Ranks {positions} along pp were traced; each other rank does the same as one of them. "
        f"Memory is that of rank {holds.position}; operators and messages are those of rank {computes.position}, "
        "which computes most."
    )
    return replace(most, memory=holds.memory, pipeline=pipeline, notes=(*most.notes, note))


def _notes(config: Mapping[str, Any], counted: Counted) -> list[str]:
    notes = []
    if config["compile"]:
        notes.append("The network is traced without compilation, which needs less memory: an upper bound.")
    for few in counted.blocks:
        low, high = (number * len(few.stages) for number in FEW)
        notes.append(f"{low} and {high} of {sum(few.stages)} equal blocks were traced; the rest follows on a line.")
    if counted.how == "values":
        samples = "1 and 2 samples" + (f" of length {LENGTHS[0]} and {LENGTHS[1]}" if counted.length else "")
        notes.append(f"Values decide shapes: steps with values, of {samples}; the rest follows on a line.")
    if counted.guessed - {""}:
        notes.append(f"These modules read a number of a tensor, and got 0: {', '.join(sorted(counted.guessed))}.")
    return notes
