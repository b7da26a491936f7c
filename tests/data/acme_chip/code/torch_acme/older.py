"""The chip as a device of torch 2.0, which has nothing for devices of Python.

A plug-in brings torch a guard: an object of C++ that says which device is current. Here it is the CPU's, with four of
its functions replaced; their places are those of c10/core/impl/DeviceGuardImplInterface.h. And since kernels of Python
may not return tensors of a class there, a mode that stays on takes all operators for the chip.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from torch_acme.tensor import AcmeTensor, compute

PRIVATEUSE1 = 20  # torch's number of the device type
PLACES = 19  # functions of a guard
TYPE, EXCHANGE_DEVICE, GET_DEVICE, DEVICE_COUNT = 0, 1, 2, 13  # among them
_made: list[Any] = []  # what C++ goes on using


class _ForTheChip(TorchDispatchMode):
    """Runs operators that make tensors of the chip, or are given some."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: value for name, value in (kwargs or {}).items() if name != "pin_memory"}  # there is none
        device = kwargs.get("device")
        if (device is not None and device.type == "acme") or any(issubclass(kind, AcmeTensor) for kind in types):
            return compute(operator, args, kwargs)
        return operator(*args, **kwargs)


def register(runtime: Any) -> None:
    """Tell torch of the device and its module, and take its operators from now on."""
    torch.utils.rename_privateuse1_backend("acme")
    torch._register_device_module("acme", runtime)
    _add_guard()
    _ForTheChip().__enter__()
    autograd = torch._C._dispatch_library("IMPL", "_", "AutogradPrivateUse1")
    autograd.fallback_fallthrough()  # collectives have no derivative
    _made.append(autograd)
    torch.tensor, torch.as_tensor = _copied(torch.tensor), _copied(torch.as_tensor)
    type(nn.Parameter).__instancecheck__ = _is_instance


def _copied(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """torch.tensor(…, device="acme") works below the mode: here it is copied like any other."""

    def made(*args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        tensor = make(*args, **kwargs)
        return tensor if device is None else tensor.to(device)

    return made


def _is_instance(kind: type, instance: Any) -> bool:
    """As newer versions do it. 2.0 takes parameters of a class of their own for those that are not yet initialized."""
    flagged = kind is nn.Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
    return flagged or type.__instancecheck__(kind, instance)


def _add_guard() -> None:
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * (PRIVATEUSE1 + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    of_cpu = ctypes.cast(ctypes.c_void_p(guards[0]), ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    functions = (ctypes.c_void_p * PLACES)(*of_cpu[:PLACES])
    small, device = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p), ctypes.CFUNCTYPE(ctypes.c_int16, ctypes.c_void_p)
    own = {  # a device is its type and, in the next byte, its index: 0
        TYPE: small(lambda _: PRIVATEUSE1),
        EXCHANGE_DEVICE: device(lambda _: PRIVATEUSE1),
        GET_DEVICE: device(lambda _: PRIVATEUSE1),
        DEVICE_COUNT: small(lambda _: 1),
    }
    for place, function in own.items():
        functions[place] = ctypes.cast(function, ctypes.c_void_p).value
    guard = (ctypes.c_void_p * 1)(ctypes.addressof(functions))
    guards[PRIVATEUSE1] = ctypes.addressof(guard)
    _made.extend([own, functions, guard])
