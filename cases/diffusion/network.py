"""DiT, a transformer on patches of an image (arXiv:2212.09748), from timm's attention and MLP."""

from __future__ import annotations

import math
from functools import partial

import torch
from timm.layers import Mlp
from timm.models.vision_transformer import Attention
from torch import Tensor, nn
from torch.nn import functional

FREQUENCIES = 256  # numbers that describe a time
LONGEST = 10000.0  # of the periods in positions and times


class Block(nn.Module):
    """Attention and MLP whose inputs and outputs a condition shifts and scales (adaLN-Zero): at first the identity."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-6, elementwise_affine=False) for _ in range(2))
        self.attn = Attention(width, num_heads=heads, qkv_bias=True)
        self.mlp = Mlp(width, 4 * width, act_layer=partial(nn.GELU, approximate="tanh"))
        self.modulation = nn.Linear(width, 6 * width)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, patches: Tensor, condition: Tensor) -> Tensor:
        """Patches [samples, patches, width], with the condition of each sample, [samples, width]."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(functional.silu(condition))[:, None].chunk(6, -1)
        patches = patches + gate1 * self.attn(self.norm1(patches) * (1 + scale1) + shift1)
        return patches + gate2 * self.mlp(self.norm2(patches) * (1 + scale2) + shift2)


class DiT(nn.Module):
    """The velocity at each pixel of a noised image.

    Args:
        image_size, channels: of the images.
        patch: pixels of a side of a patch.
        width, depth, heads: of the transformer.
        num_classes: of the images.
    """

    positions: Tensor

    def __init__(
        self, image_size: int, channels: int, patch: int, width: int, depth: int, heads: int, num_classes: int
    ) -> None:
        super().__init__()
        self.patch = patch
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.times = nn.Sequential(nn.Linear(FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))
        self.classes = nn.Embedding(num_classes, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.modulation = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, patch * patch * channels)
        self.register_buffer("positions", _grid(image_size // patch, width), persistent=False)
        self.apply(_initialise)
        for zero in (self.modulation, self.output, *(block.modulation for block in self.blocks)):
            nn.init.zeros_(zero.weight)
            nn.init.zeros_(zero.bias)

    def forward(self, images: Tensor, times: Tensor, labels: Tensor) -> Tensor:
        """The velocity [samples, channels, height, width].

        Args:
            images: noised, of the same shape.
            times: 0 is the image, 1 the noise, [samples].
            labels: numbers of the classes, [samples].
        """
        patches = self.embed(images)
        rows, columns = patches.shape[-2:]
        patches = patches.flatten(2).transpose(1, 2) + self.positions
        condition = self.times(_waves(1000 * times, FREQUENCIES)) + self.classes(labels)
        for block in self.blocks:
            patches = block(patches, condition)
        shift, scale = self.modulation(functional.silu(condition))[:, None].chunk(2, -1)
        pixels: Tensor = self.output(self.norm(patches) * (1 + scale) + shift)
        return functional.pixel_shuffle(pixels.transpose(1, 2).unflatten(2, (rows, columns)), self.patch)


def _waves(numbers: Tensor, width: int) -> Tensor:
    """Cosines and sines of numbers [n] with `width` / 2 periods, [n, width]."""
    exponents = torch.arange(width // 2, device=numbers.device) / (width // 2)
    angles = numbers[:, None] * torch.exp(-math.log(LONGEST) * exponents)
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def _grid(side: int, width: int) -> Tensor:
    """Waves of the row and of the column of each patch, [patches, width]."""
    waves = _waves(torch.arange(side).float(), width // 2)
    return torch.cat([waves.repeat_interleave(side, 0), waves.repeat(side, 1)], dim=1)


def _initialise(module: nn.Module) -> None:
    """As in DiT's code."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d):
        nn.init.xavier_uniform_(module.weight.view(len(module.weight), -1))
        nn.init.zeros_(module.bias)  # type: ignore[arg-type]
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
