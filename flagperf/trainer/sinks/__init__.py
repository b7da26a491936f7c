"""Sinks: other log formats beside PerfLog, written by rank 0 into its log folder from the same events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.components import make_writer
from flagperf.contract.perflog import Sink
from flagperf.contract.settings import SHORT_NAMES


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
    return [_opened(f"sinks[{index}]", entry, Path(folder or ".")) for index, entry in enumerate(entries)]


def close_sinks(sinks: Sequence[Sink]) -> None:
    """Wait until sinks in processes of their own have all events. Raises FlagperfError where one failed."""
    for sink in sinks:
        if hasattr(sink, "close"):
            sink.close()


def _opened(key: str, entry: str | Mapping[str, Any], folder: Path) -> Sink:
    """A shipped sink in this process, at a few microseconds a step; a user's own in a process of its own."""
    if isinstance(entry, str):
        sink: Sink = make_writer(key, {"_target_": SHORT_NAMES[entry]}, "sink", "docs/perflog.md", folder)
        return sink
    from flagperf.trainer.sinks.apart import SinkProcess

    return SinkProcess(key, entry, folder)
