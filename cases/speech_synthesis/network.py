"""Tacotron 2 (arXiv:1712.05884), which is torchaudio's, and WaveGlow (arXiv:1811.00002): a flow that turns audio into
noise, given its mel spectrogram, and noise into audio."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torchaudio.models import Tacotron2


def tacotron2(**sizes: Any) -> Tacotron2:
    """torchaudio's network, with batch norm weights drawn from U(0, 1), as in NVIDIA's original and FlagPerf.

    Args:
        sizes: arguments of torchaudio.models.Tacotron2.
    """
    network = Tacotron2(**sizes)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.uniform_(module.weight)
    return network


class WaveGlow(nn.Module):
    """Twelve flows over groups of audio samples; some of a group leave early as noise.

    Args:
        n_mels, win_length, hop_length: sizes of the mel spectrogram.
        n_flows: number of flows.
        n_group: audio samples that are the channels of the flows.
        n_early_every, n_early_size: after every so many flows, so many channels leave.
        n_layers, n_channels, kernel_size: sizes of the convolutions in each flow.
    """

    def __init__(
        self,
        n_mels: int,
        win_length: int,
        hop_length: int,
        n_flows: int,
        n_group: int,
        n_early_every: int,
        n_early_size: int,
        n_layers: int,
        n_channels: int,
        kernel_size: int,
    ) -> None:
        super().__init__()
        self.n_group, self.n_early_size = n_group, n_early_size
        self.upsample = nn.ConvTranspose1d(n_mels, n_mels, win_length, stride=hop_length)
        self.early = [number % n_early_every == 0 for number in range(n_flows)]
        self.early[0] = False
        widths = [n_group - n_early_size * sum(self.early[: number + 1]) for number in range(n_flows)]
        self.flows = nn.ModuleList(
            Flow(width, Convolutions(width // 2, n_mels * n_group, n_layers, n_channels, kernel_size))
            for width in widths
        )

    def forward(self, mel: Tensor, audio: Tensor) -> tuple[Tensor, Tensor]:
        """Noise [n, group, samples / group], and the logarithm of how much the flow stretches volume there, [n].

        Args:
            mel: logarithm of the mel spectrogram, [n, mels, frames].
            audio: [n, samples]; the group divides their number.
        """
        condition = self._condition(mel, audio.shape[1])
        audio = audio.unflatten(1, (-1, self.n_group)).mT
        noise: list[Tensor] = []
        stretches: list[Tensor] = []
        for early, flow in zip(self.early, self.flows):
            if early:
                noise.append(audio[:, : self.n_early_size])
                audio = audio[:, self.n_early_size :]
            audio, stretch = flow(audio, condition)
            stretches.append(stretch)
        return torch.cat([*noise, audio], dim=1), torch.stack(stretches).sum(dim=0)

    def inverse(self, mel: Tensor, noise: Tensor) -> Tensor:
        """The audio [n, samples] that `forward` turns into this noise: speech, where the noise is drawn at random."""
        condition = self._condition(mel, noise.shape[1] * noise.shape[2])
        leaving = self.n_early_size * sum(self.early)
        early_noise, audio = list(noise[:, :leaving].split(self.n_early_size, dim=1)), noise[:, leaving:]
        for early, flow in zip(reversed(self.early), reversed(self.flows)):
            audio = flow.inverse(audio, condition)
            if early:
                audio = torch.cat([early_noise.pop(), audio], dim=1)
        return audio.mT.flatten(1)

    def _condition(self, mel: Tensor, samples: int) -> Tensor:
        """The condition of the flows for each group of samples, [n, mels * group, groups]."""
        upsampled = self.upsample(mel)[..., :samples]
        return upsampled.unflatten(2, (-1, self.n_group)).mT.flatten(1, 2)


class Flow(nn.Module):
    """Mixes the channels by an invertible matrix, then scales and shifts one half by means of the other."""

    def __init__(self, channels: int, coupling: nn.Module) -> None:
        super().__init__()
        self.mix = nn.Conv1d(channels, channels, 1, bias=False)
        nn.init.orthogonal_(self.mix.weight)
        self.coupling = coupling

    def forward(self, audio: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """The changed audio, [clips, channels, steps], and the logarithm of the determinant of each clip, [clips]."""
        mixing = torch.linalg.slogdet(self.mix.weight.squeeze(2).float()).logabsdet
        kept, changed = self.mix(audio).chunk(2, dim=1)
        shift, log_scale = self.coupling(kept, condition).chunk(2, dim=1)
        changed = changed * log_scale.exp() + shift
        return torch.cat([kept, changed], dim=1), log_scale.float().sum(dim=(1, 2)) + mixing * audio.shape[2]

    def inverse(self, audio: Tensor, condition: Tensor) -> Tensor:
        """The audio before `forward`."""
        kept, changed = audio.chunk(2, dim=1)
        shift, log_scale = self.coupling(kept, condition).chunk(2, dim=1)
        changed = (changed - shift) * (-log_scale).exp()
        return functional.conv1d(torch.cat([kept, changed], dim=1), self.mix.weight.squeeze(2).inverse().unsqueeze(2))


class Convolutions(nn.Module):
    """Gated convolutions, each dilated twice as far as the one before; at first they answer zero.

    Args:
        width: channels of the input; the output has twice that number.
        condition: channels of the condition.
    """

    def __init__(self, width: int, condition: int, n_layers: int, n_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.start = weight_norm(nn.Conv1d(width, n_channels, 1))
        self.dilated, self.conditional, self.out = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for number in range(n_layers):
            last = number == n_layers - 1  # nothing follows that its residual could go to
            dilated = nn.Conv1d(n_channels, 2 * n_channels, kernel_size, dilation=2**number, padding="same")
            self.dilated.append(weight_norm(dilated))
            self.conditional.append(weight_norm(nn.Conv1d(condition, 2 * n_channels, 1)))
            self.out.append(weight_norm(nn.Conv1d(n_channels, n_channels if last else 2 * n_channels, 1)))
        self.end = nn.Conv1d(n_channels, 2 * width, 1)
        nn.init.zeros_(self.end.weight)
        nn.init.zeros_(self.end.bias)

    def forward(self, audio: Tensor, condition: Tensor) -> Tensor:
        """Shift and log-scale, [clips, 2 * channels, steps]."""
        hidden = self.start(audio)
        skips: list[Tensor] = []
        for dilated, conditional, out in zip(self.dilated, self.conditional, self.out):
            content, gate = (dilated(hidden) + conditional(condition)).chunk(2, dim=1)
            *residual, skip = out(content.tanh() * gate.sigmoid()).split(hidden.shape[1], dim=1)
            hidden = sum(residual, hidden)  # the last layer has no residual
            skips.append(skip)
        return self.end(sum(skips))  # type: ignore[no-any-return]
