"""The typed values of a composed configuration. All frozen; no I/O."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.limits import AutoBatch, Deadlines, Limits, MonitorIntervals
from flagperf.config.schema.platform import ContainerOptions, Framework, Hardware, Image, RuntimeSettings, Vendor
from flagperf.contract.extent import Extent
from flagperf.contract.identity import Division, Identity
from flagperf.contract.mesh import Mesh
from flagperf.contract.records import Change
from flagperf.contract.target import Target
from flagperf.secret import Mask
from flagperf.user import user_path

FOLDER_SAFE = "+,=@[]{}' "  # kept in a folder's name, as letters, digits and "_.-~" are; others become %XX


@dataclass(frozen=True)
class Typed:
    """The sections of a resolved configuration with their own types, by key."""

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

    A field with the name of a key has the key's value (conf/config.yaml, conf/training.yaml). `config` is the whole
    resolved configuration as plain data without secrets: the content of config.yaml for the ranks.
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
    restarts: int
    clear_caches: bool
    require_target: bool
    oversubscribe: bool
    probe: Literal["run", "alone", "fabric", "links", "operators"] | None
    predict: bool
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
    # the same job with other values of the command line
    changed: Callable[[Mapping[str, Any]], JobConfig] | None = field(default=None, repr=False, compare=False)
    sizes: tuple[int, ...] | None = None  # allowed train_batch_size: whole steps give global_batch_size; None: any
    notes: tuple[str, ...] = ()  # lines for the log: which tuning was used, which exist …
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # variables that only the ranks may see
    mask: Mask = field(default_factory=Mask, repr=False, compare=False)  # of all secret values that the ranks know

    @property
    def identity(self) -> Identity:
        """The keys that identify the job in results."""
        return Identity.of(self.config)

    @property
    def scale(self) -> str:
        """<nnodes>x<nproc>."""
        return f"{self.nnodes}x{self.nproc}"

    @property
    def code_dirs(self) -> tuple[Path, ...]:
        """Folders of own Python code for the ranks, highest precedence first."""
        code_dir = user_path(self.code_dir).absolute() if self.code_dir else None
        return tuple(folder for folder in (code_dir, self.vendor.extension.code) if folder)

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.nnodes * self.nproc

    @property
    def name(self) -> str:
        """Folder name of this case in the result: <case>-<framework>-<HW>x<nnodes>x<nproc>[,key=value…]."""
        swept = "".join(f",{key}={quote(value, safe=FOLDER_SAFE)}" for key, value in self.sweep.items())
        return f"{self.case}-{self.framework.name}-{self.hardware.name}x{self.scale}{swept}"
