"""Where a case's data lies, and whether a folder looks as the case expects."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.contract.sample_data import sample_name
from flagperf.errors import ConfigError

DATA_DIR = "<data_dir>"  # stands for the folder in a dry run without data_dir


def sample_folder(sample_dir: str, case: str, sample: Mapping[str, Any]) -> Path:
    """Folder of a case's sample data on this machine."""
    return Path(sample_dir).expanduser().absolute() / sample_name(case, sample)


def moved(value: Any, old: str, new: str) -> Any:
    """The configuration with every path below the data_dir `old` moved below `new`."""
    if isinstance(value, Mapping):
        return {key: moved(item, old, new) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [moved(item, old, new) for item in value]
    if isinstance(value, str) and (value == old or value.startswith(f"{old}/")):
        return new + value[len(old) :]
    return value


def check_layout(data: Mapping[str, Any], folder: Path) -> None:
    """Refuse a data_dir that is not there, or has fewer entries than the case's `data.require` asks for.

    Args:
        data: the case's `data` mapping: name, tree (shown in the message), require (glob → least number of entries).
        folder: data_dir on this machine.
    """
    allowed = expected(data)
    if not folder.is_dir():
        problem = "data_dir is not a folder" if folder.exists() else "data_dir does not exist"
        raise ConfigError(problem, key="data_dir", given=folder, allowed=allowed)
    for pattern, least in data.get("require", {}).items():
        try:
            found = sum(1 for _ in islice(folder.glob(pattern), least))
        except PermissionError as error:
            raise ConfigError(
                "data_dir cannot be read", key="data_dir", given=error.filename, advice=str(error)
            ) from None
        if found < least:
            problem = f"data_dir has {found} of at least {least} entries that match {pattern}"
            raise ConfigError(problem, key="data_dir", given=folder, allowed=allowed)


def has_layout(data: Mapping[str, Any], folder: Path) -> bool:
    """Whether `check_layout` accepts the folder."""
    try:
        check_layout(data, folder)
    except ConfigError:
        return False
    return True


class Entries(NamedTuple):
    """How many entries of a data_dir match one of the globs that the case requires."""

    pattern: str
    least: int
    found: int


def count_entries(data: Mapping[str, Any], folder: Path) -> list[Entries]:
    """Count the entries of a data_dir that the case requires. Millions of them take some seconds."""
    required = data.get("require", {}).items()
    return [Entries(pattern, least, sum(1 for _ in folder.glob(pattern))) for pattern, least in required]


def expected(data: Mapping[str, Any]) -> str | None:
    """What a case's data is, and its tree; None when the case does not say."""
    tree = data.get("tree", "").splitlines()
    if not tree:
        return None
    return "\n".join([f"{data.get('name', 'the data of the case')}, laid out as", *(f"    {line}" for line in tree)])
