"""How a run stands that was submitted and has not begun, as far as Slurm tells it on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flagperf.errors import HostError
from flagperf.hosts.slurm.awaited import NeverBegan, standing
from flagperf.run.folder import is_awaited, submitted


def stands(folder: Path) -> str:
    """What Slurm says of the run's job, as "is queued: …"; nothing where it cannot be asked.

    Raises:
        NeverBegan: it is over, or waits in vain.
        ConfigError: the folder does not say which job it is.
    """
    note = submitted(folder)
    try:
        return asyncio.run(standing(note.number))
    except NeverBegan as error:
        if not is_awaited(folder):  # it has begun since it was looked for
            return ""
        logs = [str(path) for path in (folder / note.log, folder.parent / note.log) if path.exists()]
        advice = f"look into {logs[0]}" if logs else "give the command again, with another run_name"
        raise NeverBegan(error.host, error.problem, advice=error.advice or advice) from None
    except HostError:
        return ""
