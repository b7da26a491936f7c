"""What a composed configuration is made of. All frozen; none of it does I/O."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.platform import ContainerOptions, Framework, Hardware, Image, RuntimeSettings, Vendor
from flagperf.contract.extent import Extent
from flagperf.contract.fields import ByteSize, Count, Positive, Share
from flagperf.contract.identity import Division, Identity
from flagperf.contract.mesh import Mesh
from flagperf.contract.records import Change
from flagperf.contract.target import Target
from flagperf.secret import Mask

FOLDER_SAFE = "+,=@[]{}' "  # kept in a folder's name, as letters, digits and "_.-~" are; others become %XX


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
    """How the largest batch that fits is looked for (flagperf/run/auto_batch.py)."""

    memory: Share  # of a device's memory that a rank may hold; on a CPU, of its part of the host's
    limit: ByteSize | None  # most that a rank may hold; None: that share
    steps: Count  # optimizer steps at each size


@dataclass(frozen=True)
class Limits:
    """What ends a training, whichever comes first; None: no such limit."""

    max_steps: int | None = None  # optimizer steps
    max_epochs: int | None = None  # passes over the training data
    max_samples_termination: int | None = None  # samples of the whole job
    max_time: float | None = None  # seconds after TRAIN_START


@dataclass(frozen=True)
class Typed:
    """The parts of a resolved configuration that have types of their own, by their keys."""

    framework: Framework
    hardware: Hardware
    vendor: Vendor
    cluster: Cluster
    runtime: RuntimeSettings
    target: Target | None
    deadlines: Deadlines
    monitor: MonitorIntervals
    auto_batch: AutoBatch


@dataclass(frozen=True)
class JobConfig:
    """One configured case.

    Fields that are named as a key of the configuration hold its value (conf/config.yaml, conf/training.yaml). `config`
    is the whole resolved configuration as plain data: what config.yaml holds and the ranks read. No secret is in it.
    """

    case: str
    framework: Framework
    size: str
    vendor: Vendor
    hardware: Hardware
    cluster: Cluster
    nnodes: int
    nproc: int
    repeat: int
    division: Division
    runtime: RuntimeSettings
    target: Target | None
    data_dir: str
    data: Mapping[str, Any]  # the case's data: name, tree, require, extent, sample
    code_dir: str | None
    result_dir: str
    run_name: str | None
    resume: str | None
    clear_caches: bool
    require_target: bool
    oversubscribe: bool
    probe: Literal["run", "alone"] | None
    dry_run: bool
    log_level: str
    deadlines: Deadlines
    monitor: MonitorIntervals
    auto_batch: AutoBatch
    limits: Limits
    train_batch_size: int
    gradient_accumulation_steps: int
    throughput_unit: str
    deterministic: bool
    init_checkpoint: str | None
    config: Mapping[str, Any]
    mesh: Mesh  # how its ranks share the work …
    strategy: str | None = None  # … and by which class; None: data parallelism
    submit: bool = False
    only: str | None = None
    render: str | None = None
    extent: Extent | None = None  # that its data must have; None: the case does not say, or the size is a reduced one
    container: ContainerOptions | None = None  # None: the ranks run without one
    image: Image | None = None
    local_python: str = sys.executable  # of the ranks on this machine where runtime.python is null
    python_path: str = ""  # PYTHONPATH of the launcher, which ranks on this machine keep
    changes: tuple[Change, ...] = ()
    sweep: Mapping[str, str] = field(default_factory=dict)  # swept key → value, of this job of a multirun
    tuning: str | None = None  # the tuning file used, e.g. "nvidia/glm/A100x2x8"
    where: Callable[[str], str] = field(default=lambda _: "config.yaml", repr=False, compare=False)  # set a dotted key
    # with train_batch_size=auto, for which the case's own stands: the same job with the size that was found
    sized: Callable[[int], JobConfig] | None = field(default=None, repr=False, compare=False)
    sizes: tuple[int, ...] | None = None  # that may be found: of which whole steps give global_batch_size; None: any
    notes: tuple[str, ...] = ()  # lines for the log: which tuning was used, which exist …
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # variables that only the ranks may see
    mask: Mask = field(default_factory=Mask, repr=False, compare=False)  # of all secret values that the ranks know

    @property
    def identity(self) -> Identity:
        return Identity.of(self.config)

    @property
    def scale(self) -> str:
        return f"{self.nnodes}x{self.nproc}"

    @property
    def code_dirs(self) -> tuple[Path, ...]:
        """Folders of Python that the ranks get beside flagperf's, the one that counts first in front."""
        own = Path(self.code_dir).expanduser().absolute() if self.code_dir else None
        return tuple(folder for folder in (own, self.vendor.extension.code) if folder)

    @property
    def world_size(self) -> int:
        return self.nnodes * self.nproc

    @property
    def name(self) -> str:
        """Folder name of this case in the result: <case>-<framework>-<HW>x<nnodes>x<nproc>[,key=value…]."""
        swept = "".join(f",{key}={quote(value, safe=FOLDER_SAFE)}" for key, value in self.sweep.items())
        return f"{self.case}-{self.framework.name}-{self.hardware.name}x{self.scale}{swept}"
