"""Initial weights by parameter: each parameter draws from seeds of its own, and a rank makes only its part.

While a network is made, a Recording notes the operations that fill new tensors, in place of executing them. The tensors
need no memory until the network is divided over the ranks. Then `InitialWeights.fill` gives each part its values. They
depend on the run's seed and the name of the parameter only, so they are the same for every division.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, List, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from flagperf.trainer.pytorch.rank_part import part_of
from flagperf.trainer.start.extension import Rename

PIECE = 1 << 18  # numbers that are drawn from one seed: whole rows of a parameter, about as many as this
aten = torch.ops.aten
DRAWS = (aten.normal_.default, aten.uniform_.default)
OVERWRITING = (*DRAWS, aten.fill_.Scalar, aten.zero_.default)
# Operations whose result at a place depends on this place only: they can be executed for a part of a tensor.
SCALING = (aten.mul_.Tensor, aten.add_.Tensor, aten.sub_.Tensor, aten.erfinv_.default, aten.clamp_.default)
RECORDED = (*OVERWRITING, *SCALING)


class Fill(NamedTuple):
    """An operation in place on a range of a flattened parameter."""

    operator: Any
    arguments: Sequence[Any]
    options: Mapping[str, Any]
    first: int
    end: int

    def execute(self, flat: Tensor, begin: int, generator: np.random.Generator) -> None:
        """Execute the operation on a part of the parameter: the numbers from `begin`."""
        part = flat[max(self.first - begin, 0) : max(self.end - begin, 0)]
        if not len(part):
            return
        if self.operator not in DRAWS:
            self.operator(part, *self.arguments, **self.options)
            return
        normal = self.operator is aten.normal_.default
        names, default = (("mean", "std"), (0.0, 1.0)) if normal else (("from", "to"), (0.0, 1.0))
        given = dict(zip(names, default), **dict(zip(names, self.arguments)), **self.options)
        first, second = given[names[0]], given[names[1]]
        draw = generator.standard_normal if normal else generator.random
        values = part.numpy()
        draw(dtype=np.float32, out=values)
        values *= np.float32(second if normal else second - first)
        values += np.float32(first)


Fills = List[Fill]


class _Unfilled(NamedTuple):
    """A new tensor whose operations are recorded, and which has no memory."""

    tensor: Tensor
    size: int  # bytes
    fills: Fills


class Recording(TorchDispatchMode):
    """Records the operations that fill new tensors of the host.

    A tensor that another operation reads is filled at once, from the default generator.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unfilled: dict[int, _Unfilled] = {}  # by storage

    def __torch_dispatch__(self, operator: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Execute an operation, or record it."""
        options = kwargs or {}
        tensors = [value for value in tree_flatten((args, options))[0] if isinstance(value, Tensor)]
        unfilled = [tensor for tensor in tensors if _key(tensor) in self._unfilled]
        if unfilled and self._recorded(operator, tensors, args, options):
            return args[0]
        for tensor in unfilled:
            if not _is_view(operator):
                self._fill_now(_key(tensor))
            elif operator is not aten.detach.default:
                self._give_memory(self._unfilled[_key(tensor)])  # slices of a tensor without memory are refused
        made = operator(*args, **options)
        if operator is aten.empty.memory_format and made.device.type == "cpu" and made.is_floating_point():
            self._begin(made)
        return made

    def parameters(self, network: nn.Module) -> dict[str, Fills]:
        """Replace recorded parameters by parameters on "meta", and fill all other tensors.

        Returns:
            Name of a parameter on "meta" → the operations that fill it.
        """
        owners: dict[int, list[nn.Parameter]] = {}
        for parameter in network.parameters():
            owners.setdefault(_key(parameter), []).append(parameter)
        shapes: dict[int, nn.Parameter] = {}
        fills: dict[str, Fills] = {}
        for name, parameter in network.named_parameters():
            unfilled = self._unfilled.get(_key(parameter))
            full = unfilled is not None and parameter.is_contiguous() and parameter.numel() == unfilled.tensor.numel()
            if unfilled is not None and full and len(owners[_key(parameter)]) == 1 and type(parameter) is nn.Parameter:
                fills[name] = unfilled.fills
                shapes[id(parameter)] = _on_meta(parameter)
                del self._unfilled[_key(parameter)]
        for module in network.modules():
            for name, owned in module._parameters.items():
                module._parameters[name] = shapes.get(id(owned), owned)
        for key in list(self._unfilled):
            self._fill_now(key)
        return fills

    def _begin(self, tensor: Tensor) -> None:
        if tensor.is_contiguous() and tensor.numel():
            self._unfilled[_key(tensor)] = _Unfilled(tensor, tensor.untyped_storage().nbytes(), [])
            tensor.untyped_storage().resize_(0)

    def _recorded(self, operator: Any, tensors: Sequence[Tensor], args: Any, options: Mapping[str, Any]) -> bool:
        """Record an operation, if all its other tensors are numbers. Returns whether it could be recorded."""
        filled, given = args[0], {name: value for name, value in options.items() if name != "generator"}
        others = [tensor for tensor in tensors if tensor is not filled]
        numbers = all(tensor.dim() == 0 and _key(tensor) not in self._unfilled for tensor in others)
        generator = options.get("generator")
        if operator not in RECORDED or not filled.is_contiguous() or not numbers or generator is not None:
            return False
        unfilled, first = self._unfilled[_key(filled)], filled.storage_offset()
        if operator in OVERWRITING and filled.numel() == unfilled.tensor.numel():
            unfilled.fills.clear()
        unfilled.fills.append(Fill(operator, args[1:], given, first, first + filled.numel()))
        return True

    def _fill_now(self, key: int) -> None:
        if key in self._unfilled:
            unfilled = self._unfilled.pop(key)
            self._give_memory(unfilled)
            flat = unfilled.tensor.detach().view(-1)
            for fill in unfilled.fills:
                fill.operator(flat[fill.first : fill.end], *fill.arguments, **fill.options)

    @staticmethod
    def _give_memory(unfilled: _Unfilled) -> None:
        if not unfilled.tensor.untyped_storage().nbytes():
            unfilled.tensor.untyped_storage().resize_(unfilled.size)


class InitialWeights:
    """The initial weights of a network's parameters on "meta", which `Recording` recorded.

    Args:
        fills: name of a parameter → operations that fill it.
        seed: of the run.
        rename: the network's name of a parameter → the case's name, from which the seed is made.
    """

    def __init__(self, fills: Mapping[str, Fills], seed: int, rename: Rename = str) -> None:
        self.fills, self.seed, self.rename = fills, seed, rename

    @torch.no_grad()
    def fill(self, network: nn.Module, device: torch.device) -> None:
        """Move a network, divided or not, to a device, and fill this rank's parts of its recorded parameters."""
        if not self.fills:
            return
        _give_memory(network, device)
        cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        with ThreadPoolExecutor(max(cores, 1)) as pool:  # numbers are drawn without Python's lock
            for name, parameter in network.named_parameters():
                if name in self.fills:
                    self._fill(self.rename(name), parameter, self.fills[name], pool)

    def _fill(self, name: str, parameter: Tensor, fills: Fills, pool: ThreadPoolExecutor) -> None:
        """Fill this rank's part of a parameter, pieces side by side."""
        shape = tuple(parameter.shape) or (1,)
        local, offsets = part_of(parameter)
        local = local.view(local.shape or (1,))
        row = max(int(np.prod(shape[1:])), 1)
        rows = max(1, PIECE // row)  # in a piece
        begin, end = (offsets or (0,))[0], (offsets or (0,))[0] + local.shape[0]
        inner = tuple(slice(first, first + size) for first, size in zip(offsets[1:], local.shape[1:]))
        if not local.numel():
            return

        def fill_rows(first: int) -> None:
            last = min(first + rows, shape[0])
            piece = self._piece(name, fills, first * row, last * row).view(last - first, *shape[1:])
            lower, upper = max(first, begin), min(last, end)
            with torch.no_grad():  # which each thread has to be told
                local[lower - begin : upper - begin].copy_(piece[(slice(lower - first, upper - first), *inner)])

        list(pool.map(fill_rows, range(begin - begin % rows, end, rows)))

    def _piece(self, name: str, fills: Fills, begin: int, end: int) -> Tensor:
        """The values of a flattened parameter from `begin` to `end`, float32, by a generator that counts (Philox)."""
        digest = hashlib.sha256(f"{self.seed}/{name}/{begin}".encode()).digest()
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
        values = torch.zeros(end - begin)
        for fill in fills:
            fill.execute(values, begin, generator)
        return values


def _give_memory(network: nn.Module, device: torch.device) -> None:
    """Give parameters on "meta" uninitialised memory on a device. Tied parameters stay tied."""
    owners: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                owners.setdefault(id(parameter), []).append((module, name))

    def on_device(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.to(device)

    network._apply(on_device)  # type: ignore[no-untyped-call]
    for (first, name), *others in owners.values():
        for module, other in others:
            module._parameters[other] = first._parameters[name]


def _on_meta(parameter: nn.Parameter) -> nn.Parameter:
    """A parameter of the same shape and attributes without values."""
    shape = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    shape.__dict__.update(parameter.__dict__)
    return shape


def _key(tensor: Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


def _is_view(operator: Any) -> bool:
    """Whether the results of an operation share the memory of its arguments, which it does not change."""
    returned = [value.alias_info for value in operator._schema.returns]
    return bool(returned) and all(alias is not None and not alias.is_write for alias in returned)
