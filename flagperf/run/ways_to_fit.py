"""Changes of a job that lower its memory, and those with which a step fits by prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flagperf.config.parts.batch_size import GLOBAL
from flagperf.config.schema.values import JobConfig
from flagperf.contract.mesh import DATA_PARALLEL, STRATEGIES
from flagperf.errors import ConfigError
from flagperf.run.predicted import BATCH, MICRO_STEPS, Effect, changed, effect_of, largest_that_fits, traces

Change = Mapping[str, Any]  # key → value

CHECKPOINTING: Change = {"activation_checkpointing": True}
KEEP_NOTHING: Change = {"checkpoint_keeps": "nothing"}
CHUNK: Change = {"loss_chunk": 2048}
PER_RANK: Change = {GLOBAL: None, MICRO_STEPS: 1, "division": "open"}  # a batch for each data rank, in each step
MOST_NODES = 1024


def changes_of(job: JobConfig) -> list[Change]:
    """Changes that may lower the memory of a job, each alone: those for which the case has settings."""
    return [*_settings(job), *_divisions(job)[:1]]


def ways_to_fit(job: JobConfig) -> list[Effect]:
    """Changes with which the job fits, by predictions: those of the fewest settings; else the fewest nodes that do."""
    lean = _merged(_settings(job))
    batches: list[Change] = [{BATCH: size} for size in _smaller(job)]
    divisions = _divisions(job)
    least = batches[-1] if batches else {}
    combined = [lean, *(_merged((lean, change)) for change in (*batches, *divisions))]
    most = [_merged((lean, least, division)) for division in divisions]
    for changes in ([*_settings(job), *batches, *divisions], combined, most):
        if ways := [way for way in _effects(job, changes) if _fits(way)]:
            return ways
    if not divisions and job.strategy in (None, *DATA_PARALLEL):
        return []  # each rank holds the whole network on any number of nodes
    return _fewest_nodes(job, most[-1] if most else _merged((lean, least)))


def _settings(job: JobConfig) -> list[Change]:
    """Changes that need no other batch and no other division over the ranks."""
    config = job.config
    changes: list[Change] = []
    if config["checkpoint_modules"] and not config["activation_checkpointing"]:
        changes.append(CHECKPOINTING)
    elif config["activation_checkpointing"] and config["checkpoint_keeps"] != "nothing":
        changes.append(KEEP_NOTHING)
    if "loss_chunk" in config and config["loss_chunk"] is None:
        changes.append(CHUNK)
    return changes


def _divisions(job: JobConfig) -> list[Change]:
    """Changes that divide the network over more of the ranks that the job has."""
    block = job.config["checkpoint_modules"]
    if job.strategy not in (None, *DATA_PARALLEL):
        return [_tensor_parallel(tp) for tp in (2, 4, 8) if job.mesh.tp < tp and job.nproc % tp == 0]
    return [_sharded(block)] if block and job.nnodes * job.nproc > 1 else []


def _tensor_parallel(tp: int) -> Change:
    return {"parallel.mesh.tp": tp, "parallel.mesh.dp_shard": -1}


def _sharded(block: str) -> Change:
    return {
        "parallel._target_": f"{STRATEGIES}.Sharded",
        "parallel.mesh.dp_replicate": 1,
        "parallel.mesh.dp_shard": -1,
        "+parallel.blocks": [block.rpartition(".")[2]],
    }


def _smaller(job: JobConfig) -> list[int]:
    """The largest of half, a quarter … of the batch that fits by the line through two traces; and 1."""
    halves = [job.train_batch_size >> times for times in range(1, job.train_batch_size.bit_length())]
    largest = largest_that_fits(job) if halves else None
    fitting = next((size for size in halves if largest is None or size <= largest), 1)
    return sorted({fitting, 1} & {*halves}, reverse=True)


def _fewest_nodes(job: JobConfig, change: Change) -> list[Effect]:
    """The change with the fewest nodes that make the job fit; empty where more nodes do not help."""
    low, high = job.nnodes, 2 * job.nnodes
    best: Effect | None = None
    while best is None and high <= MOST_NODES:
        (way,) = _effects(job, [{**change, "nnodes": high}])
        if _fits(way):
            best = way
        else:
            low, high = high, 2 * high
    while best is not None and high - low > 1:
        middle = (low + high) // 2
        (way,) = _effects(job, [{**change, "nnodes": middle}])
        if _fits(way):
            best, high = way, middle
        else:
            low = middle
    return [] if best is None else [best]


def _effects(job: JobConfig, changes: Iterable[Change]) -> list[Effect]:
    """What changes do that the case allows."""
    variants = [(change, variant) for change in changes if change for change, variant in [_variant(job, change)]]
    allowed = [(change, variant) for change, variant in variants if isinstance(variant, JobConfig)]
    answers = traces([variant for _, variant in allowed]) if allowed else []
    return [effect_of(*each, answer) for each, answer in zip(allowed, answers, strict=True)]


def _variant(job: JobConfig, change: Change) -> tuple[Change, JobConfig | ConfigError]:
    """The changed job; where its ranks do not divide the samples of a step, with a batch for each data rank."""
    variant = changed(job, change)
    if isinstance(variant, ConfigError) and variant.key == GLOBAL:
        change = {**change, **PER_RANK}
        variant = changed(job, change)
    return change, variant


def _fits(effect: Effect) -> bool:
    return effect.fit is not None and effect.fit.verdict == "fits"


def _merged(changes: Sequence[Change]) -> Change:
    return {key: value for change in changes for key, value in change.items()}
