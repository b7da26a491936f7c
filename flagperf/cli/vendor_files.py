"""The files of a vendor, its products and its tunings, read as far as possible; and gaps in files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import find, options
from flagperf.config.files.user_files import FILES, check_user_files
from flagperf.config.schema.platform import Hardware
from flagperf.contract.build import Where, read_fields
from flagperf.errors import ConfigError

NO_FIGURES: dict[str, Any] = {"title": "", "memory_gib": None, "power_w": None, "peak_flops": {}}


class Lack(NamedTuple):
    """A wrong or missing value of a file."""

    file: str
    key: str
    problem: str
    needed: bool = True  # False: runs work without it, with fewer figures


class Product(NamedTuple):
    """A hardware file: its readable values, and the errors of the others."""

    path: Path
    hardware: Hardware
    refused: list[ConfigError]


class Tuning(NamedTuple):
    """A tuning file of a vendor, and its scale."""

    path: Path
    case: str
    product: str
    nnodes: int
    nproc: int


def products_of(name: str, folders: Sequence[Path]) -> tuple[dict[str, Product], list[Lack]]:
    """The products of a vendor, and the errors of hardware files that cannot be read, of any vendor."""
    products, unread = {}, []
    for product in options("hardware", folders):
        path = find(f"hardware/{product}", folders)
        assert path is not None
        try:
            check_user_files([f"hardware/{product}"], folders)
        except ConfigError as error:
            unread.append(lack_of(error, path))
            continue
        text = read(path)
        if text.get("vendor") == name:
            fields, refused = read_fields(Hardware, {"name": product, **text}, "hardware", always(path))
            products[product] = Product(path, Hardware(**{**NO_FIGURES, **fields}), refused)
    return products, unread


def tunings_of(name: str, folders: Sequence[Path]) -> Iterator[Tuning]:
    """The tunings of a vendor in the folders of the search path, sorted by their paths."""
    paths = (
        (path, folder / "vendor" / name) for folder in folders for path in (folder / "vendor" / name).rglob("*.yaml")
    )
    for path, root in sorted(paths):
        case = path.parent.relative_to(root).as_posix()
        if at_scale := re.fullmatch(r"(.+)x(\d+)x(\d+)", path.stem):
            yield Tuning(path, case, at_scale[1], int(at_scale[2]), int(at_scale[3]))
        else:
            free = (nnodes for nnodes in itertools.count(1) if not path.with_stem(f"{path.stem}x{nnodes}x1").exists())
            yield Tuning(path, case, path.stem, next(free), 1)


def always(path: Path) -> Where:
    """A function that names this file as the source of every key."""
    return lambda _: str(path)


def lack_of(error: ConfigError, path: Path) -> Lack:
    """An error as a Lack of the file that the error names, else of `path`."""
    parts = [error.problem, f"given {error.given}" if error.given is not None else None, error.advice or error.allowed]
    file = str(path) if error.where in ("command line", FILES) else error.where
    return Lack(file, error.key or "", "; ".join(part for part in parts if part))


def read(path: Path) -> dict[str, Any]:
    """The content of a file that check_user_files has passed. Callers must not change it.

    The rules are those of a run: 5e11 is a number, which PyYAML reads as a text.
    """
    return read_yaml(path) or {}
