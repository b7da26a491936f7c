"""The files of a vendor, its products and its tunings, read as far as possible; and what a file lacks."""

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
    """One thing that is wrong or missing."""

    file: str
    key: str
    what: str
    needed: bool = True  # False: it runs without, with less to show


class Product(NamedTuple):
    """A hardware file: what can be read of it, and what cannot."""

    path: Path
    hardware: Hardware
    refused: list[ConfigError]


class Tuning(NamedTuple):
    """A tuning file of a vendor, and the scale at which it is used."""

    path: Path
    case: str
    product: str
    nnodes: int
    nproc: int


def products_of(name: str, folders: Sequence[Path]) -> tuple[dict[str, Product], list[Lack]]:
    """The products of a vendor, and what is wrong with hardware files that cannot be read, of whatever vendor."""
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
    found = (
        (path, folder / "vendor" / name) for folder in folders for path in (folder / "vendor" / name).rglob("*.yaml")
    )
    for path, root in sorted(found):
        case = path.parent.relative_to(root).as_posix()
        if at_scale := re.fullmatch(r"(.+)x(\d+)x(\d+)", path.stem):
            yield Tuning(path, case, at_scale[1], int(at_scale[2]), int(at_scale[3]))
        else:
            free = (nnodes for nnodes in itertools.count(1) if not path.with_stem(f"{path.stem}x{nnodes}x1").exists())
            yield Tuning(path, case, path.stem, next(free), 1)


def always(path: Path) -> Where:
    """Names one file as the source of every key."""
    return lambda _: str(path)


def lack_of(error: ConfigError, path: Path) -> Lack:
    """A refusal as a lack, of `path` unless the error names a file."""
    told = [error.problem, f"given {error.given}" if error.given is not None else None, error.advice or error.allowed]
    file = str(path) if error.where in ("command line", FILES) else error.where
    return Lack(file, error.key or "", "; ".join(part for part in told if part))


def read(path: Path) -> dict[str, Any]:
    """A file that check_user_files has passed, by the rules of a run: 5e11 is a number there, and text for PyYAML.

    Not to be changed."""
    return read_yaml(path) or {}
