"""Sinks: other log formats beside PerfLog, written by rank 0 into its log folder from the same events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.perflog import Sink
from flagperf.trainer.components import with_write

SHORT_NAMES = {
    "mllog": "flagperf.trainer.sinks.mllog.MLLog",
    "dllogger": "flagperf.trainer.sinks.dllogger.DLLogger",
    "tensorboard": "flagperf.trainer.sinks.tensorboard.TensorBoard",
}


def open_sinks(entries: Sequence[str | Mapping[str, Any]], rank: int, folder: str | None) -> list[Sink]:
    """The sinks that the setting `sinks` lists, on rank 0; none on others.

    Args:
        entries: short names, and mappings with `_target_` and further arguments.
        folder: where the sinks write; None: the current folder.

    Raises:
        ConfigError: an entry names no class of a sink, or the sink cannot be made.
    """
    if rank != 0:
        return []
    nodes = [{"_target_": SHORT_NAMES[entry]} if isinstance(entry, str) else entry for entry in entries]
    return [
        with_write(f"sinks[{index}]", node, "sink", "docs/perflog.md", Path(folder or "."))
        for index, node in enumerate(nodes)
    ]
