"""wav2vec 2.0 (arXiv:2006.11477) for pre-training: transformers' network, with the original's additions.

The original, NVIDIA's of FlagPerf, has its layers in an hourglass (arXiv:2110.13711): those in the middle work on fewer
frames. transformers also lacks three parts of fairseq's recipe: the temperature of the quantizer falls with
each update, the gradient of the convolutions is scaled down, and their output has a penalty. And only masked frames are
quantized and compared, as in fairseq: transformers does it with all frames, and drops half of them in the loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining


class Predictions(NamedTuple):
    """The parts of the loss."""

    predicted: Tensor  # features of the masked frames, [masked frames, width]
    target: Tensor  # their quantized features, [masked frames, width]
    perplexity: Tensor  # how evenly the code vectors are used
    penalty: Tensor  # mean square of the features


class Wav2Vec2(Wav2Vec2ForPreTraining):
    """Predicts the quantized features of masked frames.

    Args:
        latent_temp: the quantizer's first temperature, its last one, and the factor from one update to the next.
        feature_grad_mult: factor of the gradient of the convolutions.
        micro_steps: forward passes in training that make an update.
        hourglass: how many layers come before the frames are shortened, in between, and after it.
        shorten_factor: number of frames that become one for the layers in between.
        config: arguments of transformers.Wav2Vec2Config, except the number of layers.
    """

    forwards: Tensor

    blocks_differ = True  # layers on shortened frames compute less than the others

    def __init__(
        self,
        latent_temp: tuple[float, float, float],
        feature_grad_mult: float,
        micro_steps: int,
        hourglass: Sequence[int],
        shorten_factor: int,
        **config: Any,
    ) -> None:
        super().__init__(Wav2Vec2Config(num_hidden_layers=sum(hourglass), **config))
        self.latent_temp, self.feature_grad_mult, self.micro_steps = latent_temp, feature_grad_mult, micro_steps
        self.hourglass, self.shorten_factor = hourglass, shorten_factor
        # Audio needs no gradient; with one, torch.compile would break the graph.
        self.wav2vec2.feature_extractor._requires_grad = False
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))  # in training; in checkpoints, too

    def forward(self, audio: Tensor, masked: Tensor) -> Predictions:
        """`audio`: [clips, samples]; `masked`: which frames are hidden, counted through all clips."""
        if self.training:
            self.forwards += 1
            self.quantizer.temperature = self.temperature()
        features = ScaledGradient.apply(self.wav2vec2.feature_extractor(audio), self.feature_grad_mult)
        hidden, normalized = self.wav2vec2.feature_projection(features.transpose(1, 2))
        mask = self.wav2vec2.masked_spec_embed.to(hidden.dtype).expand(len(masked), -1)
        hidden = hidden.flatten(0, 1).index_copy(0, masked, mask).view_as(hidden)
        context = self.encoded(hidden)
        target = self.dropout_features(normalized.flatten(0, 1)[masked])
        quantized, perplexity = self.quantizer(target[None])
        return Predictions(
            predicted=self.project_hid(context.flatten(0, 1)[masked]),
            target=self.project_q(quantized[0]),
            perplexity=perplexity,
            penalty=features.float().pow(2).mean(),
        )

    def encoded(self, hidden: Tensor) -> Tensor:
        """The frames after the encoder's positions and layers, [clips, frames, width] as before."""
        encoder = self.wav2vec2.encoder
        hidden = encoder.dropout(encoder.layer_norm(hidden + encoder.pos_conv_embed(hidden)))
        ends = list(accumulate(self.hourglass, initial=0))
        before, between, after = (encoder.layers[start:end] for start, end in zip(ends, ends[1:]))
        hidden = self.through(before, hidden)
        short = self.through(between, shortened(hidden, self.shorten_factor))
        hidden = hidden + short.repeat_interleave(self.shorten_factor, dim=1)[:, : hidden.shape[1]]
        return self.through(after, hidden)

    def through(self, layers: Iterable[nn.Module], hidden: Tensor) -> Tensor:
        """The frames after these layers. Training may drop each layer.

        Layers are dropped only where there is a gradient: all of them are there when operations are counted. A trace
        without values takes each comparison as false: it drops no layer.
        """
        share = self.config.layerdrop if self.training and torch.is_grad_enabled() else 0.0
        for layer in layers:
            dropped = share and torch.rand(()) < share
            if not dropped:
                made = layer(hidden)
                hidden = made[0] if isinstance(made, tuple) else made  # a tuple in transformers 4
        return hidden

    def temperature(self) -> Tensor:
        """The quantizer's temperature in the current update, counted from 1; a tensor on the device."""
        first, last, factor = self.latent_temp
        update = (self.forwards - 1) // self.micro_steps + 1
        return (first * torch.exp(update * math.log(factor))).clamp(min=last)


def shortened(hidden: Tensor, factor: int) -> Tensor:
    """The mean of each `factor` frames, [clips, frames / factor, width]; zeros complete the last group."""
    filled = functional.pad(hidden, (0, 0, 0, -hidden.shape[1] % factor))
    return filled.unflatten(1, (-1, factor)).mean(dim=2)


class ScaledGradient(torch.autograd.Function):
    """The values as they are, their gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        """The same values."""
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """The gradient times the factor."""
        return gradient * ctx.factor, None
