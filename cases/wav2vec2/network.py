"""wav2vec 2.0 (arXiv:2006.11477) for pre-training: transformers' network, with what fairseq's recipe does beside it.

Three things of that recipe transformers does not have: the temperature of the quantizer falls with each update, the
gradient of the convolutions is scaled down, and their output has a penalty. And only masked frames are quantized and
compared, as in fairseq: transformers does it with all frames, and drops half of them in the loss.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining


class Predictions(NamedTuple):
    """What the loss is made of."""

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
        config: arguments of transformers.Wav2Vec2Config.
    """

    forwards: Tensor

    def __init__(
        self, latent_temp: tuple[float, float, float], feature_grad_mult: float, micro_steps: int, **config: Any
    ) -> None:
        super().__init__(Wav2Vec2Config(**config))
        self.latent_temp, self.feature_grad_mult, self.micro_steps = latent_temp, feature_grad_mult, micro_steps
        self.layerdrop = self.config.layerdrop
        # Audio needs no gradient; with one, torch.compile would break the graph.
        self.wav2vec2.feature_extractor._requires_grad = False
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))  # in training; in checkpoints, too

    def forward(self, audio: Tensor, masked: Tensor) -> Predictions:
        """`audio`: [clips, samples]; `masked`: which frames are hidden, counted through all clips."""
        if self.training:
            self.forwards += 1
            self.quantizer.temperature = self.temperature()
        # Layers are dropped only where there is a gradient: all of them are there when operations are counted.
        self.config.layerdrop = self.layerdrop if torch.is_grad_enabled() else 0.0
        features = ScaledGradient.apply(self.wav2vec2.feature_extractor(audio), self.feature_grad_mult)
        hidden, normalized = self.wav2vec2.feature_projection(features.transpose(1, 2))
        mask = self.wav2vec2.masked_spec_embed.to(hidden.dtype).expand(len(masked), -1)
        hidden = hidden.flatten(0, 1).index_copy(0, masked, mask).view_as(hidden)
        context = self.wav2vec2.encoder(hidden).last_hidden_state
        target = self.dropout_features(normalized.flatten(0, 1)[masked])
        quantized, perplexity = self.quantizer(target[None])
        return Predictions(
            predicted=self.project_hid(context.flatten(0, 1)[masked]),
            target=self.project_q(quantized[0]),
            perplexity=perplexity,
            penalty=features.float().pow(2).mean(),
        )

    def temperature(self) -> Tensor:
        """The quantizer's temperature in the current update, counted from 1; a tensor on the device."""
        first, last, factor = self.latent_temp
        update = (self.forwards - 1) // self.micro_steps + 1
        return (first * torch.exp(update * math.log(factor))).clamp(min=last)


class ScaledGradient(torch.autograd.Function):
    """The values as they are, their gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None
