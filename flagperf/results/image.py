"""The container image of a round, as sys_info.log of its first node names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.sys_info import read_sys_info
from flagperf.results.rank_log import node_folders

FIELDS = {"image": "reference", "image_id": "id", "image_digest": "digest"}  # line of sys_info.log → field


def with_image(built: Mapping[str, Any], round_folder: Path) -> Mapping[str, Any]:
    """A rank's BUILT with `image` in its `software`, where the ranks ran in containers."""
    image = next((fields for _, _, folder in node_folders(round_folder) if (fields := _image(folder))), None)
    if image is None or "software" not in built:
        return built
    return {**built, "software": {**built["software"], "image": image}}


def _image(node_folder: Path) -> dict[str, str]:
    return {FIELDS[name]: value for name, value in read_sys_info(node_folder).items() if name in FIELDS}
