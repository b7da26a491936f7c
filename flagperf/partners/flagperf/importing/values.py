"""The contents of FlagPerf's files. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, order=True)
class SourceLine:
    """A line of a file."""

    file: Path
    line: int  # 0: the file as a whole

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    @property
    def short(self) -> str:
        """File name and line, without the folder."""
        return f"{self.file.name}:{self.line}"


@dataclass(frozen=True)
class Value:
    """A name, its value, and its source line."""

    name: str
    value: Any
    source: SourceLine


@dataclass(frozen=True)
class Unread:
    """A statement of a file whose effect is only known by running it."""

    text: str
    why: str
    source: SourceLine
    sets: tuple[str, ...] = ()  # names that it may set

    @property
    def line(self) -> str:
        """The value in a line: file and line, its text, and the reason."""
        return f"{self.source}: {self.text}    ({self.why})"


@dataclass(frozen=True)
class FileContent:
    """The content of a file and of the files that it imports."""

    values: Mapping[str, Value] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    files: tuple[Path, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or the default."""
        return self.values[name].value if name in self.values else default


@dataclass(frozen=True)
class CaseFolder:
    """benchmarks/<model>/<framework>/config: FlagPerf's case."""

    base: FileContent
    mutable: tuple[str, ...]  # names that a vendor may set


@dataclass(frozen=True)
class VendorConfig:
    """<vendor>/<model>-<framework>/config/config_<hardware>x<nnodes>x<nproc>.py, and the files beside it."""

    path: Path
    vendor: str
    model: str
    framework: str
    hardware: str
    nnodes: int
    nproc: int
    content: FileContent
    environment: FileContent
    requirements: tuple[Value, ...]  # lines of requirements.txt
    code: tuple[str, ...]  # folders of code beside config: extern, csrc
    has_case: bool  # FlagPerf's own case was read, too: a value that neither has is nowhere in FlagPerf

    @property
    def folder(self) -> str:
        """FlagPerf's folder of the case: nvidia/bert-pytorch."""
        return f"{self.vendor}/{self.model}-{self.framework}"


@dataclass(frozen=True)
class Checkout:
    """All files that were read."""

    test_conf: FileContent | None
    cluster_conf: FileContent | None
    cases: Mapping[tuple[str, str], CaseFolder]  # (model, framework)
    configs: tuple[VendorConfig, ...]
    skipped: tuple[Unread, ...]  # other files and folders
