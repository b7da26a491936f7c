"""A configuration → the Trace of one optimizer step of its first rank."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.trace import Trace
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.parallel import make_strategy
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.pytorch.trace import blocks
from flagperf.trainer.pytorch.trace.counts import Counts
from flagperf.trainer.pytorch.trace.linear import FEW, LENGTHS, SAMPLES, along_line
from flagperf.trainer.pytorch.trace.record import Blocks, Counted, record, record_of_pipeline
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
from flagperf.trainer.pytorch.trace.uncomputed import ProductsUncomputed

if TYPE_CHECKING:
    from flagperf.trainer.pytorch.trace.pipeline import Form, TracedRank


def trace(config: Mapping[str, Any], fingerprint: str, versions: Mapping[str, str]) -> Trace:
    """The trace of a configuration that a rank would get.

    Raises:
        Exception: of any kind, from a network that cannot be traced.
    """
    settings, world = settings_of(config), world_of(config)
    strategy = make_strategy(config, settings, world)
    if strategy.mesh.pp > 1:
        return _trace_of_pipeline(config, settings, strategy, fingerprint, versions)
    with process_group(world, world.size > 1 or strategy.needs_group):
        counted = _counted(config, settings, world)
    return record(config, settings, strategy, counted, fingerprint, versions)


def _trace_of_pipeline(
    config: Mapping[str, Any], settings: Settings, strategy: Any, fingerprint: str, versions: Mapping[str, str]
) -> Trace:
    """The trace of several ranks along `pp`."""
    from flagperf.trainer.pytorch.trace.pipeline import traced_ranks

    ranks = traced_ranks(meta_network(config, settings, component(config, "task"), world_of(config)), strategy)
    form, traces = None, []
    for rank in ranks:
        world = world_of(config, rank.position * strategy.mesh.stride("pp"))
        with process_group(world, needed=True):
            counted = _counted(config, settings, world, rank, form)
        form = counted.form
        traces.append(record(config, settings, strategy, counted, fingerprint, versions))
    return record_of_pipeline(traces, ranks)


def _counted(
    config: Mapping[str, Any],
    settings: Settings,
    world: World,
    rank: TracedRank | None = None,
    form: Form | None = None,
) -> Counted:
    """Counts at the sizes of the case, from traces of fewer blocks and micro steps where these are many.

    Args:
        rank: of a pipeline.
        form: of the tensor that its stages pass on; None: the first rank finds it.
    """
    task: Task = component(config, "task")
    few_blocks = () if task.values_decide else _blocks(meta_network(config, settings, task, world), rank)
    guessed: set[str] = set()

    def counts(samples: int, micro_steps: int, numbers: Sequence[int] = ()) -> Counts:
        nonlocal form
        few = replace(settings, gradient_accumulation_steps=micro_steps)
        stages = rank.blocks if rank and few_blocks else ()
        tally, form = _tally(config, few, world, samples, numbers, stages, form=form)
        guessed.update(tally.guessed)
        return tally.finish()

    def of_all_blocks(samples: int, micro_steps: int, numbers: tuple[int, ...] = ()) -> Counts:
        if len(numbers) == len(few_blocks):
            return counts(samples, micro_steps, numbers)
        few = [of_all_blocks(samples, micro_steps, (*numbers, number)) for number in FEW]
        return few_blocks[len(numbers)].line(few)

    def of_all_samples(micro_steps: int) -> Counts:
        if not task.values_decide:
            return of_all_blocks(settings.train_batch_size, micro_steps)
        few = [counts_of_values(_without_batch(config), number, micro_steps) for number in SAMPLES]
        return along_line(few, SAMPLES, settings.train_batch_size)

    def of_all_steps() -> Counts:
        wanted, numbers = settings.gradient_accumulation_steps, FEW if rank is None else rank.micro_batches
        if wanted <= numbers[1]:
            return of_all_samples(wanted)
        few = [of_all_samples(number) for number in numbers]
        line = along_line(few, numbers, wanted)
        return line if rank else replace(line, peaks=few[-1].peaks)  # more micro steps hold no more

    made = of_all_steps()
    return Counted(made, "values" if task.values_decide else "shapes", few_blocks, task.full_length, guessed, form)


@lru_cache(maxsize=None)
def counts_of_values(config_json: str, samples: int, micro_steps: int) -> Counts:
    """Counts of a case whose values decide shapes. They are made once for all batch sizes of a configuration."""
    config = json.loads(config_json)
    settings, world, task = settings_of(config), world_of(config), component(config, "task")
    settings = replace(settings, gradient_accumulation_steps=micro_steps)

    def counts(length: int | None = None) -> Counts:
        return _tally(config, settings, world, samples, length=length)[0].finish()

    if task.full_length is None:
        return counts()
    return along_line([counts(length) for length in LENGTHS], LENGTHS, task.full_length)


def _without_batch(config: Mapping[str, Any]) -> str:
    """A configuration as JSON, with batch 1 and without what depends on the batch and changes no count."""
    kept = {key: value for key, value in config.items() if key not in ("division", "lr_scheduler")}
    return json.dumps({**kept, "train_batch_size": 1}, sort_keys=True)


def _blocks(network: nn.Module, rank: TracedRank | None) -> tuple[Blocks, ...]:
    """The equal blocks: only a few are traced. An empty tuple: all blocks are traced. `rank`: of a pipeline."""
    equals = blocks.equal_blocks(network)
    if rank is None or not equals:
        return tuple(Blocks((equal.number,), 1, equal.number) for equal in equals)
    equal = equals[0]
    enough = equal.number == sum(rank.blocks) > len(rank.blocks) * FEW[1] and min(rank.blocks) >= FEW[1]
    return (Blocks(rank.blocks, rank.stages, rank.held),) if enough else ()


def _tally(
    config: Mapping[str, Any],
    settings: Settings,
    world: World,
    samples: int,
    numbers: Sequence[int] = (),
    stages: Sequence[int] = (),
    length: int | None = None,
    form: Form | None = None,
) -> tuple[Tally, Form | None]:
    """One step, of so many samples in a micro step. Returns the form that the stages of a pipeline pass on, too.

    Args:
        numbers: how many of the equal blocks of each list, or of each stage; empty: the whole network.
        stages: their numbers of equal blocks.
        length: of the samples; None: that of the case.
    """
    task: Task = component(config, "task")
    strategy = make_strategy(config, settings, world)
    mode = ProductsUncomputed() if task.values_decide else FakeTensorMode(allow_non_fake_inputs=True)
    if task.values_decide:
        network = build_network(config, settings, task, CPU, world)
    else:
        network = meta_network(config, settings, task, world)
    names = {module: name for name, module in network.named_modules()}
    blocks.keep(network, numbers, stages)
    if isinstance(mode, FakeTensorMode):
        network = part_of_rank(network, strategy, mode)
    with mode:
        batch = task.full_batch(config, samples) if length is None else task.batch_of_length(config, samples, length)
    tally = Tally(strategy.mesh, task.samples(batch) * settings.gradient_accumulation_steps)
    step = Step(config, strategy, task, network, mode, batch, names, form)
    step.run(tally)
    return tally, step.form
