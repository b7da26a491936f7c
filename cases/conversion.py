"""Progress of the converters of original data."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

INTERVAL = 5.0  # seconds between two reports of progress

T = TypeVar("T")


def reported(items: Iterable[T], log: logging.Logger, text: str, *arguments: object) -> Iterator[T]:
    """The items, with a log line every INTERVAL: `text`, whose last %d is the number of items so far."""
    last = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        if time.monotonic() - last > INTERVAL:
            log.info(text, *arguments, done)
            last = time.monotonic()
