"""Tensors of the chip: wrappers around tensors of the host. `compute` runs their operators, collectives included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from torch_acme import runtime

HOST = torch.device("cpu")
DEVICE = torch.device("privateuseone", 0)  # the name that torch has for it before it is called acme
COPIES = ("copy_", "_copy_from", "_foreach_copy_")
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
READ_BY_HOST = ("_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "unique_dim")


class AcmeTensor(Tensor):
    """A tensor of the chip. It has no memory of its own: `host` holds its numbers."""

    host: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: Tensor) -> AcmeTensor:
        """Wrap a tensor of the host."""
        wrapper: AcmeTensor = Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            layout=host.layout,
            device=DEVICE,
        )
        wrapper.host = host
        return wrapper

    @classmethod
    def __torch_dispatch__(
        cls, operator: OpOverload, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return compute(operator, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"acme:{self.host!r}"

    def tolist(self) -> Any:
        """Its numbers; torch's own refuses wrappers."""
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Saved, and so loaded, as a tensor of the host."""
        return self.detach().cpu().__reduce_ex__(protocol)


def compute(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator on the host. Its results are tensors of the chip, unless it was told to put them on the host."""
    given = list(leaves([*args, *kwargs.values()]))
    tensors = [value for value in given if isinstance(value, Tensor)]
    check_devices(operator, tensors)
    if host_waits(operator, args, kwargs):
        runtime.host_waits(str(operator))
    kept = {name: value for name, value in kwargs.items() if name != "pin_memory"}  # there is no pinned memory
    result = operator(*changed(args, on_host), **{name: changed(value, on_host) for name, value in kept.items()})
    to_host = any(isinstance(value, torch.device) and value == HOST for value in given)
    return result if to_host else changed(result, on_chip(tensors))


def on_host(value: Any) -> Any:
    """What an argument is on the host."""
    if isinstance(value, AcmeTensor):
        return value.host
    return HOST if isinstance(value, torch.device) else value


def on_chip(arguments: Sequence[Tensor]) -> Callable[[Any], Any]:
    """A function that gives results their tensors of the chip: an operator in place gives back its argument."""
    known = {id(on_host(tensor)): tensor for tensor in arguments}

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        wrapper = known.get(id(value))
        if wrapper is None:
            return AcmeTensor(value)
        if (wrapper.shape, wrapper.stride()) != (value.shape, value.stride()):  # resized, as results in `out=` are
            wrapper.data, wrapper.host = AcmeTensor(value), value
        return wrapper

    return wrap


def check_devices(operator: OpOverload, tensors: Sequence[Tensor]) -> None:
    """As any chip: take arrays of host and chip together only to copy one into the other, or as indices."""
    found = {tensor.device.type for tensor in tensors if tensor.dim()}
    if len(found) > 1 and base_name(operator) not in (*COPIES, *INDEXING):
        raise RuntimeError(f"{operator}: expected all tensors on the same device, found {sorted(found)}")


def host_waits(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a chip that runs behind the host would hold it up here: for a number, a shape, or the end of a copy."""
    name = base_name(operator)
    if name == "_to_copy":
        crosses = kwargs.get("device", DEVICE).type != args[0].device.type
        return crosses and not kwargs.get("non_blocking")
    if name in ("copy_", "_copy_from"):
        crosses = args[0].device.type != args[1].device.type
        return crosses and not (args[2] if len(args) > 2 else kwargs.get("non_blocking"))
    if name in INDEXING:
        return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1])
    return name in READ_BY_HOST


def base_name(operator: OpOverload) -> str:
    """Name of an operator without namespace and overload."""
    return operator._schema.name.partition("::")[2]


def leaves(value: Any) -> Iterator[Any]:
    """What is in nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested lists and tuples with all that is in them changed."""
    if isinstance(value, (list, tuple)):
        return type(value)(changed(part, change) for part in value)
    return change(value)
