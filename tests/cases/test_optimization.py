"""Schedules and parameter groups against the formulas of the original recipes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.fsdp  # once, before the ranks fork
import toy
from timm.scheduler import CosineLRScheduler
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, MultiStepLR, SequentialLR

from cases.optimization import (
    chain,
    decay_except,
    piecewise_constant,
    warmup_cosine,
    warmup_cosine_of_epochs,
    warmup_linear_decay,
)
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.trainer.pytorch.case_classes import note_classes
from flagperf.trainer.pytorch.parts import build_parts


def original_lr(step: int, lr: float, steps: int, warmup: float, decay_ratio: float) -> float:
    """The schedule of FlagPerf's glm as a function of the optimizer steps done."""
    grown = warmup * steps
    if step <= grown:
        return lr * step / grown
    return lr - lr * (1 - decay_ratio) * min(1.0, (step - grown) / (steps - grown))


def test_warmup_linear_decay() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1e-5)
    schedule = warmup_linear_decay(optimizer, steps=4338, warmup=0.1, decay_ratio=0.1)
    rates = []
    for _ in range(4400):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([original_lr(step, 1e-5, 4338, 0.1, 0.1) for step in range(4400)], rel=1e-9)
    assert rates[0] == 0
    assert rates[-1] == pytest.approx(1e-6)


def test_decay_except() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1, bias=False))
    decayed, others = decay_except(network, ["*.bias", "LayerNorm.*"])
    assert [id(parameter) for parameter in decayed["params"]] == [id(network[0].weight), id(network[2].weight)]
    assert "weight_decay" not in decayed
    assert [id(parameter) for parameter in others["params"]] == [
        id(network[0].bias),
        id(network[1].weight),
        id(network[1].bias),
    ]
    assert others["weight_decay"] == 0.0


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.LayerNorm(4), nn.Linear(4, 2))


class FusedNorm(nn.LayerNorm):
    """A vendor's own."""


def with_fused_norm(network: Any) -> nn.Module:
    """A vendor's hook."""
    network[2] = FusedNorm(4)
    return network  # type: ignore[no-any-return]


def undecayed(network: nn.Module) -> list[str]:
    """The names of the parameters without weight decay."""
    others = {id(parameter) for parameter in decay_except(network, ["LayerNorm.*", "BatchNorm1d.*"])[1]["params"]}
    return [name for name, parameter in network.named_parameters() if id(parameter) in others]


def undecayed_of_runs(_: Path) -> list[list[str]]:
    """Those of networks whose modules a run gave other classes: divided one by one, and a vendor's."""
    division = {"_target_": "flagperf.trainer.pytorch.parallel.Sharded", "mesh": {"dp_replicate": 1, "dp_shard": 1}}
    division["blocks"] = ["Linear", "LayerNorm", "BatchNorm1d"]
    hook = {"extension": {"network_hook": "test_optimization.with_fused_norm"}}
    given = {"network": {"_target_": "test_optimization.normed"}, "nproc": 1}
    vendor = {**toy.config()["vendor"], **hook}
    divided = build_parts(toy.config(**given, parallel=division)).network
    hooked = build_parts(toy.config(**given, vendor=vendor)).network
    assert type(divided[2]).__name__ == "FSDPLayerNorm"  # type: ignore[index]
    assert type(hooked[2]) is FusedNorm  # type: ignore[index]
    return [undecayed(divided), undecayed(hooked)]


def test_groups_do_not_depend_on_how_a_run_computes(tmp_path: Path) -> None:
    norms = ["1.weight", "1.bias", "2.weight", "2.bias"]
    assert undecayed(normed()) == norms
    assert undecayed(nn.SyncBatchNorm.convert_sync_batchnorm(note_classes(normed()))) == norms  # type: ignore[no-untyped-call]
    assert toy.fork_ranks(undecayed_of_runs, tmp_path, ranks=1) == [[norms, norms]]


def rates(schedule: LRScheduler, intervals: int) -> list[float]:
    """The learning rate of each interval."""
    found = []
    for _ in range(intervals):
        found.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return found


def sgd(lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)


@pytest.mark.parametrize(
    ("lr", "epochs", "warmup", "decay"),
    [pytest.param(0.003, 300, 30, 0.033, id="vit"), pytest.param(0.5, 600, 5, 0.01, id="efficientnet")],
)
def test_warmup_cosine_equals_torchvision_recipe(lr: float, epochs: int, warmup: int, decay: float) -> None:
    optimizer = sgd(lr)
    parts = [
        LinearLR(optimizer, start_factor=decay, total_iters=warmup),
        CosineAnnealingLR(optimizer, T_max=epochs - warmup, eta_min=0.0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR warns about itself
        original = rates(SequentialLR(optimizer, parts, milestones=[warmup]), epochs)
    assert rates(warmup_cosine(sgd(lr), epochs, warmup, decay), epochs) == pytest.approx(original, rel=1e-6, abs=1e-12)


def test_warmup_cosine_of_epochs_equals_timm() -> None:
    """Swin's recipe: all rates are for 512 images, and grow with the batch of the job."""
    epochs, warmup, images, batch = 30, 2, 2**16 + 100, 4 * 2 * 256
    steps = images // batch
    scale = batch / 512
    optimizer = sgd(5e-4 * scale)
    timm = CosineLRScheduler(
        optimizer,
        t_initial=epochs * steps,
        lr_min=5e-6 * scale,
        warmup_lr_init=5e-7 * scale,
        warmup_t=warmup * steps,
        t_in_epochs=False,
    )
    original = []
    for step in range(epochs * steps):
        timm.step_update(step)
        original.append(optimizer.param_groups[0]["lr"])
    schedule = warmup_cosine_of_epochs(
        sgd(5e-4),
        epochs,
        warmup,
        epoch_samples=images,
        step_samples=[256, 1, 2, 4],
        lr_samples=512,
        start_factor=1e-3,
        end_factor=1e-2,
    )
    assert rates(schedule, epochs * steps) == pytest.approx(original, rel=1e-9)


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [
        pytest.param(0, 1e-6, id="first"),
        pytest.param(10, 5.005e-4, id="half of the warm-up"),
        pytest.param(20, 9.8918e-4, id="the cosine of epoch 20 of 300"),
        pytest.param(150, 5.05e-4, id="half"),
        pytest.param(220, 1.7378e-4, id="220"),
        pytest.param(299, 1.0027e-5, id="last"),
    ],
)
def test_the_rate_of_swin_transformer(epoch: int, rate: float) -> None:
    """At its full size on 4 devices, whose 1,024 images a step double lr; calculated from timm's formula."""
    words = ["model=swin_transformer", "size=full", "data_dir=/data", "train_batch_size=256", "nproc=4"]
    config = compose([*words, "vendor=nvidia", "hardware=A100", "dry_run=true"]).config
    parameter = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=config["lr"])
    schedule = component(config, "lr_scheduler", parameter)
    step = epoch * (1_281_167 // 1024)
    assert schedule.base_lrs[0] * schedule.lr_lambdas[0](step) == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize(
    ("words", "rates_of"),
    [
        pytest.param(
            [],
            {1: 4e-5 / 15, 2: 8e-5 / 15, 14: 4e-5 * 14 / 15, 15: 4e-5 * (1 - 15 / 1536), 768: 2e-5, 1536: 0.0},
            id="standard case: 15 steps of warm-up",
        ),
        pytest.param(
            ["vendor=nvidia", "hardware=A100", "nproc=8"],
            {1: 3.5e-4 * (1 - 1 / 30000), 7500: 3.5e-4 * 0.75},
            id="A100x1x8: no warm-up, a quarter of the schedule",
        ),
    ],
)
def test_the_rate_of_bert(words: list[str], rates_of: dict[int, float]) -> None:
    """Of updates counted from 1, as FlagPerf's scheduler gives them."""
    config = compose(["model=bert", "size=full", "data_dir=/data", "dry_run=true", *words]).config
    schedule = component(config, "lr_scheduler", sgd(config["lr"]))
    found = {update: schedule.base_lrs[0] * schedule.lr_lambdas[0](update - 1) for update in rates_of}
    assert found == pytest.approx(rates_of, rel=1e-9)


@pytest.mark.parametrize("model", ["bigtransfer", "efficientnet"])
def test_kunlunxin_makes_the_updates_of_flagperf(model: str) -> None:
    """FlagPerf adds up the gradients of two micro steps, under the case's own lr and weight decay."""
    words = [f"model={model}", "size=full", "data_dir=/data", "dry_run=true"]
    case = compose(words).config
    tuned = compose([*words, "vendor=kunlunxin", "hardware=R300", "nproc=8"]).config
    ours, theirs = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
    mean, total = component(tuned, "optimizer", [ours]), component(case, "optimizer", [theirs])
    torch.manual_seed(1)
    for _ in range(5):
        micro_steps = torch.randn(2, 4)
        ours.grad, theirs.grad = micro_steps.mean(dim=0), micro_steps.sum(dim=0)
        mean.step()
        total.step()
    assert tuned["gradient_accumulation_steps"] == 2
    assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-6)


def test_kunlunxin_has_the_schedule_of_flagperf_in_big_transfer() -> None:
    """The update after each second micro step has its rate; in the warm-up it is that of the micro step before."""
    words = ["model=bigtransfer", "size=full", "data_dir=/data", "dry_run=true"]
    case = compose(words).config
    tuned = compose([*words, "vendor=kunlunxin", "hardware=R300", "nproc=8"]).config
    theirs = rates(component(case, "lr_scheduler", sgd(case["lr"])), 12_000)[1::2]
    ours = rates(component(tuned, "lr_scheduler", sgd(tuned["lr"])), 6_000)
    assert ours == pytest.approx([2 * rate for rate in theirs], abs=2 * 0.003 / 500)
    assert ours[250:] == pytest.approx([2 * rate for rate in theirs[250:]], rel=1e-6)
    assert (tuned["max_steps"], case["max_steps"]) == (20_000, 40_000)


def test_chain_equals_big_transfer() -> None:
    """Its warm-up and its steps down are functions of the optimizer step."""

    def original(step: int) -> float:
        reductions = sum(step >= reduction for reduction in (3000, 6000, 9000, 10000))
        return 0.003 * min(1.0, step / 500) / 10**reductions

    warm_up = partial(LinearLR, start_factor=1e-6, total_iters=500)
    steps_down = partial(MultiStepLR, milestones=[3000, 6000, 9000, 10000], gamma=0.1)
    found = rates(chain(sgd(0.003), [warm_up, steps_down]), 10_100)
    assert found == pytest.approx([original(step) for step in range(10_100)], rel=1e-6, abs=4e-9)


def test_piecewise_constant() -> None:
    """Tacotron 2's schedule: lr falls by 0.3 and 1/3 in turn."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    found = rates(piecewise_constant(optimizer, milestones=[2, 3, 5], factors=[0.3, 0.1, 0.03]), 7)
    assert found == pytest.approx([0.1, 0.1, 0.03, 0.01, 0.01, 0.003, 0.003])


@pytest.mark.parametrize("case", ["bert", "cpm", "glm"])
def test_weight_decay_leaves_out_biases_and_norms(case: str, tiny: Callable[[str], dict[str, Any]]) -> None:
    """As in FlagPerf, which goes by the names: all others are matrices."""
    network, task = component(tiny(case), "network"), component(tiny(case), "task")
    decayed, others = task.parameters(network)
    assert {parameter.ndim for parameter in decayed["params"]} == {2}
    assert {parameter.ndim for parameter in others["params"]} == {1}
    assert others["weight_decay"] == 0.0
    assert len(decayed["params"]) + len(others["params"]) == len(list(network.parameters()))
