"""Times and sizes that bound a job: deadlines, intervals of monitors, the search for a batch size, ends of training."""

from __future__ import annotations

from dataclasses import dataclass

from flagperf.contract.fields import ByteSize, Count, Positive, Share


@dataclass(frozen=True)
class Deadlines:
    """Seconds after which a phase counts as failed."""

    connect: Positive
    start: Positive  # command → SUBMIT_INFO of every rank
    first_step: Positive  # SUBMIT_INFO, or the last sign of the first evaluation → first STEP_END of rank 0
    stall: Positive  # between two PerfLog lines of rank 0
    stop: Positive  # SIGTERM → SIGKILL


@dataclass(frozen=True)
class MonitorIntervals:
    """Seconds between two samples."""

    interval: Positive  # of processor, memory and accelerators
    power_interval: Positive  # of the node's power


@dataclass(frozen=True)
class AutoBatch:
    """Settings of the search for the largest batch size (flagperf/run/auto_batch.py)."""

    memory: Share  # of a device's memory that a rank may hold; on a CPU, of its part of the host's
    limit: ByteSize | None  # most that a rank may hold; None: that share
    steps: Count  # optimizer steps at each size


@dataclass(frozen=True)
class Limits:
    """The limits of a training. The first one reached ends the training; None: no such limit."""

    max_steps: int | None = None  # optimizer steps
    max_epochs: int | None = None  # passes over the training data
    max_samples_termination: int | None = None  # samples of the whole job
    max_time: float | None = None  # seconds after TRAIN_START
