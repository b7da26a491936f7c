"""bert: one step as computed with transformers' own network, LAMB, MLPerf's checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toy import fork_ranks
from transformers import BertForPreTraining

from cases.bert.network import BertForMaskedPlaces
from cases.bert.task import Pretraining
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.loop.agenda import Agenda, Position
from flagperf.trainer.pytorch.build import load_weights, recompute
from flagperf.trainer.pytorch.loading import Seeded
from flagperf.trainer.pytorch.ranks import World

Config = dict[str, Any]


def parts(config: Config) -> tuple[BertForMaskedPlaces, Pretraining]:
    torch.manual_seed(1)
    return component(config, "network"), component(config, "task")


def batch_of(config: Config, numbers: list[int], split: str = "train_data") -> dict[str, Tensor]:
    data = Seeded(component(config, split))
    batch: dict[str, Tensor] = data.collate(data.__getitems__((0, numbers)))
    return batch


def library(network: BertForMaskedPlaces) -> BertForPreTraining:
    """transformers' own network, which predicts everywhere, with the same weights."""
    original = BertForPreTraining(network.config).to(network.dtype)
    original.load_state_dict(network.state_dict())
    return original


def library_loss(original: BertForPreTraining, batch: dict[str, Tensor]) -> Tensor:
    labels = torch.full_like(batch["input_ids"], -100)
    for row, (places, words) in enumerate(zip(batch["masked_places"], batch["masked_words"], strict=True)):
        for place, word in zip(places.tolist(), words.tolist(), strict=True):
            if place:
                labels[row, place] = word
    loss: Tensor = original(
        batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
        labels=labels,
        next_sentence_label=batch["not_next"],
    ).loss
    return loss


def gradients(network: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad for name, parameter in network.named_parameters()}


def test_one_step_equals_transformers(tiny: Callable[[str], Config]) -> None:
    config = tiny("bert")
    network, task = parts(config)
    network, batch = network.double(), batch_of(config, [0, 5, 6, 100])
    assert 0 < int(batch["input_mask"].sum()) < batch["input_mask"].numel()  # there is padding
    original = library(network)
    losses = []
    for loss in (task.loss(network, batch), library_loss(original, batch)):
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    ours, theirs = gradients(network), gradients(original)
    assert ours.keys() == theirs.keys()
    assert max((ours[name] - theirs[name]).abs().max().item() for name in ours) < 1e-12
    assert (task.samples(batch), task.units(batch)) == (4, 4)


def test_padding_changes_nothing(tiny: Callable[[str], Config]) -> None:
    config = tiny("bert")
    network, task = parts(config)
    batch = batch_of(config, list(range(8)))
    loss = task.loss(network, batch)
    batch["input_ids"] = torch.where(batch["input_mask"] == 1, batch["input_ids"], 7)
    assert task.loss(network, batch).item() == pytest.approx(loss.item(), rel=1e-6)


def test_recomputed_activations_give_the_same_gradients(tiny: Callable[[str], Config]) -> None:
    config = tiny("bert")
    network, task = parts(config)
    batch = batch_of(config, [0, 1, 2, 3])
    task.loss(network, batch).backward()
    kept = {name: grad.clone() for name, grad in gradients(network).items()}
    network.zero_grad()
    recompute(network, config["checkpoint_modules"])
    task.loss(network, batch).backward()
    assert all(torch.equal(grad, kept[name]) for name, grad in gradients(network).items())


def fused_lamb(
    weights: Tensor, grads: list[Tensor], decay: float, lr: float, norms: list[float], eps: float = 1e-6
) -> Tensor:
    """apex's FusedLAMB with its defaults, spelled out for one tensor; `norms`: of all gradients, per step."""
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    for step, (grad, norm) in enumerate(zip(grads, norms, strict=True), start=1):
        clipped = grad / max(1.0, norm)
        mean = 0.9 * mean + 0.1 * clipped
        square = 0.999 * square + 0.001 * clipped**2
        update = mean / (1 - 0.9**step) / ((square / (1 - 0.999**step)).sqrt() + eps) + decay * weights
        ratio = weights.norm() / update.norm() if decay else 1.0  # use_nvlamb is false
        weights = weights - lr * ratio * update
    return weights


def test_the_optimizer_is_apex_fused_lamb() -> None:
    config = compose(["model=bert", "size=full", "data_dir=/data"]).config
    generator = torch.Generator().manual_seed(1)
    matrix, bias = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((3, 4), (4,)))
    parameters = nn.Parameter(matrix.clone()), nn.Parameter(bias.clone())
    groups = [{"params": parameters[:1]}, {"params": parameters[1:], "weight_decay": 0.0}]
    optimizer = component(config, "optimizer", groups)
    grads = [
        [scale * torch.randn(parameter.shape, generator=generator).double() for parameter in parameters]
        for scale in (3.0, 0.1, 1.0)
    ]
    norms = [torch.cat([grad.flatten() for grad in step]).norm().item() for step in grads]
    for step in grads:
        for parameter, grad in zip(parameters, step, strict=True):
            parameter.grad = grad.clone()
        nn.utils.clip_grad_norm_(parameters, config["clip_grad"])
        optimizer.step()
    decay, lr = config["weight_decay"], config["lr"]
    assert (decay, lr) == (0.01, 4e-5)
    for number, (start, weight_decay) in enumerate(((matrix, decay), (bias, 0.0))):
        expected = fused_lamb(start, [step[number] for step in grads], weight_decay, lr, norms)
        assert torch.allclose(parameters[number] - start, expected - start, rtol=1e-5, atol=0)


def published(network: BertForMaskedPlaces, fused: bool) -> dict[str, Any]:
    """The network's weights as NVIDIA's convert_tf_checkpoint.py saves them, or under its names of fused layers."""
    weights = {name: weight.clone() for name, weight in network.state_dict().items() if "decoder" not in name}
    if fused:
        for layer in ("intermediate.", "pooler.", "transform."):
            weights = {name.replace(f"{layer}dense.", f"{layer}dense_act."): value for name, value in weights.items()}
        return weights
    return {"model": {**weights, "cls.predictions.decoder.weight": weights["bert.embeddings.word_embeddings.weight"]}}


@pytest.mark.parametrize("fused", [False, True], ids=["as converted", "fused names"])
def test_published_checkpoint_is_loaded(tiny: Callable[[str], Config], tmp_path: Path, fused: bool) -> None:
    source, _ = parts(tiny("bert"))
    checkpoint = published(source, fused)
    names = checkpoint.get("model", checkpoint)
    assert {name for name in names if "layer.1.intermediate" in name or "cls" in name or "pooler" in name} == {
        f"bert.encoder.layer.1.intermediate.dense{'_act' * fused}.weight",
        f"bert.encoder.layer.1.intermediate.dense{'_act' * fused}.bias",
        f"bert.pooler.dense{'_act' * fused}.weight",
        f"bert.pooler.dense{'_act' * fused}.bias",
        "cls.predictions.bias",
        f"cls.predictions.transform.dense{'_act' * fused}.weight",
        f"cls.predictions.transform.dense{'_act' * fused}.bias",
        "cls.predictions.transform.LayerNorm.weight",
        "cls.predictions.transform.LayerNorm.bias",
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
        *(["cls.predictions.decoder.weight"] if not fused else []),
    }
    torch.save(checkpoint, tmp_path / "model.ckpt-28252.pt")
    network, task = component(tiny("bert"), "network"), component(tiny("bert"), "task")
    load_weights(network, task, str(tmp_path / "model.ckpt-28252.pt"))
    assert all(torch.equal(weight, source.state_dict()[name]) for name, weight in network.state_dict().items())
    assert network.cls.predictions.decoder.weight is network.bert.embeddings.word_embeddings.weight
    assert network.cls.predictions.decoder.bias is network.cls.predictions.bias


def test_checkpoint_of_another_size_is_refused(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    network, task = parts(tiny("bert"))
    checkpoint = published(network, fused=False)["model"]
    checkpoint["cls.seq_relationship.weight"] = torch.zeros(3, 64)
    del checkpoint["bert.pooler.dense.bias"]
    torch.save(checkpoint, tmp_path / "other.pt")
    with pytest.raises(ConfigError) as caught:
        load_weights(network, task, str(tmp_path / "other.pt"))
    assert caught.value.given == (
        "missing: bert.pooler.dense.bias; shape of cls.seq_relationship.weight: [3, 64], the network has [2, 64]"
    )


def test_metrics_of_two_ranks_equal_those_of_all_examples(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    """Seven examples in batches of two: the shares, and the words masked in them, are uneven."""
    config = tiny("bert")
    network, task = parts(config)
    network.eval()

    def evaluate(_: Path) -> dict[str, float]:
        torch.distributed.init_process_group("gloo")
        share = eval_batches(7, 2, World.of())
        batches = [batch_of(config, numbers, "eval_data") for _, numbers in share]
        with torch.no_grad():
            return task.evaluate(network, batches, torch.device("cpu"))

    both = fork_ranks(evaluate, tmp_path)
    whole = batch_of(config, list(range(7)), "eval_data")
    with torch.no_grad():
        words, _ = network(*(whole[name] for name in ("input_ids", "segment_ids", "input_mask", "masked_places")))
        loss = library_loss(library(network).eval(), whole).item()
    found = [
        int(words[row, column].argmax()) == word
        for row, labels in enumerate(whole["masked_words"].tolist())
        for column, word in enumerate(labels)
        if word != -100
    ]
    assert len(found) < whole["masked_words"].numel()
    assert both[0] == both[1]
    assert both[0] == {
        "mlm_accuracy": pytest.approx(sum(found) / len(found), abs=1e-6),
        "eval_loss": pytest.approx(loss, rel=1e-5),
    }


@pytest.mark.parametrize(
    ("chosen", "evaluations", "end"),
    [
        pytest.param([], [], 1536, id="standard case: at the end only"),
        pytest.param(["vendor=nvidia", "hardware=A100", "nproc=1"], [500, 1000, 1500], 46_875, id="A100x1x1: samples"),
        pytest.param(["vendor=nvidia", "hardware=A100", "nproc=8"], [500, 1000, 1500], 7500, id="A100x1x8"),
        pytest.param(["vendor=nvidia", "hardware=A100", "nnodes=2", "nproc=8"], [500, 1000, 1500], 5000, id="A100x2x8"),
        pytest.param(["vendor=iluvatar", "hardware=BI-V100", "nproc=8"], [500, 1000, 1500], 7500, id="BI-V100x1x8"),
        pytest.param(["vendor=kunlunxin", "hardware=R300", "nproc=8"], [286, 572, 858], 4285, id="R300x1x8: of 7"),
        pytest.param(["vendor=kunlunxin", "hardware=R300", "nproc=1"], [36, 72, 108], 4285, id="R300x1x1: of 56"),
    ],
)
def test_evaluations_and_end_are_those_of_flagperf(chosen: list[str], evaluations: list[int], end: int) -> None:
    """In optimizer steps: an evaluation each 2000 micro steps, and a limit that FlagPerf counts in each process."""
    config = compose(["model=bert", "size=full", "data_dir=/data", "dry_run=true", *chosen]).config
    agenda = Agenda(Settings.read(config), lambda number: number)
    names = ("train_batch_size", "gradient_accumulation_steps", "nnodes", "nproc")
    samples = math.prod(config[name] for name in names)
    position, evaluated = Position(), []
    while agenda.limit(position) is None:
        position.advance(samples)
        evaluated += [position.step] if agenda.evaluates(position, samples) else []
    assert (evaluated[:3], position.step) == (evaluations, end)
