"""Whether a device is one of the hardware's, by the name that it gives itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def is_device_of(hardware: Mapping[str, Any], name: str) -> bool:
    """Whether a device of this name may be the hardware's; always where its file states no `device_names`."""
    patterns = hardware.get("device_names") or ()
    return not patterns or any(re.fullmatch(pattern, name) for pattern in patterns)
