"""BUILT: what this rank really built, after every import and plug-in. The verdict holds it against the case."""

from __future__ import annotations

from typing import Any

import torch

from flagperf.trainer.identity.software import software
from flagperf.trainer.pytorch.device import device_name
from flagperf.trainer.pytorch.fingerprint import fingerprint
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.recipe import optimizer_of, schedule_of
from flagperf.trainer.start.extension import renaming


def built(parts: Parts) -> dict[str, Any]:
    """The value of BUILT, of this rank."""
    rename = renaming(parts.config)
    return {
        "device_name": device_name(parts.device),
        "data": dict(parts.datasets.counts),
        "network": fingerprint(parts.whole, rename),
        "optimizer": optimizer_of(parts.optimizer, parts.network, rename),
        "schedule": schedule_of(parts),
        "software": software(parts.config, {"torch": torch.__version__}, torch.ops.loaded_libraries),
    }
