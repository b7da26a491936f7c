"""Finds the data folder of a case, and checks its layout."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from flagperf.config.files.layer import Layer
from flagperf.contract.build import Where, build
from flagperf.contract.extent import Extent, extent_of
from flagperf.contract.sample_data import sample_name
from flagperf.errors import ConfigError
from flagperf.user import cache_folder, user_path

DATA_DIR = "<data_dir>"  # stands for the folder in a dry run without data_dir


def data_dir(final: Layer) -> tuple[str, str | None]:
    """The data folder, and a note for the log; None: the user gave an existing folder."""
    user_dir = final.get("data_dir")
    if user_dir is not None:
        if not (user_dir.startswith("/") or _has_same_files(final)):
            raise ConfigError(
                "data_dir lies on other hosts", key="data_dir", given=user_dir, allowed="an absolute path"
            )
        folder = user_path(user_dir).absolute()
        return str(folder), _missing(folder, final)
    sample = final.get("data.sample")
    # A full case trains on generated data only when data_dir says so, or when it is synthetic and only shapes count.
    if sample and (final.choices["size"] != "full" or final.get("synthetic")):
        folder = sample_folder(final.get("sample_dir"), final.get("case"), sample)
        return str(folder), f"sample data: {folder}"
    if final.get("dry_run"):
        return DATA_DIR, f"no data_dir is given: {DATA_DIR} stands for it"
    tree = final.get("data.tree") or ""
    allowed = f"a folder with {final.get('data.name')}" + "".join(f"\n    {line}" for line in tree.splitlines())
    raise ConfigError("the case needs its data", key="data_dir", allowed=allowed, advice="size=tiny has sample data")


def _missing(folder: Path, final: Layer) -> str | None:
    """The note of a dry run about a missing folder. A run makes missing sample data."""
    is_sample = folder.is_relative_to(sample_dir(final.get("sample_dir")))
    if is_sample or folder.is_dir() or not (final.get("dry_run") and _has_same_files(final)):
        return None
    return f"data_dir {folder} is no folder of this machine: a run would be refused"


def _has_same_files(final: Layer) -> bool:
    """Whether all hosts have this machine's files."""
    if final.get("cluster.kubernetes") is not None:
        return False
    slurm = final.get("cluster.slurm")
    if slurm is not None:
        return not isinstance(slurm, dict) or bool(slurm.get("shared", True))
    nodes = final.get("cluster.nodes") or []
    return all(isinstance(node, dict) and (node.get("local") or node.get("shared")) for node in nodes)


def data_section(config: Mapping[str, Any]) -> dict[str, Any]:
    """The case's `data`. `require` also asks for the weights to start from, if they lie below data_dir.

    ${…} is replaced in its globs, which are keys: OmegaConf resolves values only.
    """
    section, weights = config.get("data", {}), Path(config["init_checkpoint"] or "")
    require = {
        Template(pattern).safe_substitute(config): least for pattern, least in section.get("require", {}).items()
    }
    if weights.is_relative_to(config["data_dir"]):
        require[glob.escape(str(weights.relative_to(config["data_dir"])))] = 1
    return {**section, "require": require}


def extent(config: Mapping[str, Any], where: Where) -> Extent | None:
    """The required extent of the data, with checked types; None: not stated."""
    if stated := config["data"].get("extent"):
        build(Extent, stated, "data.extent", where)
    return extent_of(config)


def sample_dir(given: str | None) -> Path:
    """The folder of all sample data on this machine."""
    return user_path(given).absolute() if given else cache_folder() / "sample"


def sample_folder(given: str | None, case: str, sample: Mapping[str, Any]) -> Path:
    """Folder of a case's sample data on this machine. `given`: sample_dir."""
    return sample_dir(given) / sample_name(case, sample)


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
    """Refuse a data_dir that is missing, or has fewer entries than `data.require`.

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
            count = sum(1 for _ in islice(folder.glob(pattern), least))
        except PermissionError as error:
            raise ConfigError(
                "data_dir cannot be read", key="data_dir", given=error.filename, advice=str(error)
            ) from None
        if count < least:
            problem = f"data_dir has {count} of at least {least} entries that match {pattern}"
            raise ConfigError(problem, key="data_dir", given=folder, allowed=allowed)


def has_layout(data: Mapping[str, Any], folder: Path) -> bool:
    """Whether `check_layout` accepts the folder."""
    try:
        check_layout(data, folder)
    except ConfigError:
        return False
    return True


class Entries(NamedTuple):
    """The number of entries of a data_dir that match a glob of `data.require`."""

    pattern: str
    least: int
    matches: int


def count_entries(data: Mapping[str, Any], folder: Path) -> list[Entries]:
    """Count the entries of a data_dir for each glob of `data.require`. Millions of entries take some seconds."""
    required = data.get("require", {}).items()
    return [Entries(pattern, least, sum(1 for _ in folder.glob(pattern))) for pattern, least in required]


def expected(data: Mapping[str, Any]) -> str | None:
    """Name and tree of a case's data; None where the case has no tree."""
    tree = data.get("tree", "").splitlines()
    if not tree:
        return None
    return "\n".join([f"{data.get('name', 'the data of the case')}, laid out as", *(f"    {line}" for line in tree)])
