"""The requirements on the log of a short run: a finite loss, a speed, an evaluation metric, and their metadata."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.dllogger_log import Log
from flagperf.partners.modelzoo.fault import Fault

SPEED = " or ".join(guide.SPEEDS)


def log_faults(file: str, log: Log, steps: int) -> Iterator[Fault]:
    """The faults of a log.

    Args:
        file: its name, for messages.
        steps: the number of steps that the run was asked for.
    """
    for line, reason in log.broken:
        yield Fault(f"{file}:{line}", reason, "a line of tcap_dllogger", "write the log with its JSONStreamBackend")
    yield from _loss(file, log, steps)
    yield from _speed(file, log)
    evaluated = [name for name, metadata in log.metadata.items() if metadata.get("STAGE") in guide.EVALUATION]
    if not evaluated:
        state = "no metric whose STAGE is VALID"
        yield Fault(file, state, "an evaluation metric, such as val.acc1", "describe it with metadata(), and log it")
    for metric in dict.fromkeys([*log.metadata, *log.metrics]):
        yield from _described(file, metric, log.metadata.get(metric))


def _loss(file: str, log: Log, steps: int) -> Iterator[Fault]:
    losses = log.of(guide.LOSS)
    if not losses:
        yield Fault(file, f"no {guide.LOSS}", f"{guide.LOSS} of each step", "log it")
        return
    bad = next((loss for loss in losses if not math.isfinite(loss.number)), None)
    if bad:
        yield Fault(
            f"{file}:{bad.line}", f"{guide.LOSS} is {bad.number}", "a finite loss", "look at data, lr and precision"
        )
    most = max(Counter(loss.rank for loss in losses).values())
    if most > steps:
        yield Fault(file, f"{most} steps", f"--step {steps} ends the training after {steps}", "obey --step")


def _speed(file: str, log: Log) -> Iterator[Fault]:
    speeds = [value for name in guide.SPEEDS for value in log.of(name)]
    if not speeds:
        yield Fault(file, f"no {guide.SPEEDS[0]}", f"{SPEED} of each step", "log the samples per second")
    bad = next((speed for speed in speeds if not 0 < speed.number < math.inf), None)
    if bad:
        yield Fault(
            f"{file}:{bad.line}", f"{bad.name} is {bad.number}", "a speed above 0", "samples / seconds of the step"
        )


def _described(file: str, metric: str, metadata: Mapping[str, Any] | None) -> Iterator[Fault]:
    """The faults of a metric's metadata."""
    if metadata is None:
        asked = f"metadata of each metric: {', '.join(guide.METADATA)}"
        yield Fault(file, f"no metadata of {metric}", asked, f'metadata("{metric}", {{…}}) before the first value')
        return
    if missing := [key for key in guide.METADATA if key not in metadata]:
        yield Fault(file, f"metadata of {metric} without {', '.join(missing)}", ", ".join(guide.METADATA), "add it")
    for key, allowed in (("GOAL", guide.GOALS), ("STAGE", guide.STAGES)):
        if key in metadata and metadata[key] not in allowed:
            yield Fault(file, f"{key} of {metric} is {metadata[key]}", f"one of: {', '.join(allowed)}", "correct it")
    if "format" in metadata and not _is_format(metadata["format"]):
        yield Fault(
            file, f"format of {metric} is {metadata['format']}", 'a format of Python, such as ":.3f"', "correct it"
        )


def _is_format(text: Any) -> bool:
    try:
        return bool(("{" + str(text) + "}").format(1.0))
    except (ValueError, IndexError, KeyError):
        return False
