"""Measures the difference between a host's clock and the launcher's."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

READINGS = 3  # most readings of the clock; the quickest answer counts
QUICK = 0.05  # seconds; an answer within this time ends the readings. Its error is at most half of the time


async def clock_offset(read: Callable[[], Awaitable[float]]) -> float:
    """Seconds by which a host's clock is ahead of the launcher's.

    The host's time is assumed to belong to the middle of the round trip (Cristian's algorithm, 1989). The error is at
    most half of the quickest round trip.

    Args:
        read: asks the host for its time, in seconds since the epoch.
    """
    readings = []
    for _ in range(READINGS):
        sent, began = time.time(), time.monotonic()
        host_time = await read()
        trip = time.monotonic() - began
        readings.append((trip, host_time - sent - trip / 2))
        if trip < QUICK:
            break
    return min(readings)[1]
