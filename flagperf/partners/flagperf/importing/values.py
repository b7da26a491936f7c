"""What FlagPerf's files say. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file."""

    file: Path
    line: int  # 0: the file as a whole

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    @property
    def short(self) -> str:
        """With the file's name alone."""
        return f"{self.file.name}:{self.line}"


@dataclass(frozen=True)
class Value:
    """A name and the value that its file states."""

    name: str
    value: Any
    place: Place


@dataclass(frozen=True)
class Unread:
    """What a file says that is no stated value: only running it would tell."""

    text: str
    why: str
    place: Place
    sets: tuple[str, ...] = ()  # names that it may set

    @property
    def line(self) -> str:
        return f"{self.place}: {self.text}    ({self.why})"


@dataclass(frozen=True)
class Said:
    """What a file says, with those that it takes in."""

    values: Mapping[str, Value] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    files: tuple[Path, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        return self.values[name].value if name in self.values else default


@dataclass(frozen=True)
class CaseFolder:
    """benchmarks/<model>/<framework>/config: the case as FlagPerf has it."""

    base: Said
    mutable: tuple[str, ...]  # names that a vendor may set


@dataclass(frozen=True)
class VendorConfig:
    """<vendor>/<model>-<framework>/config/config_<hardware>x<nnodes>x<nproc>.py, and what lies beside it."""

    path: Path
    vendor: str
    model: str
    framework: str
    hardware: str
    nnodes: int
    nproc: int
    said: Said
    environment: Said
    requirements: tuple[Value, ...]  # lines of requirements.txt
    code: tuple[str, ...]  # folders of code beside config: extern, csrc
    has_case: bool  # FlagPerf's own case was there, too: what neither says is said nowhere in FlagPerf

    @property
    def folder(self) -> str:
        """Its folder, as FlagPerf names it: nvidia/bert-pytorch."""
        return f"{self.vendor}/{self.model}-{self.framework}"


@dataclass(frozen=True)
class Checkout:
    """All that was found."""

    test_conf: Said | None
    cluster_conf: Said | None
    cases: Mapping[tuple[str, str], CaseFolder]  # (model, framework)
    configs: tuple[VendorConfig, ...]
    skipped: tuple[Unread, ...]  # files and folders that are none of these
