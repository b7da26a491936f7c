"""What a step computes, reads, writes and sends: a mode of torch's dispatcher that sees each operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import TorchDispatchMode

from flagperf.contract.mesh import Mesh
from flagperf.contract.trace import OperatorClass
from flagperf.trainer.pytorch.trace.chains import Chains, size
from flagperf.trainer.pytorch.trace.collectives import group_of, kind_of, largest, side_of
from flagperf.trainer.pytorch.trace.counts import Call, Counts, Row, Sent
from flagperf.trainer.pytorch.trace.memory import Memory, plain_tensors
from flagperf.trainer.pytorch.trace.operators import call_of, class_of, moves_nothing, name_of, operations

COMMUNICATE = ("c10d", "_c10d_functional", "fsdp")
SILENT = ("c10d", "_c10d_functional")  # what they send is counted by itself
IN_PLACE = ("add", "scatter_add", "index_add", "index_put")  # autograd uses add_ … where no mode looks on
KEPT = ("parameters", "gradients", "optimizer")
NO_VALUE: dict[bool, Any] = {True: 0.0, False: 0}


class Tally(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that run within it, and the storages that they make.

    Attributes:
        memory: what is held; its `phase` and `module` say where the step is.
        counts: what was counted.
        guessed: names of modules that read a number of a tensor that has no values; they got 0.
    """

    def __init__(self, mesh: Mesh, samples: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memory, self.counts = Memory(), Counts(samples)
        self.counting = False  # storages are seen before the step begins, too
        self.unseen = 0  # how deep torch is in computing shapes alone
        self.guessed: set[str] = set()
        self._mesh, self._chains = mesh, Chains(self.memory)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind not in (Tensor, nn.Parameter, FakeTensor) for kind in types):
            return NotImplemented  # a DTensor: its own operators on local tensors follow
        kwargs = kwargs or {}
        if self.unseen:
            return func(*args, **kwargs)
        out = self._called(func, args, kwargs)
        if func.namespace == "prim":  # asks what a tensor is
            return out
        in_place = self.memory.phase == "backward" and name_of(func) in IN_PLACE and not torch.is_grad_enabled()
        (self.memory.see_late if in_place else self.memory.see)(out)
        if func.namespace in COMMUNICATE and name_of(func) != "send":  # a stage sends what it keeps as an activation
            buffers = [out, changed(func, args)] if func.namespace == "fsdp" else [args, out]
            self.memory.mark(buffers, "communication", unless=KEPT)
        if self.counting:
            self._count(func, args, kwargs, out)
        return out

    def _called(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except DataDependentOutputException:
            if name_of(func) != "_local_scalar_dense":
                raise
            self.guessed.add(self.memory.module)
            return NO_VALUE[args[0].dtype.is_floating_point]

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        kind = kind_of(func)
        if kind is not None:
            self._count_sent(kind, args, kwargs, out)
        if func.namespace in SILENT or moves_nothing(func):
            return
        written = unique(plain_tensors([out, changed(func, args)]))
        read = unique(plain_tensors((args, kwargs)))
        if not written and not read:
            return
        operator_class = class_of(func, self.memory.phase)
        calls = operations(func, args, kwargs, out)
        again = call_of(func, args, kwargs)
        row = self._row(func, operator_class, (*written, *read)[0], calls, total(read), total(written), again)
        if operator_class in ("elementwise", "optimizer"):
            self._chains.add(row, read, written)
        else:
            self._chains.end()
            row.chain += total(read) + total(written)

    def _row(
        self, func: Any, kind: OperatorClass, tensor: Tensor, flops: float, read: int, written: int, again: Call
    ) -> Row:
        name = f"{func.namespace}.{name_of(func)}"
        dtype = str(tensor.dtype).rpartition(".")[2]
        row = self.counts.rows.setdefault((name, kind, dtype, self.memory.phase, flops, read, written, again), Row())
        row.calls += 1
        row.operations += flops
        row.read += read
        row.written += written
        return row

    def _count_sent(self, kind: str, args: Any, kwargs: Any, out: Any) -> None:
        ranks = group_of((args, kwargs))
        sent, dtype = largest([*args, *kwargs.values(), out])
        key = kind, side_of(ranks, self._mesh), len(ranks), dtype, self.memory.phase
        count = self.counts.sent.setdefault(key, Sent())
        count.calls += 1
        count.bytes += sent

    def finish(self) -> Counts:
        """All counts, when the step has ended."""
        self._chains.end()
        self.counts.peaks = self.memory.peaks()
        return self.counts

    @contextmanager
    def following(self, names: Mapping[nn.Module, str]) -> Iterator[None]:
        """A block in which `memory.module` is the module that computes, or whose gradients are computed."""
        stack: list[str] = []

        def enter(module: nn.Module, _: Any) -> None:
            stack.append(names.get(module, self.memory.module))
            self.memory.module = stack[-1]

        def leave(module: nn.Module, _: Any, output: Any) -> None:
            name = names.get(module)
            for tensor in plain_tensors(output):
                if name is not None and tensor.requires_grad and torch.is_grad_enabled():
                    tensor.register_hook(partial(self._at, name))  # type: ignore[no-untyped-call]
            stack.pop()
            self.memory.module = stack[-1] if stack else ""

        entered = hooks.register_module_forward_pre_hook(enter)
        left = hooks.register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            entered.remove()
            left.remove()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if error is not None:
            error.traced_module = self.memory.module  # for who reads why there is no trace
        return super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]

    def _at(self, name: str, _: Tensor) -> None:
        self.memory.module = name


def changed(operator: Any, args: Sequence[Any]) -> list[Any]:
    """The arguments that an operator writes to."""
    declared = zip(args, operator._schema.arguments)
    return [given for given, argument in declared if argument.alias_info is not None and argument.alias_info.is_write]


def unique(tensors: Iterator[Tensor]) -> list[Tensor]:
    """The tensors, each storage once, by its largest tensor."""
    largest: dict[int, Tensor] = {}
    for tensor in tensors:
        key = tensor.untyped_storage()._cdata
        if key not in largest or size(tensor) > size(largest[key]):
            largest[key] = tensor
    return list(largest.values())


def total(tensors: Sequence[Tensor]) -> int:
    """Bytes of tensors."""
    return sum(map(size, tensors))
