"""The settings of a training, each declared once: for the launcher's checks, for the ranks and for conf/training.yaml.

    python -m flagperf.contract.settings > conf/training.yaml

A field has name, type and range; `setting` adds the default, and the comment with the unit.
"""

# ruff: noqa: RUF009  # `setting` makes a dataclasses.field

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, List, Literal

from typing_extensions import Annotated

from flagperf.contract.fields import Count, CountFrom0, Field, Positive, Share
from flagperf.contract.sample_data import is_sample_data
from flagperf.contract.target import Target
from flagperf.errors import ConfigError

MISSING = "???"  # OmegaConf's mark of a value that the case must set
ENDS = ("max_steps", "max_epochs", "max_samples_termination", "max_time", "target")
ON_SAMPLE_DATA = "target_on_sample_data"  # why a training ended that claims no target
EVALUATIONS = ("eval_interval_steps", "eval_interval_micro_steps", "eval_interval_samples", "eval_interval_epochs")
# The shipped sinks, by the names that the setting `sinks` has for them.
SHORT_NAMES = {
    "mllog": "flagperf.trainer.sinks.mllog.MLLog",
    "dllogger": "flagperf.trainer.sinks.dllogger.DLLogger",
    "tensorboard": "flagperf.trainer.sinks.tensorboard.TensorBoard",
}

Names = Annotated[List[str], Field(list)]
Kernels = Annotated[List[str], Field(list, options=("flash", "efficient", "cudnn", "math"))]
Seed = Annotated[int, Field(int, low=0, high=2**32 - 1)]  # a range that every framework's generators accept
ShareFrom0 = Annotated[float, Field(float, low=0, high=1)]
Side = Annotated[int, Field(int, low=-1)]
Sinks = Annotated[List[Any], Field(list, options=tuple(SHORT_NAMES), classes=True)]


def setting(comment: str, default: Any = MISSING, *, new_group: bool = False) -> Any:
    """A field with its comment and default in conf/training.yaml. `new_group`: an empty line comes before it."""
    return field(metadata={"comment": comment, "default": default, "new_group": new_group})


@dataclass(frozen=True)
class Average:
    """A moving average of the weights."""

    decay: Share | None = setting(
        "share of the average that an update keeps, such as 0.9998; null: no average", default=None
    )
    every: Count = setting("optimizer steps between two updates", default=1)


@dataclass(frozen=True)
class Adapter:
    """Low-rank adapters (LoRA): docs/adapter.md."""

    modules: Names = setting("linear layers with an adapter, such as [q_proj]; []: all weights train", default=[])
    rank: Count = setting("width of the two matrices of an adapter", default=16)
    alpha: Positive = setting("an adapter's output is multiplied by alpha / rank", default=32)
    dropout: ShareFrom0 = setting("share of an adapter's inputs", default=0.0)


@dataclass(frozen=True)
class MeshSizes:
    """The sides of the mesh, in ranks: contract/mesh.py."""

    dp_replicate: Side = setting("copies of the network, each with other data; one size may be -1", default=-1)
    dp_shard: Side = setting("ranks that divide the tensors of a copy, each with other data", default=1)
    tp: Side = setting("ranks that compute each layer together, on the same data", default=1)
    pp: Side = setting("ranks that compute blocks one after the other, on the same data", default=1)
    cp: Side = setting("ranks that compute parts of each sequence, on the same data", default=1)
    ep: Side = setting("ranks that have different experts, each with other data", default=1)


@dataclass(frozen=True)
class Parallel:
    """How the ranks share the work. All other keys are arguments of the strategy: docs/parallel.md."""

    _target_: str | None = setting(
        "such as flagperf.trainer.pytorch.parallel.Sharded; null: data parallelism", default=None
    )
    mesh: MeshSizes = setting("sizes of the mesh; their product is the number of ranks", default=MeshSizes)

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Parallel:
        """The part of `parallel` that is no argument of the strategy."""
        sizes = {**{side.name: 1 for side in fields(MeshSizes)}, **node["mesh"]}  # sides that an older file lacks
        return cls(node["_target_"], MeshSizes(**sizes))


@dataclass(frozen=True)
class Settings:
    """The settings of one training."""

    train_batch_size: Count = setting(
        "samples per device and micro step; auto: the largest batch that fits", new_group=True
    )
    eval_batch_size: Count = setting("samples per device and evaluation step")
    gradient_accumulation_steps: Count = setting("micro steps per optimizer step", default=1)
    global_batch_size: Count | None = setting(
        "samples of an optimizer step of the whole job; null: any number", default=None
    )
    lr: Positive = setting("peak learning rate")

    max_steps: Count | None = setting("optimizer steps", default=None, new_group=True)
    max_epochs: Count | None = setting("passes over the training data", default=None)
    max_samples_termination: Count | None = setting("samples of the whole job", default=None)
    max_time: Positive | None = setting("seconds after TRAIN_START", default=None)

    initial_evaluation: bool = setting("true: evaluate before training", default=False, new_group=True)
    eval_interval_steps: Count | None = setting("optimizer steps between evaluations …", default=None)
    eval_interval_micro_steps: Count | None = setting(
        "… or micro steps; evaluation at the end of the optimizer step …", default=None
    )
    eval_interval_samples: Count | None = setting("… or samples of the whole job …", default=None)
    eval_interval_epochs: Count | None = setting(
        "… or epochs; the first of these four keys with a value counts", default=1
    )
    eval_start_samples: CountFrom0 = setting("samples of the whole job before the first evaluation", default=0)

    target: Target | None = setting(
        "{metric, value, direction: higher|lower, unit}; stops training when reached", default=None, new_group=True
    )

    stop_on_sample_data: bool = setting(
        "true: a full-size case on sample data also stops at the target's value", default=True
    )

    precision: Literal["fp32", "tf32", "amp_fp16", "amp_bf16"] = setting(
        "fp32 | tf32 | amp_fp16 | amp_bf16", default="fp32", new_group=True
    )
    float8_modules: str | None = setting(
        "class path; linear layers in its modules multiply in float8; null: none", default=None
    )
    float8_recipe: Literal["tensorwise", "tensorwise_gathered", "rowwise"] = setting(
        "one scale per tensor or per row: tensorwise | tensorwise_gathered | rowwise",
        default="tensorwise",
    )
    clip_grad: Positive | None = setting("maximum global gradient norm", default=None)
    compile: bool = setting("true: compile the network", default=False)
    compile_modules: str | None = setting(
        "class path; each module of the class is compiled alone; null: whole network", default=None
    )
    attention_kernels: Kernels = setting(
        "allowed attention kernels: flash, efficient, cudnn, math; []: any", default=[]
    )
    memory_format: Literal["contiguous_format", "channels_last"] = setting(
        "contiguous_format | channels_last", default="contiguous_format"
    )
    activation_checkpointing: bool = setting("true: recompute activations in the backward pass", default=False)
    checkpoint_modules: str | None = setting("class path; the modules of the class recompute", default=None)
    checkpoint_keeps: Literal["nothing", "products"] = setting(
        "kept activations: nothing | products (matrix products and attention)", default="nothing"
    )
    sync_bn: bool = setting("true: batch norm over all ranks", default=False)
    ema: Average = setting("moving average of the weights; the evaluation uses the average", default=Average)
    adapter: Adapter = setting("low-rank adapters (LoRA): docs/adapter.md", default=Adapter)
    ddp: Mapping[str, Any] = setting("more arguments of DistributedDataParallel", default={})
    parallel: Parallel = setting("how the ranks share the work: docs/parallel.md", default=Parallel)
    lr_interval: Literal["step", "epoch"] = setting(
        "the lr_scheduler steps once per optimizer step | epoch", default="step"
    )

    seed: Seed = setting("for weights, order and augmentation", default=0, new_group=True)
    initialisation: Literal["in_order", "by_parameter"] = setting(
        "in_order: one generator draws the weights | by_parameter: each rank draws its parts",
        default="in_order",
    )
    random_numbers: Literal["device", "host"] = setting(
        "device | host: source of the masks of dropout; the host's are equal on all devices",
        default="device",
    )
    deterministic: bool = setting("true: only deterministic algorithms", default=False)
    cudnn_benchmark: bool = setting("true: the vendor's library tries algorithms and uses the fastest", default=False)

    num_workers: CountFrom0 = setting("data loader processes per rank", default=2, new_group=True)
    synthetic: bool = setting("true: a few batches stay in device memory; no target", default=False)
    init_checkpoint: str | None = setting("path of the weights to start from", default=None)
    checkpoint_freq: Count | None = setting("optimizer steps between checkpoints", default=None)
    checkpoint_in_background: bool = setting(
        "true: they are written while the training goes on, from a copy in host memory", default=False
    )
    checksum_freq: Count | None = setting(
        "optimizer steps between checksums of loss, gradients and parameters; null: none", default=None
    )
    log_freq: Count = setting("optimizer steps between logged steps", default=10)
    warmup_steps: CountFrom0 = setting("first optimizer steps, left out of the steady-state throughput", default=5)
    process_group_timeout: Positive = setting("maximum seconds of a collective", default=600)
    profile: bool = setting(
        "true: trace some steps of rank 0 into its log folder; these steps take longer", default=False
    )
    sinks: Sinks = setting("formats beside PerfLog: mllog, dllogger, tensorboard, {_target_: your.Class}", default=[])

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Settings:
        """Take the settings out of a resolved configuration.

        Raises:
            ConfigError: a setting is missing, nothing would ever end the training, or there is nothing to evaluate on.
        """
        names = [field.name for field in fields(cls)]
        for name in names:
            if name not in config:
                raise ConfigError("a setting of the training is missing", where="config.yaml", key=name)
        values = {name: config[name] for name in names}
        if values["synthetic"]:
            values.update(_of_synthetic(config))
        check_end(values, "config.yaml")
        target, ema, adapter, parallel = (values.pop(name) for name in ("target", "ema", "adapter", "parallel"))
        settings = cls(
            target=Target(**target) if target else None,
            ema=Average(**ema),
            adapter=Adapter(**adapter),
            parallel=Parallel.of(parallel),
            **values,
        )
        if config.get("eval_data") is None and settings.evaluates:
            raise ConfigError(
                "there is no evaluation data",
                where="config.yaml",
                key="eval_data",
                given="null",
                advice="without it, set target and all settings eval_interval_… to null",
            )
        return settings

    @property
    def evaluates(self) -> bool:
        """Whether any setting asks for an evaluation."""
        intervals = (getattr(self, name) for name in EVALUATIONS)
        return self.initial_evaluation or self.target is not None or any(interval is not None for interval in intervals)


def sample_target(config: Mapping[str, Any], settings: Settings) -> Target | None:
    """The target that ends a full-size training on sample data, without being claimed; None: only its limits end it."""
    ends = settings.stop_on_sample_data and config["size"] == "full" and is_sample_data(config["data_dir"])
    return settings.target if ends else None


def _of_synthetic(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a synthetic training changes: no evaluation, and no initial weights from sample data."""
    values: dict[str, Any] = {**dict.fromkeys((*EVALUATIONS, "target")), "initial_evaluation": False}
    weights, folder = config["init_checkpoint"], config["data_dir"]
    if weights and is_sample_data(folder) and Path(folder) in Path(weights).parents:
        values["init_checkpoint"] = None
    return values


def round_seed(config: Mapping[str, Any], round_number: int) -> int:
    """The seed of a round: its own, unless `repeat_seed` is "same"."""
    return int(config["seed"]) + (round_number - 1 if config["repeat_seed"] == "own" else 0)


def check_end(values: Mapping[str, Any], where: str) -> None:
    """Refuse a training that nothing would ever end. `where`: the file that the message names."""
    if all(values.get(key) is None for key in ENDS):
        raise ConfigError("nothing would ever end this training", where=where, key=" | ".join(ENDS))


HEADER = """\
# flagperf dry_run=true                            prints all settings, resolved
#
# The settings of a training, for every case. A case's file sets the values that differ in its recipe.
# Declared in flagperf/contract/settings.py. Written by: python -m flagperf.contract.settings > conf/training.yaml
"""


def training_yaml() -> str:
    """The text of conf/training.yaml."""
    return HEADER + "".join(f"{line}\n" for line in _lines(fields(Settings)))


def _lines(declared: tuple[dataclasses.Field[Any], ...], indent: str = "") -> Iterator[str]:
    for entry in declared:
        default, comment = entry.metadata["default"], entry.metadata["comment"]
        group = fields(default) if isinstance(default, type) else ()
        if entry.metadata["new_group"]:
            yield ""
        value = "" if group else default if isinstance(default, str) else json.dumps(default)
        yield f"{f'{indent}{entry.name}: {value}':34} # {comment}"
        yield from _lines(group, indent + "  ")


if __name__ == "__main__":
    sys.stdout.write(training_yaml())
