"""The network's random numbers drawn on the host, so that a training drops out the same on every device.

Each device has a generator of its own: with one seed, two devices draw other masks. Here each operator that draws gets
its numbers from a generator of the host, which starts again with each call. Only uniform numbers and permutations are
drawn; other distributions are made of uniform numbers, because the host's library draws these by the processor's kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from flagperf.trainer.pytorch.by_version import plain_attention

# Operators that only draw; what else has the tag, such as fused attention, mostly computes.
DRAWING = ("rand", "normal", "uniform", "multinomial", "log_normal", "geometric", "cauchy", "poisson", "binomial")


class HostRandom(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While this mode is on, all random numbers come from the host.

    Attributes:
        calls: how often the mode was switched on; each time has numbers of its own.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed, self.calls = seed, 0
        self.generator = torch.Generator()

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in operator.tags or kwargs.get("generator") is not None:
            return operator(*args, **kwargs)
        name = operator._schema.name.partition("::")[2]
        if (replacement := getattr(self, f"_{name}", None)) is not None:
            return replacement(*args, **kwargs)
        return self._on_host(operator, args, kwargs) if name.startswith(DRAWING) else operator(*args, **kwargs)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """A block that draws on the host."""
        self.generator.manual_seed((self.seed * 1_000_003 + self.calls) % 2**63)
        self.calls += 1
        with self, PlainDropout():
            yield

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, drawing on the host."""

        def called(*args: Any, **kwargs: Any) -> Any:
            with self.drawing():
                return function(*args, **kwargs)

        return called

    # ---------------------------------------------------------------- operators

    def _uniform(self, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1) in the shape of a tensor, on the host."""
        return torch.rand(like.shape, generator=self.generator)

    def _native_dropout(self, input: Tensor, p: float, train: bool | None = True) -> tuple[Tensor, Tensor]:
        kept = (self._uniform(input) < 1 - p if train else torch.ones(input.shape, dtype=torch.bool)).to(input.device)
        return input * kept.to(input.dtype) / (1 - p if train and p < 1 else 1), kept

    def _bernoulli_(self, input: Tensor, p: Any = 0.5, generator: None = None) -> Tensor:  # noqa: ARG002
        share = p.cpu() if isinstance(p, Tensor) else p
        return input.copy_((self._uniform(input) < share).to(input.dtype))

    def _bernoulli(self, input: Tensor, p: Any = None, generator: None = None) -> Tensor:  # noqa: ARG002
        return self._bernoulli_(torch.empty_like(input), input if p is None else p)

    def _exponential_(self, input: Tensor, lambd: float = 1.0, generator: None = None) -> Tensor:  # noqa: ARG002
        return input.copy_((-torch.log1p(-self._uniform(input)) / lambd).to(input.dtype))

    def _on_host(self, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Any other operator that draws: called with host's tensors, its result brought to where its arguments lie."""
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        device = tensors[0].device if tensors else torch.device(kwargs.get("device") or "cpu")
        given = {key: _on_cpu(value) for key, value in kwargs.items() if key != "pin_memory"}
        with _default_generator(self.generator):
            drawn = operator(*map(_on_cpu, args), **given)
        if operator._schema.is_mutable:
            return tensors[0].copy_(drawn)
        return drawn.to(device)


class PlainDropout(TorchFunctionMode):
    """While this mode is on, attention that drops out is computed without fused kernels, which draw by themselves."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        drops = function is functional.scaled_dot_product_attention and (
            args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
        )
        with plain_attention() if drops else nullcontext():
            return function(*args, **kwargs)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.cpu() if isinstance(value, Tensor) else value


@contextmanager
def _default_generator(generator: torch.Generator) -> Iterator[None]:
    """A block in which the host's generator goes on from another one's state, and that one goes on after it."""
    before = torch.get_rng_state()
    torch.set_rng_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(torch.get_rng_state())
        torch.set_rng_state(before)
