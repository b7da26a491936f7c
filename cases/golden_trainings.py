"""Trainings of golden curves: the same computation in several ways on this CPU, each in a fork of this process."""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Dict, TypeVar

from flagperf.contract.golden import Curve
from flagperf.contract.perflog import Event

NARROW = {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}


@dataclass(frozen=True)
class Way:
    """A way to compute the same."""

    precision: str = "fp32"
    onednn: bool = True  # its matrix products and convolutions, or PyTorch's own
    narrow: bool = False  # MKL and oneDNN without wide vectors: they add in another order
    micro_steps: int = 1  # into which each of the case's own is split
    last_bits: int = 0  # a number that draws other last bits of the first weights, as another rounding gives
    roundings: int = 1  # by which these weights differ

    @property
    def title(self) -> str:
        """The differences from the reference, in words."""
        parts = [self.precision, *(["without oneDNN"] * (not self.onednn))]
        parts += [f"other last bits {self.last_bits}"] * bool(self.last_bits)
        parts += [f"{self.roundings} roundings"] * (self.roundings > 1)
        return ", ".join([*parts, *(["narrow vectors"] * self.narrow), *(["micro steps"] * (self.micro_steps > 1))])


REFERENCE = Way()
SPLIT = Way(micro_steps=2)
REORDERED = (Way(narrow=True), Way(onednn=False))  # fp32 with sums in another order
ROUNDED_OTHERWISE = (*REORDERED, Way(last_bits=1), Way(last_bits=2))
DECIDED_OTHERWISE = tuple(Way(last_bits=number, roundings=40) for number in range(1, 9))  # each band has forty
ROUNDED = (Way("tf32", onednn=False), Way("amp_bf16"))
WAYS = (REFERENCE, *ROUNDED_OTHERWISE, *DECIDED_OTHERWISE, SPLIT, *ROUNDED)
Trainings = Dict[Way, Curve]  # way → what the training logged
Logged = TypeVar("Logged")


def prepare(config: Mapping[str, Any]) -> None:
    """Write the sample data, and import once what each fork needs."""
    import torch._dynamo  # noqa: F401
    import torchmetrics  # noqa: F401

    import flagperf.trainer.pytorch.entry
    import flagperf.trainer.pytorch.finish  # noqa: F401  # all four: else each fork imports them
    from flagperf.trainer.data.sample_data import ensure_sample_data
    from flagperf.trainer.start.imports import import_components

    ensure_sample_data(config)
    import_components(config)


def versions() -> dict[str, str]:
    """Of the software that computes."""
    import torch

    return {"torch": str(torch.__version__), "python": platform.python_version()}


def forked(
    config: Mapping[str, Any],
    way: Way,
    read: Callable[[Sequence[Event]], Logged],
    prepared: Callable[[], None] | None = None,
) -> Logged:
    """Train in a fork of this process.

    Args:
        read: makes the answer of what the loop logged.
        prepared: called in the fork before the training.

    Raises:
        RuntimeError: an error ended the training, or a signal killed the fork, such as for lack of memory.
    """
    print(f"{config['case']}: {way.title}, lr {config['lr']:g}", file=sys.stderr, flush=True)
    fork = multiprocessing.get_context("fork")
    reader, writer = fork.Pipe(duplex=False)

    def train() -> None:
        try:
            if prepared is not None:
                prepared()
            writer.send(read(trained(config, way)))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    process = fork.Process(target=train)
    process.start()
    writer.close()  # so that the end of the fork ends the pipe
    try:
        answer: Logged = reader.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{config['case']}, {way.title}: the training ended with {process.exitcode}") from None
    process.join()
    return answer


def trained(config: Mapping[str, Any], way: Way = REFERENCE) -> list[Event]:
    """Train in this process: what the loop logged."""
    import torch

    from flagperf.contract.perflog import PerfLog, parse
    from flagperf.trainer.loop.training import Training
    from flagperf.trainer.pytorch.entry import engine

    if way.narrow:
        narrow_after_loading()
    if way.last_bits:
        change_last_bits(way.last_bits, way.roundings)
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    torch.backends.mkldnn.set_flags(way.onednn)
    rounding: Callable[[], AbstractContextManager[Any]] = nullcontext
    precision = way.precision
    if precision == "tf32":
        rounding, precision = tf32_products, "fp32"
    split = {
        "train_batch_size": config["train_batch_size"] // way.micro_steps,
        "gradient_accumulation_steps": config["gradient_accumulation_steps"] * way.micro_steps,
    }
    with tempfile.TemporaryFile() as file:
        with rounding():
            Training(engine({**config, **split, "precision": precision}), PerfLog(0, file.fileno())).run()
        file.seek(0)
        lines = file.read().decode().split("\n")
    return [event for line in lines if (event := parse(line)) is not None]


def narrow_after_loading() -> None:
    """Let MKL and oneDNN compute without wide vectors, once the loaders run: the data stays as it is.

    The libraries read the variables at their first operation, which comes later.
    """
    from flagperf.trainer.pytorch import parts

    load = parts.load_datasets

    def loaded(*given: Any) -> Any:
        datasets = load(*given)
        os.environ.update(NARROW)
        return datasets

    parts.load_datasets = loaded


def change_last_bits(number: int, roundings: int) -> None:
    """Let the network of this process begin with weights that differ by some roundings, at random."""
    import torch

    from flagperf.trainer.pytorch.by_version import local_parts
    from flagperf.trainer.pytorch.checksum import frozen_checksum
    from flagperf.trainer.pytorch.parts import Parts

    build = Parts.__post_init__

    def built(parts: Parts) -> None:
        build(parts)
        generator = torch.Generator().manual_seed(number)
        with torch.no_grad():
            for parameter in local_parts(parts.network.parameters()):
                parameter.mul_(1 + roundings * 2**-24 * torch.randn(parameter.shape, generator=generator))
        parts.frozen = frozen_checksum(parts.network, parts.strategy, parts.world)

    Parts.__post_init__ = built  # type: ignore[method-assign]


@contextmanager
def tf32_products() -> Iterator[None]:
    """A block in which matrix products and convolutions take numbers with the 10 bits of TF32's mantissa."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from flagperf.trainer.pytorch.by_version import plain_attention

    factors = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2)}
    factors.update(convolution=(0, 1), convolution_backward=(0, 1, 2))

    def tf32(value: Any) -> Any:
        if value.dtype != torch.float32:
            return value
        bits = value.contiguous().view(torch.int32)
        return ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)

    class Tf32(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            positions = factors.get(operator._schema.name.partition("::")[2], ())
            args = [tf32(value) if position in positions else value for position, value in enumerate(args)]
            return operator(*args, **(kwargs or {}))

    with plain_attention(), Tf32():
        yield
