"""Errors in the code that reads a sample of a data set: they name the sample."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flagperf.contract.components import class_path
from flagperf.errors import ConfigError, FlagperfError

SHOWN = 8  # samples that a message names at most
OTHER = "look at this sample: its data differs from that of others. Samples count from 0"
OF_TORCH = "</torch_"  # begins the name of torch's shared memory in an error of the processes that load data
SHARED = "not the data: shared memory. See df /dev/shm, ulimit -f and ulimit -n of the ranks; container: shm_size"


@contextmanager
def naming(dataset: Any, index: int) -> Iterator[None]:
    """A block that reads a sample. Its errors name the sample; those for the user stay as they are."""
    try:
        yield
    except (FlagperfError, MemoryError):
        raise
    except Exception as error:
        raise unreadable(dataset, [index], error) from None


def unreadable(dataset: Any, indices: Sequence[int], error: Exception) -> ConfigError:
    """The error for a sample that cannot be read, or for samples that make no batch.

    A data set may have a method `source`: the number of a sample → its file.
    """
    source = getattr(dataset, "source", None)
    names = [f"{index} ({source(index)})" if source else str(index) for index in indices[:SHOWN]]
    more = f" and {len(indices) - SHOWN} more" if len(indices) > SHOWN else ""
    what = "sample" if len(indices) == 1 else "the batch of the samples"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return ConfigError(
        f"cannot read {what} {', '.join(names)}{more} of {class_path(dataset)}",
        where=f"{place.filename}:{place.lineno}",
        key="data_dir",
        given=f"{type(error).__name__}: {error}",
        advice=SHARED if OF_TORCH in str(error) else OTHER,
    )
