"""Sample data: which folder is for it, and whether a folder holds it.

Two questions about a data_dir have their answers here, for launcher and ranks:

- Is it the folder of this training's sample data, which flagperf may fill? `is_sample_folder` tells by its name.
- Does it hold sample data, wherever it lies? `is_sample_data` looks for the marker that is written with the data. A
  rank asks before it trains, and a finished result reports its answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MARKER = ".flagperf-sample.json"  # its presence makes a folder sample data


def sample_name(case: str, sample: Mapping[str, Any]) -> str:
    """Name of the folder of a case's sample data: <case>-<digest>. It changes with the writer's arguments."""
    digest = hashlib.sha256(json.dumps(sample, sort_keys=True).encode()).hexdigest()[:12]
    return f"{case}-{digest}"


def is_sample_folder(config: Mapping[str, Any]) -> bool:
    """Whether a configuration's data_dir is the folder for its sample data.

    Only the name counts: on another host or in a container the folder above it may be another one.
    """
    folder, sample = config["data_dir"], (config.get("data") or {}).get("sample")
    if not folder or not sample:
        return False
    return Path(folder).name == sample_name(config["case"], sample)


def is_sample_data(folder: str | None) -> bool:
    """Whether the folder holds generated data."""
    return folder is not None and Path(folder, MARKER).is_file()
