"""Sample data: which folder is for it, and whether a folder holds it.

Two questions are asked of a data_dir, and each is answered here, for the launcher and the ranks alike:

- Is it the place for this training's sample data, which flagperf may fill? `is_sample` tells by the folder's name.
- Does it hold sample data, wherever it lies? `is_sample_data` looks for the marker that is written with the data. A
  rank asks before it trains, and its answer is what a finished result reports.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MARKER = ".flagperf-sample.json"  # its presence makes a folder sample data


def sample_name(case: str, sample: Mapping[str, Any]) -> str:
    """Name of the folder of a case's sample data: <case>-<digest>. It changes with what the writer is asked for."""
    digest = hashlib.sha256(json.dumps(sample, sort_keys=True).encode()).hexdigest()[:12]
    return f"{case}-{digest}"


def is_sample(config: Mapping[str, Any]) -> bool:
    """Whether a configuration's data_dir is the place for its sample data.

    Only the name counts: on another host or in a container the folder above it may be another one.
    """
    folder, sample = config["data_dir"], (config.get("data") or {}).get("sample")
    if not folder or not sample:
        return False
    return Path(folder).name == sample_name(config["case"], sample)


def is_sample_data(folder: str | None) -> bool:
    """Whether the folder holds generated data."""
    return folder is not None and Path(folder, MARKER).is_file()
