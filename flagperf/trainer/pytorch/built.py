"""BUILT: what this rank really built, after every import and plug-in. The verdict holds it against the case."""

from __future__ import annotations

from typing import Any

from flagperf.trainer.pytorch.device import device_name
from flagperf.trainer.pytorch.parts import Parts


def built(parts: Parts) -> dict[str, Any]:
    """The value of BUILT, of this rank."""
    return {"device_name": device_name(parts.device)}
