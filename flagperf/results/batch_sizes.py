"""The search of `train_batch_size=auto`: which size to try next, and its record, auto_batch.json.

On most devices memory grows with the batch in a straight line. So the line through the two largest sizes that were
measured says where the limit is met, and few sizes have to be tried. Where it cannot say, sizes are doubled until one
does not fit, and the interval is halved. The second size is half of the first where twice as much may be over the
limit: a CPU's memory is that of its whole host. Where a case says how many samples a step has, only sizes are tried of
which that can be made.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from flagperf.contract.build import build
from flagperf.contract.records import BatchSearch, TriedSize
from flagperf.results.result import read_json, write_json

FILE = "auto_batch.json"  # in the folder of a job
FINE = 32  # the search ends where a size that fits is within 1/32 of one that does not
NONE = 2**31  # more than any size
ANY = range(1, NONE)
FARTHEST = 4  # times the largest size that fits: so far is the line trusted


def next_size(
    start: int, tried: Sequence[TriedSize], limit: float | None, sizes: Sequence[int] | None = None
) -> int | None:
    """The size to try next; None where the search is over.

    Args:
        start: the first one, the case's own.
        limit: GiB that a rank may hold; None: not known.
        sizes: that may be tried, the smallest first; None: any.
    """
    if not tried:
        return start
    allowed = ANY if sizes is None else sizes
    low = largest(tried) or 0
    high = min((one.size for one in tried if not one.fits and one.size > low), default=None)
    step = max(1, low // FINE, _above(allowed, low) - low)
    if _above(allowed, low) == NONE or (high is not None and high - low <= step):
        return None
    predicted = _predicted(tried, limit)
    if predicted is not None and low and predicted < low + step:
        return None
    if high is None and low > 1 and len(tried) == 1 and _twice_is_over(tried[0], limit) and low // 2 >= allowed[0]:
        return _at_most(allowed, low // 2)
    return max(_at_most(allowed, _wanted(low, high, predicted)), _above(allowed, low))


def _wanted(low: int, high: int | None, predicted: int | None) -> int:
    """The next size between one that fits and one that does not, whether it may be tried or not."""
    if high is None:
        return 2 * low if predicted is None else min(predicted, FARTHEST * low)
    return predicted if predicted is not None and low < predicted < high else (low + high) // 2


def _above(sizes: Sequence[int], size: int) -> int:
    """The next one that is larger."""
    place = bisect_right(sizes, size)
    return sizes[place] if place < len(sizes) else NONE


def _at_most(sizes: Sequence[int], size: int) -> int:
    """The largest one up to a size."""
    return sizes[max(1, bisect_right(sizes, size)) - 1]


def is_over(search: BatchSearch) -> bool:
    """Whether no further size was to be tried, when the search ended."""
    return bool(search.tried) and next_size(0, search.tried, search.limit, search.sizes) is None


def largest(tried: Sequence[TriedSize]) -> int | None:
    """The largest size that fits."""
    return max((one.size for one in tried if one.fits), default=None)


def _twice_is_over(one: TriedSize, limit: float | None) -> bool:
    return limit is not None and one.peak_memory is not None and 2 * one.peak_memory > limit


def _predicted(tried: Sequence[TriedSize], limit: float | None) -> int | None:
    """The largest size below the limit, by a straight line; None where there is no such line."""
    measured = sorted((one.size, one.peak_memory) for one in tried if one.peak_memory is not None)
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
    """Read it back; None where the job made no search. Raises ConfigError where it is damaged."""
    path = folder / FILE
    return build(BatchSearch, read_json(path), path.name, lambda _: str(path)) if path.exists() else None
