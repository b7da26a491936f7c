"""A configuration → the Trace of one optimizer step of its first rank."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.trace import Collective, MemoryPeak, OperatorCount, Trace, TracedCase
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.parallel import Strategy, make_strategy
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.pytorch.trace import blocks
from flagperf.trainer.pytorch.trace.counts import Counts
from flagperf.trainer.pytorch.trace.linear import along_line
from flagperf.trainer.pytorch.trace.stand_in import (
    CPU,
    meta_network,
    part_of_rank,
    process_group,
    settings_of,
    world_of,
)
from flagperf.trainer.pytorch.trace.step import Step
from flagperf.trainer.pytorch.trace.tally import Tally

FEW = (2, 3)  # blocks or micro steps that stand for more of them
SAMPLES = (1, 2)  # likewise, where values decide shapes
LENGTHS = (16, 32)  # likewise, of samples whose parts cost the same


@dataclass
class _Counted:
    """The counts of the case's step, and how they were made."""

    counts: Counts
    how: str
    layers: int | None
    length: int | None
    guessed: set[str]


def trace(config: Mapping[str, Any], fingerprint: str, versions: Mapping[str, str]) -> Trace:
    """The trace of a configuration that a rank would get.

    Raises:
        Exception: of any kind, from a network that cannot be traced.
    """
    settings, world = settings_of(config), world_of(config)
    strategy = make_strategy(config, settings, world)
    if strategy.mesh.pp > 1:
        raise ConfigError(
            "flagperf cannot trace the step of a pipeline yet",
            key="parallel.mesh.pp",
            given=strategy.mesh.pp,
            allowed="1",
        )
    with process_group(world, world.size > 1 or strategy.needs_group):
        counted = _counted(config, settings, world)
    return _record(config, settings, strategy, counted, fingerprint, versions)


def _counted(config: Mapping[str, Any], settings: Settings, world: World) -> _Counted:
    """Counts at the sizes of the case, from traces of fewer blocks and micro steps where these are many."""
    task: Task = component(config, "task")
    equal = blocks.equal_blocks(meta_network(config, settings, task, world))
    layers = None if equal is None or task.values_decide else equal.number
    guessed: set[str] = set()

    def counts(samples: int, micro_steps: int, number: int | None = None, length: int | None = None) -> Counts:
        few = replace(settings, gradient_accumulation_steps=micro_steps)
        tally = _tally(config, few, world, samples, number, length)
        guessed.update(tally.guessed)
        return tally.finish()

    def of_all_blocks(samples: int, micro_steps: int) -> Counts:
        if layers is None:
            return counts(samples, micro_steps)
        return along_line([counts(samples, micro_steps, number) for number in FEW], FEW, layers)

    def of_full_length(samples: int, micro_steps: int) -> Counts:
        if task.full_length is None:
            return counts(samples, micro_steps)
        short = [counts(samples, micro_steps, length=length) for length in LENGTHS]
        return along_line(short, LENGTHS, task.full_length)

    def of_all_samples(micro_steps: int) -> Counts:
        if not task.values_decide:
            return of_all_blocks(settings.train_batch_size, micro_steps)
        few = [of_full_length(number, micro_steps) for number in SAMPLES]
        return along_line(few, SAMPLES, settings.train_batch_size)

    def of_all_steps() -> Counts:
        wanted = settings.gradient_accumulation_steps
        if wanted <= FEW[1]:
            return of_all_samples(wanted)
        few = [of_all_samples(number) for number in FEW]
        return replace(along_line(few, FEW, wanted), peaks=few[-1].peaks)  # more micro steps hold no more

    return _Counted(of_all_steps(), "values" if task.values_decide else "shapes", layers, task.full_length, guessed)


def _tally(
    config: Mapping[str, Any],
    settings: Settings,
    world: World,
    samples: int,
    number: int | None,
    length: int | None,
) -> Tally:
    """One step, of so many samples in a micro step.

    Args:
        number: how many of the equal blocks; None: the whole network.
        length: of the samples; None: that of the case.
    """
    task: Task = component(config, "task")
    strategy = make_strategy(config, settings, world)
    mode = None if task.values_decide else FakeTensorMode(allow_non_fake_inputs=True)
    if mode is None:
        network = build_network(config, settings, task, CPU, world)
    else:
        network = meta_network(config, settings, task, world)
    names = {module: name for name, module in network.named_modules()}
    if number is not None:
        blocks.keep(network, number)
    if mode is not None:
        network = part_of_rank(network, strategy, mode)
    with mode or nullcontext():
        batch = task.full_batch(config, samples) if length is None else task.batch_of_length(config, samples, length)
    tally = Tally(strategy.mesh, task.samples(batch) * settings.gradient_accumulation_steps)
    Step(config, strategy, task, network, mode, batch, names).run(tally)
    return tally


def _record(
    config: Mapping[str, Any],
    settings: Settings,
    strategy: Strategy,
    counted: _Counted,
    fingerprint: str,
    versions: Mapping[str, str],
) -> Trace:
    counts = counted.counts
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
            layers_traced=FEW[-1] if counted.layers else None,
            layers=counted.layers,
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


def _notes(config: Mapping[str, Any], counted: _Counted) -> list[str]:
    notes = []
    if config["compile"]:
        notes.append("The network is traced without compilation, which needs less memory: an upper bound.")
    if counted.layers is not None:
        notes.append(f"{FEW[0]} and {FEW[1]} of {counted.layers} equal blocks were traced; the rest follows on a line.")
    if counted.how == "values":
        samples = "1 and 2 samples" + (f" of length {LENGTHS[0]} and {LENGTHS[1]}" if counted.length else "")
        notes.append(f"Values decide shapes: real steps of {samples} on the CPU; the rest follows on a line.")
    if counted.guessed - {""}:
        notes.append(f"These modules read a number of a tensor, and got 0: {', '.join(sorted(counted.guessed))}.")
    return notes
