"""Times and sizes that bound a job: deadlines, intervals of monitors, the search for a batch size, ends of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class Fabric:
    """Settings of probe=fabric and probe=links (docs/probe.md)."""

    largest: ByteSize | None  # message; None: 1 GiB, on a CPU 16 MiB
    seconds: Positive  # for each size of a message
    slow: Share  # a link is slow below this share of the bandwidth of the others
    least_bandwidth: Positive | None  # bytes/s; a link with less is slow
    most_latency: Positive  # seconds; a link with more is slow


@dataclass(frozen=True)
class Operators:
    """Settings of probe=operators (docs/probe.md)."""

    table: str  # name of a file in conf/operators
    format: Literal["fp32", "fp16", "bf16"]  # of the tensors
    largest: ByteSize | None  # tensor; None: as in the table, on a CPU 4 MiB
    seconds: Positive  # for each operator


@dataclass(frozen=True)
class Limits:
    """The limits of a training. The first one reached ends the training; None: no such limit."""

    max_steps: int | None = None  # optimizer steps
    max_epochs: int | None = None  # passes over the training data
    max_samples_termination: int | None = None  # samples of the whole job
    max_time: float | None = None  # seconds after TRAIN_START
