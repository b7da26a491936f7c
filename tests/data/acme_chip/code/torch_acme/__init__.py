"""A torch device made of Python, as the plug-in of a vendor: importing it adds the device type "acme".

It shows on any machine what a training does on an accelerator. The chip is the host: its tensors wrap tensors of the
host, its generator is the host's, its collectives are gloo's. So it computes exactly what the CPU does. What a caller
does wrong on a chip is wrong here, too: arrays of host and chip in one operator are refused. All work is done when a
call returns: overlap, races and memory are not seen.

It is made of private interfaces of torch, those of 2.11 to 2.14. Import it before the first backward of the process,
because torch counts its devices then.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

if not "2.11" <= torch.__version__ < "2.15":
    raise ImportError(f"torch_acme is made for torch 2.11 to 2.14, this is {torch.__version__}")

from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from torch_acme import autocast, runtime, tensor

_setup_privateuseone_for_python_backend("acme", backend_module=runtime)
_EVERY = torch.library.Library("_", "IMPL")
_ATEN = torch.library.Library("aten", "IMPL")
autocast.register(_EVERY, _ATEN)

# C++ code that works below the wrappers, such as torch.tensor(…, device="acme"), and what takes no tensor at all
_EVERY.fallback(lambda operator, *args, **kwargs: tensor.compute(operator, args, kwargs), "PrivateUse1")


def _copy_from(source: Tensor, to: Tensor, non_blocking: bool = False) -> Tensor:
    """Such code copies by an operator of its own."""
    return tensor.compute(torch.ops.aten.copy_.default, (to, source, non_blocking), {})


_ATEN.impl("_copy_from", _copy_from, "PrivateUse1")

# A device of Python has no allocator of pinned memory: what is to be pinned is only copied.
_empty = torch.empty


def _unpinned_empty(*args: Any, **kwargs: Any) -> Tensor:
    kwargs.pop("pin_memory", None)
    return _empty(*args, **kwargs)


torch.empty = _unpinned_empty
_ATEN.impl("_pin_memory", lambda host, *_: host.clone(), "CPU")

# gloo's collectives reach `compute` as operators c10d::…, like all others.
distributed.Backend.register_backend("acmecl", distributed.ProcessGroupGloo, devices=["acme"])
