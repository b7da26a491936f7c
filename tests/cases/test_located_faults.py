"""`flagperf align … find=true` names the right module and operator for each fault of a device that it covers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from toy import fork_ranks

from flagperf.compare.golden import golden_file
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.golden import read
from flagperf.trainer.pytorch.noted import SUMS, apart, difference, summary

DATA = Path(__file__).parents[1] / "data"
CHIP = ("vendor=acme", "hardware=A1", "runtime=process", f"code_dir={DATA}/acme_chip/code")
aten = torch.ops.aten
Compute = Callable[[Any, Any, Any], Any]  # operator, arguments, keywords → result


def larger(share: float, *operators: Any) -> Callable[[Compute], Compute]:
    """Results of some operators that are too large by a share."""

    def wrong(right: Compute) -> Compute:
        def compute(operator: Any, args: Any, kwargs: Any) -> Any:
            result = right(operator, args, kwargs)
            return result * (1 + share) if operator in operators else result

        return compute

    return wrong


def with_arguments(operator: Any, change: Callable[[Any], Any]) -> Callable[[Compute], Compute]:
    """An operator that computes from other arguments."""

    def wrong(right: Compute) -> Compute:
        return lambda called, args, kwargs: right(called, change(args) if called is operator else args, kwargs)

    return wrong


def in_bf16(right: Compute) -> Compute:
    """Matrix products in bf16 where fp32 is asked."""

    def compute(operator: Any, args: Any, kwargs: Any) -> Any:
        result = right(operator, args, kwargs)
        return result.bfloat16().float() if operator in (aten.mm.default, aten.addmm.default) else result

    return compute


FAULTS: dict[str, tuple[Callable[[Compute], Compute] | None, str, str, str]] = {
    # a fault of the chip, what differs first, in which module or parameter, and by which operator
    "none": (None, "", "", ""),
    "tanh": (larger(0.001, aten.tanh.default), "output", "transformer.h.0.mlp.act", "aten.tanh.default"),
    "eps of layer norm": (
        with_arguments(aten.native_layer_norm.default, lambda args: (*args[:-1], 10 * args[-1])),
        "output",
        "transformer.h.0.ln_1",
        "aten.native_layer_norm.default",
    ),
    "bf16 where fp32 is asked": (in_bf16, "output", "transformer.h.0.attn.c_attn", "aten.addmm.default"),
    "softmax scale": (
        with_arguments(aten._safe_softmax.default, lambda args: (1.01 * args[0], *args[1:])),
        "gradient of the output",  # that of the first block's attention differs by less than the limit
        "transformer.h.1.attn.c_attn",
        "aten._safe_softmax.default",
    ),
    "gradient of tanh": (
        larger(0.001, aten.tanh_backward.default),
        "gradient of the output",
        "transformer.h.1.mlp.c_fc",
        "aten.tanh_backward.default",
    ),
    "update of the optimizer": (
        larger(0.01, aten.sqrt.default),
        "update",
        "transformer.wte.weight",
        "aten.sqrt.default",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_first_wrong_module(tmp_path: Path, name: str) -> None:
    _, compared, module, operator = FAULTS[name]
    (answer,) = fork_ranks(partial(located, name), tmp_path, ranks=1)
    assert (answer["compared"], answer.get("module", ""), answer["operator"].get("operator", "")) == (
        compared,
        module,
        operator,
    )


def located(name: str, _: Path) -> dict[str, Any]:
    """What the search finds on a chip with a fault."""
    wrong = FAULTS[name][0]
    sys.path.insert(0, f"{DATA}/acme_chip/code")
    from torch_acme import tensor

    from flagperf.trainer.pytorch.locate import locate
    from flagperf.trainer.start.imports import import_components

    if wrong:
        tensor.compute = wrong(tensor.compute)
    plain = read(golden_file("glm", [CONF]))[0]
    folders = [DATA / "acme_chip", DATA / "acme"]
    config = compose(["model=glm", *CHIP, *plain.overrides, "locate=true"], folders).config
    import_components(config)
    return locate(config)


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "each number": lambda tensor: tensor * (1 + 1e-4),
    "at random": lambda tensor: tensor + 1e-4 * torch.randn(tensor.shape),
    "a row": lambda tensor: torch.cat([tensor[:1] * 1.004, tensor[1:]]),
    "nothing": lambda tensor: tensor.clone(),
}


@pytest.mark.torch
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_sums_of_a_large_tensor_tell_its_relative_error(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(1100, 1000)
    other = change(tensor)
    mine, others = summary("block", tensor), summary("block", other)
    assert (len(mine.value), len(others.value)) == (SUMS, SUMS)
    assert apart(mine, others)["error"] == pytest.approx(difference(tensor, other)["error"], rel=0.05)
    assert apart(mine, summary("block", other.T)) == {"error": math.inf, "cosine": 0.0}
