"""WaveGlow: its inverse, its likelihood against the definition, and its validation loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from gradients import gradient_norm
from torch import Tensor, distributed, nn
from torch.autograd.functional import jacobian
from torch.distributions import Normal
from torch.nn import functional
from toy import fork_ranks

from cases.speech_synthesis.network import Convolutions, Flow, WaveGlow
from flagperf.contract.components import component
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.ranks import World

Config = dict[str, Any]
CLIPS = 5


def small() -> WaveGlow:
    """A small network, away from its beginning, where the flows change nothing, in double precision."""
    torch.manual_seed(1)
    network = WaveGlow(
        n_mels=5,
        win_length=16,
        hop_length=4,
        n_flows=5,
        n_group=8,
        n_early_every=2,
        n_early_size=2,
        n_layers=3,
        n_channels=6,
        kernel_size=3,
    ).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network


@pytest.fixture
def network() -> WaveGlow:
    return small()


def clips(count: int, samples: int = 64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    mel = torch.randn(count, 5, samples // 4 + 1, generator=generator, dtype=torch.float64)
    return mel, 0.3 * torch.randn(count, samples, generator=generator, dtype=torch.float64)


def test_inverse(network: WaveGlow) -> None:
    mel, audio = clips(3)
    noise, _ = network(mel, audio)
    assert noise.shape == (3, 8, 8)
    assert not torch.allclose(noise.mT.flatten(1), audio, atol=0.01)
    assert torch.allclose(network.inverse(mel, noise), audio, rtol=0, atol=1e-12)
    again, _ = network(mel, network.inverse(mel, torch.ones_like(noise)))
    assert torch.allclose(again, torch.ones_like(noise), rtol=0, atol=1e-10)


def test_at_first_only_channels_are_mixed() -> None:
    flow = Flow(4, Convolutions(width=2, condition=3, n_layers=2, n_channels=6, kernel_size=3))
    audio = torch.randn(2, 4, 7)
    mixed, stretch = flow(audio, torch.randn(2, 3, 7))
    assert torch.allclose(mixed.norm(dim=1), audio.norm(dim=1), atol=1e-5)
    assert torch.allclose(stretch, torch.zeros(2), atol=1e-5)


def direct_loss(network: WaveGlow, mel: Tensor, audio: Tensor) -> Tensor:
    """Change of variables, by the determinant of the whole Jacobian matrix of one clip after the other."""
    losses = []
    for clip in range(len(audio)):

        def noise(samples: Tensor, clip: int = clip) -> Tensor:
            return network(mel[clip : clip + 1], samples[None])[0].flatten()  # type: ignore[no-any-return]

        matrix = jacobian(noise, audio[clip], create_graph=True)
        likelihood = Normal(0.0, 1.0).log_prob(noise(audio[clip])).sum() + torch.linalg.slogdet(matrix).logabsdet
        losses.append(-likelihood / audio.shape[1] - math.log(2 * math.pi) / 2)
    return torch.stack(losses).mean()


def test_one_step_equals_the_likelihood(network: WaveGlow, tiny: Callable[[str], Config]) -> None:
    task, batch = component(tiny("waveglow"), "task"), clips(2)
    loss = task.loss(network, batch)
    loss.backward()
    norm = gradient_norm(network)
    network.zero_grad()
    expected = direct_loss(network, *batch)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert norm == pytest.approx(gradient_norm(network), rel=1e-6)
    assert (task.samples(batch), task.units(batch)) == (2, 128)


def test_convolutions() -> None:
    """Sums over the taps, written out: the layer that only skips, after one that has a residual too."""
    torch.manual_seed(1)
    stack = Convolutions(width=2, condition=3, n_layers=2, n_channels=4, kernel_size=3).double()
    nn.init.normal_(stack.end.weight)
    audio, condition = torch.randn(1, 2, 9, dtype=torch.float64), torch.randn(1, 3, 9, dtype=torch.float64)

    def taps(layer: nn.Conv1d, values: Tensor, dilation: int) -> Tensor:
        padded = functional.pad(values, (dilation, dilation))
        shifted = [padded[..., tap * dilation : tap * dilation + 9] for tap in range(3)]
        return (
            sum(torch.einsum("oi,nit->not", layer.weight[..., tap], shifted[tap]) for tap in range(3))
            + (layer.bias[:, None])
        )

    def gated(number: int, hidden: Tensor) -> Tensor:
        both = taps(stack.dilated[number], hidden, 2**number) + stack.conditional[number](condition)
        return stack.out[number](both[:, :4].tanh() * both[:, 4:].sigmoid())

    hidden = stack.start(audio)
    first = gated(0, hidden)
    second = gated(1, hidden + first[:, :4])
    assert torch.allclose(stack(audio, condition), stack.end(first[:, 4:] + second))


def val_loss(task: Any, _: Path) -> float:
    distributed.init_process_group("gloo")
    mel, audio = clips(CLIPS)
    batches = ((mel[share], audio[share]) for _, share in eval_batches(CLIPS, batch_size=2, world=World.of()))
    with torch.no_grad():
        return task.evaluate(small(), batches, torch.device("cpu"))["val_loss"]  # type: ignore[no-any-return]


def test_validation_loss(network: WaveGlow, tiny: Callable[[str], Config], tmp_path: Path) -> None:
    """On two ranks with uneven shares it is the loss of all clips in one batch."""
    task, batch = component(tiny("waveglow"), "task"), clips(CLIPS)
    first, second = fork_ranks(partial(val_loss, task), tmp_path)
    assert first == second == pytest.approx(task.loss(network, batch).item(), rel=1e-5)
