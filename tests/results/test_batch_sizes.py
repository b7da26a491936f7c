"""The search for the largest batch size, on devices whose memory is a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flagperf.contract.records import BatchSearch, TriedSize
from flagperf.results import batch_sizes


def search(
    start: int,
    memory: Callable[[int], float],
    limit: float | None,
    device: float,
    sizes: Sequence[int] | None,
) -> list[TriedSize]:
    """All sizes that are tried on a device with so many GiB, which a rank may fill to the limit."""
    tried: list[TriedSize] = []
    while (size := batch_sizes.next_size(start, tried, limit, sizes)) is not None:
        held = memory(size)
        if held > device:
            tried.append(TriedSize(size, "out of memory"))
        else:
            tried.append(TriedSize(size, "over the limit" if limit is not None and held > limit else "", held, 1.0))
    return tried


POWERS = (1, 2, 4, 8, 16, 32, 64)


@pytest.mark.parametrize(
    ("start", "memory", "limit", "device", "allowed", "found", "sizes"),
    [
        pytest.param(32, lambda size: 2 + size / 8, 36, 40, None, 272, [32, 64, 256, 272], id="a straight line"),
        pytest.param(
            32, lambda size: 2 + size / 8, 11, 40, None, 72, [32, 16, 72], id="twice as much might be over it"
        ),
        pytest.param(1, lambda size: 4.0 + size, 9, 40, None, 5, [1, 2, 5], id="there is no half of one"),
        pytest.param(32, lambda size: 2 + size / 8, 5, 40, None, 24, [32, 16, 24], id="the first is over the limit"),
        pytest.param(8, float, 36, 4, None, 4, [8, 4, 6, 5], id="out of memory below the limit"),
        pytest.param(8, float, None, 21, None, 21, [8, 16, 32, 24, 20, 22, 21], id="no limit known"),
        pytest.param(4, lambda size: 2 + size**2 / 50, 36, 40, None, 41, [4, 8, 32, 48, 40, 41], id="it grows faster"),
        pytest.param(2, lambda _: 50.0, 36, 40, None, None, [2, 1], id="not even one"),
        pytest.param(
            640, lambda size: size / 100, None, 9, None, 900, [640, 1280, 960, 800, 880, 920, 900], id="tokens"
        ),
        pytest.param(4, lambda size: 2 + size / 8, 6.5, 40, POWERS, 32, [4, 8, 32], id="whole steps: a line"),
        pytest.param(1, float, 20, 9, POWERS, 8, [1, 2, 8, 16], id="whole steps: out of memory below the limit"),
        pytest.param(4, float, 5, 40, POWERS, 4, [4, 2], id="whole steps: twice as much is over it"),
        pytest.param(1, float, None, 99, POWERS, 64, [1, 2, 4, 8, 16, 32, 64], id="whole steps: all fit"),
        pytest.param(32, float, None, 3, POWERS, 2, [32, 16, 8, 4, 2], id="whole steps: the first is too large"),
        pytest.param(
            64, lambda _: 50.0, 36, 40, POWERS, None, [64, 32, 16, 8, 4, 2, 1], id="whole steps: not even one"
        ),
        pytest.param(6, float, None, 99, (6,), 6, [6], id="whole steps: a single size"),
    ],
)
def test_few_sizes_are_tried(
    start: int,
    memory: Callable[[int], float],
    limit: float | None,
    device: float,
    allowed: Sequence[int] | None,
    found: int | None,
    sizes: list[int],
) -> None:
    tried = search(start, memory, limit, device, allowed)
    assert ([attempt.size for attempt in tried], batch_sizes.largest(tried)) == (sizes, found)


def test_too_few_samples_are_no_upper_limit() -> None:
    """One sample, tried as half of two, is too few for a network; more than two may fit."""
    tried = [TriedSize(2, "", 5.0, 1.0), TriedSize(1, "ValueError")]
    assert (batch_sizes.next_size(2, tried[:1], 9), batch_sizes.next_size(2, tried, 9)) == (1, 4)


def test_the_record_is_read_back(tmp_path: Path) -> None:
    assert batch_sizes.read(tmp_path) is None
    made = BatchSearch(4, 1.5, (TriedSize(4, "", 1.25, 80.0), TriedSize(8, "out of memory")), (1, 2, 4, 8))
    batch_sizes.write(made, tmp_path)
    assert batch_sizes.read(tmp_path) == made
