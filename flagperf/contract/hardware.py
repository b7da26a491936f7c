"""The hardware that a configuration names, and the device that a rank has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

GIB = 2**30


def is_device_of(hardware: Mapping[str, Any], name: str) -> bool:
    """Whether a device of this name may be the hardware's; always where its file states no `device_names`."""
    patterns = hardware.get("device_names") or ()
    return not patterns or any(re.fullmatch(pattern, name) for pattern in patterns)
