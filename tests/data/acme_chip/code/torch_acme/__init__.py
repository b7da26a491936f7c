"""A torch device made of Python, as the plug-in of a vendor: importing it adds the device type "acme".

It shows on any machine what a training does on an accelerator. The chip is the host: its tensors wrap tensors of the
host, its generator is the host's, its collectives are gloo's. So it computes exactly what the CPU does. What a caller
does wrong on a chip is wrong here, too: arrays of host and chip in one operator are refused. All work is done when a
call returns: overlap, races and memory are not seen.

It is made of private interfaces of torch: those of 2.11 to 2.14, and of 2.0, which has fp32 alone and tears tied
parameters. Import it before the first backward of the process, because torch counts its devices then.
"""

from __future__ import annotations

import torch
from torch import distributed

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

if (2, 11) <= VERSION <= (2, 14):
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    from torch_acme import autocast, operators, runtime

    _setup_privateuseone_for_python_backend("acme", backend_module=runtime)
    operators.register()
    autocast.register()
    # A host's tensor cannot become a wrapper in place. A moved module that is given new parameters tears tied ones.
    torch.__future__.set_swap_module_params_on_conversion(True)
    devices = {"devices": ["acme"]}
elif VERSION == (2, 0):
    from torch_acme import older, runtime

    older.register(runtime)
    devices = {}
else:
    raise ImportError(f"torch_acme is made for torch 2.0 and 2.11 to 2.14, this is {torch.__version__}")

# Collectives reach the chip's tensors as operators, like all others; so those of gloo are enough.
distributed.Backend.register_backend("acmecl", distributed.ProcessGroupGloo, **devices)
