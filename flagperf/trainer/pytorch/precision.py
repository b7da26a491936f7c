"""Number formats: fp32, tf32, amp_fp16 with a gradient scaler, amp_bf16."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from flagperf.trainer.pytorch.by_version import grad_scaler

AUTOCAST = {"amp_fp16": torch.float16, "amp_bf16": torch.bfloat16}


class Precision:
    """The number format of a training: `backward` adds gradients, `step` unscales, clips and applies them."""

    def __init__(self, name: str, device: torch.device) -> None:
        self._device = device
        self.autocast: AbstractContextManager[Any] = nullcontext()
        self.scaler: Any = None  # a gradient scaler, or None
        # By default PyTorch multiplies in fp32 but convolves in TF32: fp32 means fp32 here.
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = name == "tf32"
        if name in AUTOCAST:
            self.autocast = torch.autocast(device.type, AUTOCAST[name])
        if name == "amp_fp16":
            self.scaler = grad_scaler(device)

    def cast(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The function under autocast, where the precision has one."""
        return self.autocast(function) if isinstance(self.autocast, torch.autocast) else function

    def backward(self, loss: Tensor, micro_steps: int) -> None:
        """Add the gradients of one micro step's loss. `micro_steps`: of an optimizer step."""
        if micro_steps > 1:
            loss = loss / micro_steps
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        torch.autograd.backward(loss)

    def step(self, optimizer: Optimizer, clip: Callable[[], Tensor] | None) -> Tensor | None:
        """Update the parameters. `clip`: clips the gradients and returns their norm before; so does this method."""
        norm = None
        if clip is not None:
            if self.scaler is not None:
                self.scaler.unscale_(optimizer)
            norm = clip()
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
        return norm

    def loss_scale(self) -> Tensor | None:
        """The factor of the gradient scaler, left on the device."""
        return None if self.scaler is None else self.scaler.scale(torch.ones((), device=self._device))
