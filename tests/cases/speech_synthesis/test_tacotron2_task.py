"""Tacotron 2: loss and validation loss against PyTorch's own, on torchaudio's network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics  # noqa: F401  # once here, so that each forked rank need not
from gradients import gradient_norm
from torch import Tensor, distributed, nn
from torch.utils.flop_counter import FlopCounterMode
from torchaudio.models import Tacotron2
from toy import fork_ranks

from cases.speech_synthesis.data import EvalSentences, Sentences
from cases.speech_synthesis.task import TextToMel
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.ranks import World

Config = dict[str, Any]
Batch = tuple[Tensor, ...]
CLIPS = 7


def first_clips(data: Sentences, count: int) -> Batch:
    return data.collate_fn([data[index] for index in range(count)])


def in_double(batch: Batch) -> Batch:
    return tuple(part.double() if part.is_floating_point() else part for part in batch)


def original_loss(outputs: Batch, batch: Batch) -> Tensor:
    """As NVIDIA's recipe has it: means over all frames of the padded batch."""
    _, _, mel, lengths = batch
    before, after, gate, _ = outputs
    ended = torch.zeros_like(gate)
    for clip, length in enumerate(lengths.tolist()):
        ended[clip, length - 1 :] = 1
    squared, binary = nn.MSELoss(), nn.BCEWithLogitsLoss()
    return squared(before, mel) + squared(after, mel) + binary(gate.flatten(), ended.flatten())


def test_one_step_equals_torchaudio(tiny: Callable[[str], Config]) -> None:
    config = tiny("tacotron2")
    torch.manual_seed(1)
    network, task = component(config, "network").double(), component(config, "task")
    batch = in_double(first_clips(component(config, "train_data"), 3))
    assert len(set(batch[3].tolist())) > 1
    torch.manual_seed(2)  # of dropout
    loss = task.loss(network, batch)
    loss.backward()

    arguments = {name: value for name, value in config["network"].items() if name != "_target_"}
    torch.manual_seed(1)
    direct = Tacotron2(**arguments).double()
    direct.load_state_dict(network.state_dict())
    torch.manual_seed(2)
    expected = original_loss(direct(*batch), batch)
    expected.backward()
    # The task computes losses in float32 where the network's outputs are less; a double is rounded too.
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert gradient_norm(network) == pytest.approx(gradient_norm(direct), rel=1e-6)
    assert (task.samples(batch), task.units(batch)) == (3, int(batch[3].sum()))


def test_batch_norm_weights_begin_between_0_and_1(tiny: Callable[[str], Config]) -> None:
    """As FlagPerf draws them; all else begins as torchaudio has it."""
    config = tiny("tacotron2")
    torch.manual_seed(1)
    network = component(config, "network")
    torch.manual_seed(1)
    direct = Tacotron2(**{name: value for name, value in config["network"].items() if name != "_target_"})
    norms = {f"{name}.weight" for name, module in network.named_modules() if isinstance(module, nn.BatchNorm1d)}
    weights, others = network.state_dict(), direct.state_dict()
    assert {name for name in weights if not torch.equal(weights[name], others[name])} == norms
    drawn = torch.cat([weights[name] for name in sorted(norms)])
    assert 0 <= drawn.min() < 0.05
    assert 0.95 < drawn.max() <= 1
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.05)


def test_masked_padding(tiny: Callable[[str], Config]) -> None:
    """It equals the network's own mask_padding, which cannot be trained."""
    config = tiny("tacotron2")
    network = component(config, "network")
    batch = first_clips(component(config, "train_data"), 3)
    torch.manual_seed(2)
    loss = TextToMel(mask_padding=True).loss(network, batch)
    network.mask_padding = True
    torch.manual_seed(2)
    with torch.no_grad():
        expected = original_loss(network(*batch), batch)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


class Certain(nn.Module):
    """The pre-net without its dropout, which is there in evaluation too."""

    def __init__(self, prenet: Any) -> None:
        super().__init__()
        self.layers = prenet.layers

    def forward(self, frames: Tensor) -> Tensor:
        for layer in self.layers:
            frames = layer(frames).relu()
        return frames


@pytest.fixture
def certain(tiny: Callable[[str], Config]) -> tuple[Tacotron2, TextToMel, EvalSentences]:
    """A network that always answers the same."""
    config = tiny("tacotron2")
    torch.manual_seed(1)
    network = component(config, "network").eval()
    network.decoder.prenet = Certain(network.decoder.prenet)
    return network, component(config, "task"), component(config, "eval_data")


def evaluate(network: nn.Module, task: TextToMel, data: EvalSentences, clips: int, world: World) -> float:
    """Validation loss of the first clips, dealt to the ranks as the trainer does."""
    batches = (
        data.collate_fn([data[index] for index in share]) for _, share in eval_batches(clips, batch_size=2, world=world)
    )
    with torch.no_grad():
        return task.evaluate(network, batches, torch.device("cpu"))["val_loss"]


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric MeanMetric was called before:UserWarning")
@pytest.mark.parametrize("clips", [CLIPS, 1], ids=["uneven shares", "a rank without clips"])
def test_validation_loss(certain: tuple[Tacotron2, TextToMel, EvalSentences], tmp_path: Path, clips: int) -> None:
    """On two ranks in batches of two it is PyTorch's loss of all clips in one batch."""
    network, task, data = certain

    def on_rank(_: Path) -> float:
        distributed.init_process_group("gloo")
        return evaluate(network, task, data, clips, World.of())

    first, second = fork_ranks(on_rank, tmp_path)
    whole = first_clips(data, clips)
    with torch.no_grad():
        expected = original_loss(network(*whole), whole).item()
    assert first == second == pytest.approx(expected, rel=1e-5)
    assert first == pytest.approx(evaluate(network, task, data, clips, World()), rel=1e-6)


@pytest.mark.slow
def test_full_size() -> None:
    """Of the original: parameters, and operations of one clip of 100 characters and 500 frames."""
    config = compose(["model=tacotron2", "size=full", "data_dir=/data"]).config
    network, task = component(config, "network"), component(config, "task")
    batch = torch.zeros(1, 100, dtype=torch.long), torch.tensor([100]), torch.rand(1, 80, 500), torch.tensor([500])
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        task.loss(network, batch)
    assert sum(parameter.numel() for parameter in network.parameters()) == 28_193_153
    assert counter.get_total_flops() / 1e9 == pytest.approx(24, rel=0.01)
