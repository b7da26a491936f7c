"""The search of `train_batch_size=auto`: which size to try next, and its record, auto_batch.json.

On most devices memory grows with the batch in a straight line. The line through the two largest measured sizes shows
the largest size below the limit, so that few sizes have to be tried. Without such a line the search doubles the size
until a size does not fit, then it halves the interval. The second size is half of the first where the double may be
over the limit, because a CPU's memory is that of its whole host. A case may state the samples of a step; then the
search tries only sizes that divide this number.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from flagperf.contract.build import build
from flagperf.contract.records import BatchSearch, TriedSize
from flagperf.results.json_record import read_json, write_json

FILE = "auto_batch.json"  # in the folder of a job
RESOLUTION = 32  # the search ends where a size that fits is within 1/32 of one that does not
UNBOUNDED = 2**31  # more than any size
ANY_SIZE = range(1, UNBOUNDED)
MAX_GROWTH = 4  # the line is trusted up to so many times the largest size that fits


def next_size(
    start: int, tried: Sequence[TriedSize], limit: float | None, sizes: Sequence[int] | None = None
) -> int | None:
    """The size to try next; None where the search is over.

    Args:
        start: the size of the case, which is tried first.
        tried: the sizes that were tried, in this order.
        limit: GiB that a rank may hold; None: not known.
        sizes: the sizes that may be tried, in ascending order; None: any.
    """
    if not tried:
        return start
    allowed = ANY_SIZE if sizes is None else sizes
    low = largest(tried) or 0
    high = min((attempt.size for attempt in tried if not attempt.fits and attempt.size > low), default=None)
    step = max(1, low // RESOLUTION, _above(allowed, low) - low)
    if _above(allowed, low) == UNBOUNDED or (high is not None and high - low <= step):
        return None
    predicted = _predicted(tried, limit)
    if predicted is not None and low and predicted < low + step:
        return None
    if high is None and low > 1 and len(tried) == 1 and _twice_is_over(tried[0], limit) and low // 2 >= allowed[0]:
        return _at_most(allowed, low // 2)
    return max(_at_most(allowed, _wanted(low, high, predicted)), _above(allowed, low))


def _wanted(low: int, high: int | None, predicted: int | None) -> int:
    """The next size between a size that fits and a size that does not. It may be a size that is not allowed."""
    if high is None:
        return 2 * low if predicted is None else min(predicted, MAX_GROWTH * low)
    return predicted if predicted is not None and low < predicted < high else (low + high) // 2


def _above(sizes: Sequence[int], size: int) -> int:
    """The smallest of the sizes that is larger than `size`."""
    index = bisect_right(sizes, size)
    return sizes[index] if index < len(sizes) else UNBOUNDED


def _at_most(sizes: Sequence[int], size: int) -> int:
    """The largest of the sizes that is not larger than `size`, or the smallest of all."""
    return sizes[max(1, bisect_right(sizes, size)) - 1]


def is_over(search: BatchSearch) -> bool:
    """Whether the search came to its end; False where it broke off."""
    return bool(search.tried) and next_size(0, search.tried, search.limit, search.sizes) is None


def largest(tried: Sequence[TriedSize]) -> int | None:
    """The largest size that fits; None where no size fits."""
    return max((attempt.size for attempt in tried if attempt.fits), default=None)


def _twice_is_over(attempt: TriedSize, limit: float | None) -> bool:
    return limit is not None and attempt.peak_memory is not None and 2 * attempt.peak_memory > limit


def _predicted(tried: Sequence[TriedSize], limit: float | None) -> int | None:
    """The largest size below the limit, by a straight line; None where the measurements give no such line."""
    measured = sorted((attempt.size, attempt.peak_memory) for attempt in tried if attempt.peak_memory is not None)
    if limit is None or len(measured) < 2:
        return None
    (smaller, less), (size, memory) = measured[-2:]
    if memory <= less:
        return None
    return size + math.floor((limit - memory) * (size - smaller) / (memory - less))


def write(search: BatchSearch, folder: Path) -> Path:
    """Write auto_batch.json into the job's folder."""
    return write_json(dataclasses.asdict(search), folder / FILE)


def read(folder: Path) -> BatchSearch | None:
    """Read auto_batch.json; None where the job made no search. Raises ConfigError where the file is damaged."""
    path = folder / FILE
    return build(BatchSearch, read_json(path), path.name, lambda _: str(path)) if path.exists() else None
