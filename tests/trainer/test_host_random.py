"""Random numbers of a network, drawn on the host: the same for each device, and apart from the host's own generator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from flagperf.trainer.pytorch.host_random import HostRandom

ONES = torch.ones(64, 8)


def attention() -> Tensor:
    return functional.scaled_dot_product_attention(*[torch.ones(1, 2, 8, 4)] * 3, dropout_p=0.5)


DRAWS: dict[str, Callable[[], Tensor]] = {
    "dropout": lambda: functional.dropout(ONES, 0.25),
    "bernoulli": lambda: torch.empty(64).bernoulli_(0.25),
    "exponential": lambda: torch.empty(64).exponential_(),
    "normal": lambda: torch.randn(64),
    "normal of half": lambda: torch.empty(64, dtype=torch.bfloat16).normal_(),
    "permutation": lambda: torch.randperm(64),
    "chosen": lambda: torch.multinomial(ONES[0], 4),
    "attention": attention,
}


@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, draw in DRAWS.items()])
def test_each_call_has_numbers_of_its_own_by_the_seed_alone(draw: Callable[[], Tensor]) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    called = HostRandom(7).around(draw)
    first, second = called(), called()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(HostRandom(7).around(draw)(), first)
    assert not torch.equal(second, first) or first.numel() == 4  # four of eight may be the same


def test_the_operator_of_accelerators_drops_out_as_that_of_the_host() -> None:
    host = HostRandom(7).around(lambda: functional.dropout(ONES, 0.25))()
    accelerator, kept = HostRandom(7).around(lambda: torch.native_dropout(ONES, 0.25, True))()
    assert torch.allclose(host, accelerator)
    assert torch.equal(kept, host != 0)
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.05)
