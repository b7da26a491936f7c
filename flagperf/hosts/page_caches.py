"""Clears the page caches of a host, so that a round reads its data from disk (`clear_caches`)."""

from __future__ import annotations

import logging

from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport

TIMEOUT = 60.0  # seconds; dirty pages are written first
CLEARED = "cleared"
CLEAR = shell(script(__file__, "clear_page_caches.sh"))

log = logging.getLogger(__name__)


async def clear_page_caches(transport: Transport) -> str:
    """Clear the page caches, as root or with sudo without a password. Returns the outcome for sys_info.log."""
    completed = await transport.run(CLEAR, timeout=TIMEOUT)
    if completed.exit_status == 0:
        return CLEARED
    reason = (completed.stderr.strip().splitlines() or [f"exit code {completed.exit_status}"])[-1]
    log.warning(
        "%s: the page caches were not cleared: %s; clear_caches needs root or sudo there", transport.host, reason
    )
    return f"not cleared: {reason}"
