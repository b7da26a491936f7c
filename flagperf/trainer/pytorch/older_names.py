"""Names of newer versions that the cases use, for an older torch, torchvision or transformers.

`by_version` adds them before a case is imported. Each works as in the newer library, with the same random numbers.
"""

from __future__ import annotations

import importlib
import math
import sys
import types
import warnings
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.utils._python_dispatch import TorchDispatchMode

FILLED = "_flagperf_takes_added_masks"


class _WeightNorm(nn.Module):
    """The parametrization of weight_norm in torch 2.1: magnitude and direction."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, magnitude: Tensor, direction: Tensor) -> Tensor:
        return torch._weight_norm(direction, magnitude, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: nn.Module, name: str = "weight", dim: int = 0) -> nn.Module:
    """The module, whose weight is learned as magnitude and direction."""
    from torch.nn.utils import parametrize

    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


def fill_torch() -> None:
    """Add `weight_norm` to torch 2.0."""
    from torch.nn.utils import parametrizations

    _WeightNorm.__module__ = parametrizations.__name__  # a network is identified by the names of its classes
    parametrizations.weight_norm = weight_norm


def fill_torchvision() -> None:
    """Add the newer transforms to torchvision 0.15, where it is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its transforms are new
        try:
            import torchvision  # type: ignore[import-untyped]
            from torchvision.transforms import v2  # type: ignore[import-untyped]
        except ImportError:
            return
    if tuple(map(int, torchvision.__version__.split(".")[:2])) < (0, 17):
        for kind in (v2.Resize, v2.RandomResizedCrop, v2.RandomShortestSize, v2.RandomResize, v2.ScaleJitter):
            kind.__init__ = antialiased(kind.__init__)
    if not hasattr(v2, "MixUp"):
        v2.MixUp, v2.CutMix = MixUp, CutMix
        v2.functional.to_dtype = to_dtype
        points: Any = torchvision.datapoints

        def boxes(data: Tensor, format: str, canvas_size: tuple[int, int]) -> Any:
            return points.BoundingBox(data, format=format, spatial_size=canvas_size)

        class ToPureTensor(v2.Transform):  # type: ignore[misc]
            _transformed_types: ClassVar[Any] = (points._datapoint.Datapoint,)

            def _transform(self, inpt: Any, params: Any) -> Tensor:  # noqa: ARG002
                return inpt.as_subclass(Tensor)  # type: ignore[no-any-return]

        v2.ToPureTensor = ToPureTensor
        tensors = types.ModuleType("torchvision.tv_tensors")
        vars(tensors).update(BoundingBoxes=boxes, Mask=points.Mask, Image=points.Image)
        torchvision.tv_tensors = sys.modules[tensors.__name__] = tensors


def antialiased(init: Any) -> Any:
    """The __init__ of a transform that resizes, with the default of newer versions: tensors are smoothed, too."""
    return lambda self, *given, **named: init(self, *given, **{"antialias": True, **named})


def fill_transformers() -> None:
    """Let transformers 4 take masks that are added to the scores of attention. Call it before a network is imported."""
    import transformers
    from transformers import modeling_utils

    masks: Any = importlib.import_module("transformers.modeling_attn_mask_utils")  # transformers 5 has none
    if hasattr(masks, FILLED):
        return
    setattr(masks, FILLED, True)
    expand, causal = masks._prepare_4d_attention_mask, masks._prepare_4d_causal_attention_mask

    def prepared(mask: Any, dtype: Any, tgt_len: int | None = None) -> Any:
        return mask.expand(-1, -1, tgt_len or mask.shape[-1], -1) if is_added(mask) else expand(mask, dtype, tgt_len)

    def prepared_causal(mask: Any, shape: Any, *given: Any, **named: Any) -> Any:
        return mask.expand(shape[0], -1, -1, -1) if is_added(mask) else causal(mask, shape, *given, **named)

    masks._prepare_4d_attention_mask, masks._prepare_4d_causal_attention_mask = prepared, prepared_causal
    mixin: Any = modeling_utils.ModuleUtilsMixin
    extended = mixin.get_extended_attention_mask
    mixin.get_extended_attention_mask = lambda self, mask, *given: (
        mask if is_added(mask) else extended(self, mask, *given)
    )
    gpt2: Any = transformers.GPT2Model
    forward = gpt2.forward
    gpt2.forward = lambda self, *given, **named: (
        _gpt2(self, *given, **named) if is_added(named.get("attention_mask")) else forward(self, *given, **named)
    )


def is_added(mask: Any) -> bool:
    """Whether a mask contains numbers to add to the scores, [texts, heads, positions, positions]."""
    return mask is not None and mask.dim() == 4


def _gpt2(
    network: Any,
    input_ids: Tensor | None = None,
    *,
    attention_mask: Tensor,
    inputs_embeds: Tensor | None = None,
    position_ids: Tensor | None = None,
    **_: Any,
) -> Any:
    """GPT-2 with the given mask only: its own mask would hide later positions."""
    from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

    embedded = network.wte(input_ids) if inputs_embeds is None else inputs_embeds
    positions = torch.arange(embedded.shape[1], device=embedded.device)[None] if position_ids is None else position_ids
    if attention_mask.dtype == torch.bool:
        lowest = torch.finfo(embedded.dtype).min
        attention_mask = torch.zeros_like(attention_mask, dtype=embedded.dtype).masked_fill(~attention_mask, lowest)
    hidden = network.drop(embedded + network.wpe(positions))
    for block in network.h:
        block.attn.bias.fill_(True)
        hidden = block(hidden, attention_mask=attention_mask)[0]
    return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=network.ln_f(hidden))


def to_dtype(image: Tensor, dtype: torch.dtype, scale: bool) -> Tensor:
    """Whole numbers from 0 to 255 as floating-point numbers from 0 to 1."""
    assert scale and image.dtype == torch.uint8
    return image.to(dtype).mul_(1.0 / 255)


class MixUp(nn.Module):
    """torchvision's MixUp: a batch of images and labels, mixed with the same batch moved by one."""

    def __init__(self, alpha: float, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self._dist = torch.distributions.Beta(torch.tensor([alpha]), torch.tensor([alpha]))

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Mixed images, and the shares of each label, [image, class]."""
        share = float(self._dist.sample(()))
        return mixed(images, share), mixed(one_hot(labels, self.num_classes).float(), share)


class CutMix(MixUp):
    """torchvision's CutMix: a box of each image is that of the image before."""

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Mixed images, and the shares of each label, [image, class]."""
        share = float(self._dist.sample(()))
        height, width = images.shape[-2:]
        x, y = int(torch.randint(width, size=(1,))), int(torch.randint(height, size=(1,)))
        half = 0.5 * math.sqrt(1 - share)
        left, right = max(x - int(half * width), 0), min(x + int(half * width), width)
        top, bottom = max(y - int(half * height), 0), min(y + int(half * height), height)
        cut = images.clone()
        cut[..., top:bottom, left:right] = images.roll(1, 0)[..., top:bottom, left:right]
        remaining = 1 - (right - left) * (bottom - top) / (width * height)
        return cut, mixed(one_hot(labels, self.num_classes).float(), remaining)


def mixed(batch: Tensor, share: float) -> Tensor:
    """`share` of the batch plus 1 - `share` of the same batch moved by one."""
    return batch.roll(1, 0).mul_(1 - share).add_(batch.mul(share))


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts products of matrices and convolutions of a forward pass, as FlopCounterMode of torch 2.1 does."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        operation = func._overloadpacket
        if operation in (torch.ops.aten.mm, torch.ops.aten.bmm):
            self.total += 2 * out.numel() * args[0].shape[-1]
        elif operation in (torch.ops.aten.addmm, torch.ops.aten.baddbmm):
            self.total += 2 * out.numel() * args[1].shape[-1]
        elif operation is torch.ops.aten.convolution:
            images, kernel, transposed = args[0], args[1], args[6]
            positions = (images if transposed else out).shape[2:]
            self.total += 2 * len(images) * math.prod(positions) * kernel.numel()
        return out

    def get_total_flops(self) -> int:
        """The operations so far."""
        return self.total
