"""Clears the page caches of a host, so that a round reads its data from the disk (`clear_caches`)."""

from __future__ import annotations

import logging

from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport

TIMEOUT = 60.0  # seconds; dirty pages are written first
CLEARED = "cleared"
CLEAR = shell(script(__file__, "clear_page_caches.sh"))

log = logging.getLogger(__name__)


async def clear_page_caches(transport: Transport) -> str:
    """Clear them, as root or by sudo without a password. Returns the outcome, as sys_info.log tells it."""
    done = await transport.run(CLEAR, timeout=TIMEOUT)
    if done.exit_status == 0:
        return CLEARED
    why = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.exit_status}"]
    log.warning("%s: the page caches stay: %s; clear_caches needs root or sudo there", transport.host, why[0])
    return f"not cleared: {why[0]}"
