"""Measures single operators: time, and error against the same operator in float64 on the CPU. docs/probe.md.

All ranks measure at the same time. The error is measured on smaller shapes: float64 on a CPU is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Callable, cast

import torch
from torch import Tensor

from flagperf.contract.fields import size_in_bytes
from flagperf.contract.operators import Operator, read_table
from flagperf.trainer.pytorch.by_version import flop_counter
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.timing import Timing

FORMATS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LARGEST = {"cpu": 2**20}  # elements of the largest input, by kind of device; elsewhere as in the table
COMPARED = 2**18  # elements of the largest input with which the error is measured
INTEGERS = 1000  # integers lie below
MOST_CALLS = 10_000


class Operators:
    """Measures the operators of a table on the device of one rank, together with the other ranks."""

    def __init__(self, config: Mapping[str, Any], device: torch.device, world: World) -> None:
        settings = config["operators"]
        self.device, self.world, self.timing = device, world, Timing(device, world)
        self.name, self.dtype = settings["format"], FORMATS[settings["format"]]
        given = settings["largest"]
        self.most = LARGEST.get(device.type) if given is None else size_in_bytes(given) // _width(self.dtype)
        self.target = settings["seconds"]
        self.rows = read_table({"operators": settings["rows"]}, "config.yaml")

    @torch.no_grad()
    def records(self) -> Iterator[dict[str, Any]]:
        """A record for each operator, when it is measured: seconds of a call, work, bytes, error, or the reason."""
        for row in self.rows:
            operator = row.within(self.most)
            record: dict[str, Any] = {"name": row.name, "format": self.name, "shapes": operator.shapes}
            measured = self._measured(operator)
            error = None if measured is None else self.timing.together(partial(self._error, row.within(COMPARED)))
            reasons = [reason for reason in self.world.gather(self.timing.reason) if reason]
            worst = None if error is None else self.world.largest(error)
            yield {**record, **(measured or {}), "error": worst, "reason": reasons[0] if reasons else ""}

    def _measured(self, operator: Operator) -> dict[str, Any] | None:
        """Seconds of the first call and of later calls on the slowest rank; None where a rank cannot make the call."""
        tensors = self.timing.together(partial(self._tensors, operator, self.device))
        if tensors is None:
            return None
        function, results = _function(operator), []
        call = partial(function, *tensors, *operator.given)
        first = self.timing.together(partial(self.timing.seconds, lambda: results.append(call()), 1))
        if first is None:
            return None
        size = sum(tensor.numel() * tensor.element_size() for tensor in [*tensors, *_tensors_of(results[0])])
        results.clear()
        once = self.world.largest(self.timing.seconds(call, 2)) / 2
        calls = max(1, min(MOST_CALLS, round(self.target / max(once, 1e-9))))
        self.world.wait()
        seconds = self.world.largest(self.timing.seconds(call, calls)) / calls
        work = _counted(call, tensors) if operator.work is None else operator.work
        return {"first": self.world.largest(first), "seconds": seconds, "operations": work, "bytes": size}

    def _tensors(self, operator: Operator, device: torch.device) -> list[Tensor]:
        """The inputs, the same in each process and on each device: they are drawn on the host."""
        generator = torch.Generator().manual_seed(0)
        tensors = [self._values(operator.values, shape, generator) for shape in operator.shapes]
        if operator.classes:
            rows = (operator.shapes[0][0],)
            tensors.append(torch.randint(operator.sizes[operator.classes], rows, generator=generator))
        return [tensor.to(device) for tensor in tensors]

    def _values(self, values: str, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        if values == "whole":
            return torch.randint(INTEGERS, list(shape), generator=generator, dtype=torch.int32)
        drawn = torch.randn(list(shape), generator=generator)
        if values == "positive":
            drawn = drawn.abs_().add_(0.1)
        if values == "near one":
            drawn = drawn.mul_(1e-4).add_(1.0)
        return drawn.to(self.dtype)

    def _error(self, operator: Operator) -> float:
        """Relative norm of the difference to float64 on the CPU; for whole numbers the share that differs."""
        function, tensors = _function(operator), self._tensors(operator, torch.device("cpu"))
        result = _tensors_of(function(*(tensor.to(self.device) for tensor in tensors), *operator.given))[0].cpu()
        if operator.random:
            exact = tensors[0].double() / (1 - operator.given[0]) * (result != 0)
        else:
            wide = (tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors)
            exact = _tensors_of(function(*wide, *operator.given))[0]
        if not result.is_floating_point():
            return float((result != exact).double().mean())
        return float((result.double() - exact).norm() / exact.norm())


def _counted(call: Callable[[], Any], tensors: Sequence[Tensor]) -> int:
    """Operations of products, convolutions and attention; of other operators one for each element."""
    with flop_counter() as counter:
        call()
    return int(counter.get_total_flops()) or max(tensor.numel() for tensor in tensors)


def _width(dtype: torch.dtype) -> int:
    """Bytes of an element; dtype.itemsize needs torch 2.1."""
    return torch.empty(0, dtype=dtype).element_size()


def _function(row: Operator) -> Callable[..., Any]:
    """The function of torch that a row names. An unknown name is an error of this call, and so is one of a module that
    torch imports, such as `os.system`.
    """
    try:
        function: object = torch
        for name in row.call.split("."):
            function = getattr(function, name)
            if isinstance(function, ModuleType) and function.__name__.partition(".")[0] != "torch":
                raise AttributeError(name)
    except AttributeError:
        raise ValueError(f"torch {torch.__version__} has no {row.call}") from None
    return cast(Callable[..., Any], function)


def _tensors_of(result: Any) -> list[Tensor]:
    """The tensors of a result: some operators have several."""
    return [result] if isinstance(result, Tensor) else [part for part in result if isinstance(part, Tensor)]
