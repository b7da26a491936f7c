"""The keys on which a trace depends."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from flagperf.config.compose import compose
from flagperf.contract.settings import Settings
from flagperf.predict.traced import ANY_VALUE
from flagperf.predict.tracing import Tracer
from flagperf.run.predicted import config_of

TRACER = Tracer("python", "module", "", Path("/nowhere"))
BASE = ("model=glm", "vendor=nvidia", "hardware=A800", "nproc=8", "division=open", "dry_run=true")


def key(*overrides: str) -> str:
    """The name of the trace that a command needs."""
    words = " ".join((*BASE, *overrides)).split()
    return TRACER._path(config_of(compose(words))).stem


SAME = [
    "max_steps=100", "max_epochs=3", "max_time=60", "max_samples_termination=999", "target=null",
    "initial_evaluation=false", "eval_interval_steps=7", "eval_start_samples=5", "eval_batch_size=3",
    "lr=0.5",
    "lr_interval=epoch", "lr_decay_ratio=0.5", "warmup=0.3", "log_freq=7", "warmup_steps=9", "num_workers=3", "seed=5",
    "init_checkpoint=null", "checkpoint_freq=5", "checkpoint_in_background=true", "checksum_freq=2",
    "process_group_timeout=9", "profile=true", "sinks=[mllog]", "data_dir=/data", "result_dir=/x", "repeat=3",
    "division=closed", "runtime=process", "hardware=L40S", "monitor.interval=9", "vendor.monitor.interval=9",
    "vendor.environment.NCCL_DEBUG=INFO", "restarts=2 checkpoint_freq=5",
]  # fmt: skip
OTHER = [
    "train_batch_size=4", "gradient_accumulation_steps=2", "precision=fp32", "clip_grad=null", "weight_decay=0.0",
    "network.num_layers=3", "activation_checkpointing=false", "compile=true", "memory_format=channels_last", "nproc=4",
    "nnodes=2", "parallel._target_=flagperf.trainer.pytorch.parallel.Sharded", "ema.decay=0.9", "synthetic=true",
    "attention_kernels=[math]", "random_numbers=host", "adapter.rank=4", "ddp.bucket_cap_mb=5", "vendor.device=cpu",
    "size=tiny",
]  # fmt: skip


@pytest.fixture(scope="module")
def base() -> str:
    return key()


@pytest.mark.parametrize("override", SAME)
def test_the_same_trace(base: str, override: str) -> None:
    assert key(override) == base


@pytest.mark.parametrize("override", OTHER)
def test_another_trace(base: str, override: str) -> None:
    assert key(override) != base


OF_A_STEP = {
    "train_batch_size", "gradient_accumulation_steps", "precision", "float8_modules", "float8_recipe", "clip_grad",
    "compile", "compile_modules", "attention_kernels", "memory_format", "activation_checkpointing",
    "checkpoint_modules", "checkpoint_keeps", "sync_bn", "ema", "adapter", "ddp", "parallel", "initialisation",
    "random_numbers", "deterministic", "cudnn_benchmark", "synthetic",
}  # fmt: skip


def test_every_setting_either_may_change_a_trace_or_not() -> None:
    """A new setting is put into one of both lists."""
    settings = {setting.name for setting in fields(Settings)}
    assert (settings - ANY_VALUE.keys(), OF_A_STEP & ANY_VALUE.keys()) == (OF_A_STEP, set())
