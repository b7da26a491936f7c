"""The mesh of a configuration: how many ranks lie along each side, and how many samples a step of the job has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DATA = ("dp_replicate", "dp_shard", "ep")  # ranks along these sides have different samples


def sizes_of(config: Mapping[str, Any]) -> dict[str, int]:
    """Side → ranks along this side. -1 in the configuration is the rest of the ranks."""
    sizes = (config.get("parallel") or {}).get("mesh") or {"dp_replicate": -1}
    world = int(config["nnodes"]) * int(config["nproc"])
    known_product = -math.prod(sizes.values()) if -1 in sizes.values() else 1
    return {side: world // known_product if given == -1 else int(given) for side, given in sizes.items()}


def samples_of_step(config: Mapping[str, Any]) -> int:
    """Samples of an optimizer step of the whole job. Ranks along tp, cp and pp train on the same samples."""
    sizes = sizes_of(config)
    shares = math.prod(sizes.get(side, 1) for side in DATA)
    return int(config["train_batch_size"]) * int(config["gradient_accumulation_steps"]) * shares
