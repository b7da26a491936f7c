"""Writes the golden curves of cases: real trainings in fp32 on this CPU, and bands from other ways to compute the same.

python -m cases.golden CASE …                    writes conf/golden/<case>.yaml; without CASE, of all cases of PyTorch
python -m cases.golden --config-dir DIR CASE …   likewise of your own cases, below DIR

Run the program again when a case changes. It takes about two minutes a case on a core. docs/numerics.md explains it.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Tuple

import yaml

import flagperf
from cases.statements import write_files
from flagperf.compare.golden import ALWAYS, Curve, clipping, identity_of
from flagperf.config.compose import compose
from flagperf.contract.leaves import leaves

FACTOR = 10.0  # a band is so many times the largest deviation of the trainings
ROUNDING = 5e-6  # share of a value by which a band is wider: about forty roundings in fp32
METRIC = 0.02  # share of a metric that a band has at least: a metric counts samples, a rounding may turn one over
SAME = 1e-5  # share by which first loss and gradient norm of another split may differ and still be the same mathematics
HEADER = """\
# python -m cases.golden {case}
#
# What the tiny size of {case} computes in its first steps, and the bands in which correct implementations stay.
# Written by this command from trainings on a CPU; docs/numerics.md explains it.
"""
NARROW = {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}


@dataclass(frozen=True)
class Way:
    """A way to compute the same."""

    precision: str = "fp32"
    onednn: bool = True  # its matrix products and convolutions, or PyTorch's own
    narrow: bool = False  # MKL and oneDNN without wide vectors: they add in another order
    micro_steps: int = 1  # into which each of the case's own is split

    @property
    def title(self) -> str:
        """What sets it apart, in words."""
        parts = [self.precision, *(["without oneDNN"] * (not self.onednn))]
        return ", ".join([*parts, *(["narrow vectors"] * self.narrow), *(["micro steps"] * (self.micro_steps > 1))])


REFERENCE = Way()
WAYS = (
    REFERENCE,
    Way(micro_steps=2),
    Way(narrow=True),
    Way(onednn=False),
    Way("tf32", onednn=False),
    Way("amp_bf16"),
)
Found = Dict[Tuple[str, Way], Any]  # curve and way → Curve; or why there is none


def text(case: str, folders: Sequence[Path] = ()) -> str:
    """The content of a case's file."""
    trainings = {name: config_of(case, sets, folders) for name, sets in curves_of(case, folders).items()}
    found = train_all({name: config for name, (_, config) in trainings.items()})
    for name in trainings:
        if not isinstance(found[name, REFERENCE], Curve):
            raise RuntimeError(f"{case}, {name}: the reference failed: {found[name, REFERENCE]}")
    content = {
        "case": case,
        "revision": trainings["plain"][1]["revision"],
        "software": {"flagperf": flagperf.__version__, **found.pop(("versions", REFERENCE))},
        "factor": FACTOR,
        "curves": {
            name: {
                "overrides": list(overrides),
                "identity": identity_of(config),
                **as_lists(found[name, REFERENCE], 9),
                "bands": bands(name, found),
                "runs": dict(runs(name, found)),
            }
            for name, (overrides, config) in trainings.items()
        },
    }
    return HEADER.format(case=case) + yaml.dump(content, Dumper=Dumper, sort_keys=False, width=84)


def curves_of(case: str, folders: Sequence[Path]) -> dict[str, list[str]]:
    """Name of a curve → what it sets: the tiny size as it is, and with the dropout of the full size."""
    full, tiny = (
        leaves(compose([f"model={case}", f"size={size}", "dry_run=true"], list(folders)).config["network"])
        for size in ("full", "tiny")
    )
    sets = [f"network.{key}={value}" for key, value in full.items() if drops(key) and value and tiny.get(key) == 0]
    return {"plain": [], **({"dropout": sets} if sets else {})}


def drops(key: str) -> bool:
    """Whether a key of a network says how much is dropped out."""
    name = key.rpartition(".")[2]
    return "drop" in name or "stochastic_depth" in name


def config_of(case: str, sets: Sequence[str], folders: Sequence[Path]) -> tuple[list[str], Mapping[str, Any]]:
    """The overrides of a training, and its configuration."""
    given = [f"model={case}", *ALWAYS, *sets]
    own = clipping(compose(given, list(folders)).config)
    return [*ALWAYS, *sets, *own], compose([*given, *own], list(folders)).config


# ---------------------------------------------------------------- bands


def bands(name: str, found: Found) -> dict[str, Any]:
    """Precision → how far a correct training may lie from the curve, from the trainings of this precision and fp32."""
    made: dict[str, Any] = {}
    for precision in dict.fromkeys(way.precision for way in WAYS):
        ways = [way for way in WAYS if way.precision in ("fp32", precision)]
        counting = [way for way in ways if same_mathematics(name, found, way)]
        others = [found[name, way] for way in counting]
        if any(way.precision == precision for way in counting):
            made[precision] = as_lists(band(found[name, REFERENCE], others), 3)
    return made


def band(curve: Curve, others: Sequence[Curve]) -> Curve:
    """The growing envelope of the deviations of some trainings, times FACTOR."""

    def widths(name: str) -> Iterator[float]:
        largest = 0.0
        for step, value in enumerate(getattr(curve, name)):
            largest = max(largest, *(abs(getattr(other, name)[step] - value) for other in others))
            yield FACTOR * largest + ROUNDING * abs(value)

    metrics = {
        key: max(FACTOR * max(abs(other.metrics[key] - value) for other in others), METRIC * abs(value))
        for key, value in curve.metrics.items()
    }
    return Curve(list(widths("loss")), list(widths("grad_norm")), metrics)


def same_mathematics(name: str, found: Found, way: Way) -> bool:
    """Whether a training counts: all do but those whose split changes what is computed, such as under batch norm."""
    other, curve = found.get((name, way)), found[name, REFERENCE]
    if not isinstance(other, Curve):
        return False
    firsts = [(getattr(one, key)[0] for one in (other, curve)) for key in ("loss", "grad_norm")]
    return way.micro_steps == 1 or all(abs(a - b) <= SAME * abs(b) for a, b in firsts)


def runs(name: str, found: Found) -> Iterator[tuple[str, Any]]:
    """Each training with its largest relative deviation of loss and gradient norm; or why it does not count."""
    curve = found[name, REFERENCE]
    for way in WAYS[1:]:
        other = found.get((name, way))
        if same_mathematics(name, found, way):
            pairs = [(getattr(curve, key), getattr(other, key)) for key in ("loss", "grad_norm")]
            off = [max(abs(b - a) / max(abs(a), 1e-12) for a, b in zip(*pair)) for pair in pairs]
            yield way.title, {"loss": rounded(off[0], 3), "grad_norm": rounded(off[1], 3)}
        elif other is not None:
            yield way.title, "this split computes something else" if isinstance(other, Curve) else other


def as_lists(curve: Curve, digits: int) -> dict[str, Any]:
    """A curve as plain data, rounded to so many digits."""
    lists = {name: [rounded(value, digits) for value in getattr(curve, name)] for name in ("loss", "grad_norm")}
    return {**lists, "metrics": {key: rounded(value, digits) for key, value in curve.metrics.items()}}


def rounded(value: float, digits: int) -> float:
    """A number with so many digits."""
    return float(f"{value:.{digits}g}")


class Dumper(yaml.SafeDumper):
    """Writes lists of numbers in lines rather than below each other."""

    def represent_sequence(self, tag: str, sequence: Iterable[Any], flow_style: bool | None = None) -> Any:
        """A list, in lines unless told otherwise."""
        return super().represent_sequence(tag, sequence, flow_style=flow_style is not False)


# ---------------------------------------------------------------- trainings


def train_all(configs: Mapping[str, Any]) -> Found:
    """Train each configuration in each way, each in a fork of this process, which computes nothing itself."""
    import torch
    import torch._dynamo  # the first optimizer imports it

    import flagperf.trainer.pytorch.entry
    import flagperf.trainer.pytorch.finish  # noqa: F401  # imported here once, not in each fork
    from flagperf.trainer.data.sample_data import ensure_sample_data
    from flagperf.trainer.start.imports import import_components

    found: Found = {("versions", REFERENCE): {"torch": str(torch.__version__), "python": platform.python_version()}}
    for name, config in configs.items():
        ensure_sample_data(config)
        import_components(config)
        for way in WAYS:
            if way.micro_steps == 1 or name == "plain":
                print(f"{config['case']}, {name}: {way.title}", file=sys.stderr, flush=True)
                found[name, way] = _forked(config, way)
    return found


def _forked(config: Mapping[str, Any], way: Way) -> Any:
    """The curve of a training in a fork of this process; or the error that ended the training."""
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()

    def train() -> None:
        try:
            answers.put(trained(config, way))
        except BaseException as error:
            traceback.print_exc()
            answers.put(f"{type(error).__name__}: {error}"[:200])
        os._exit(0)

    process = fork.Process(target=train)
    process.start()
    found = answers.get()
    process.join()
    return found


def trained(config: Mapping[str, Any], way: Way) -> Curve:
    """Train in this process: what the loop logged."""
    import torch

    from flagperf.contract.perflog import PerfLog, parse
    from flagperf.trainer.loop.training import Training
    from flagperf.trainer.pytorch.entry import engine

    if way.narrow:
        narrow_after_loading()
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
    return Curve.of([event for line in lines if (event := parse(line)) is not None])


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


@contextmanager
def tf32_products() -> Iterator[None]:
    """A block in which matrix products and convolutions take numbers with the 10 bits of TF32's mantissa."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from flagperf.trainer.pytorch.by_version import plain_attention

    names = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2)}
    names.update(convolution=(0, 1), convolution_backward=(0, 1, 2))

    def tf32(value: Any) -> Any:
        if value.dtype != torch.float32:
            return value
        bits = value.contiguous().view(torch.int32)
        return ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)

    class Tf32(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            rounded_ones = names.get(operator._schema.name.partition("::")[2], ())
            args = [tf32(value) if place in rounded_ones else value for place, value in enumerate(args)]
            return operator(*args, **(kwargs or {}))

    with plain_attention(), Tf32():
        yield


if __name__ == "__main__":
    write_files(__doc__, "golden", text)
