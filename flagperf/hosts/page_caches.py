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
    why = completed.stderr.strip().splitlines()[-1:] or [f"exit code {completed.exit_status}"]
    log.warning(
        "%s: the page caches were not cleared: %s; clear_caches needs root or sudo there", transport.host, why[0]
    )
    return f"not cleared: {why[0]}"
