"""Folders or files of FlagPerf → a Checkout. FlagPerf's paths show the kind of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.python_file import read_python
from flagperf.partners.flagperf.importing.shell_file import read_shell
from flagperf.partners.flagperf.importing.values import (
    CaseFolder,
    Checkout,
    FileContent,
    SourceLine,
    Unread,
    Value,
    VendorConfig,
)
from flagperf.partners.flagperf.importing.words import why_no_case

TEST_CONF, CLUSTER_CONF, BASE, MUTABLE = "test_conf.py", "cluster_conf.py", "_base.py", "mutable_params.py"
ENVIRONMENT, REQUIREMENTS = "environment_variables.sh", "requirements.txt"
CODE = ("extern", "csrc")  # folders of a vendor's case that hold code
CONTAINER = "-in_container"  # ending of a vendor's folder of a case with a script of its own
HIDDEN = re.compile(r"[._].*|.*\.(pyc|md)$")  # files without settings

FILE_NAME = r"[A-Za-z0-9][\w.+-]*"  # the name of a vendor, a case or a product, which becomes a file name
_CONFIG = re.compile(rf"config_(?P<hardware>{FILE_NAME})x(?P<nnodes>[1-9]\d*)x(?P<nproc>[1-9]\d*)\.py")
ALLOWED = (
    "a checkout of FlagPerf or a folder of it; or files: test_conf.py, cluster_conf.py, "
    "<vendor>/<model>-<framework>/config/config_<hardware>x<nodes>x<devices>.py, "
    "benchmarks/<model>/<framework>/config/_base.py"
)


def read_checkout(paths: Sequence[Path]) -> Checkout:
    """Read the files of FlagPerf's configuration in these folders, and these files.

    A vendor's config file is read with the files beside it, and with the case that it is for.

    Raises:
        ConfigError: a path does not exist, or holds nothing of FlagPerf's configuration.
    """
    files: dict[Path, None] = {}
    empty: list[Path] = []
    containers: list[Path] = []
    for path in paths:
        below = list(_files(path.absolute()))
        if not below:
            raise ConfigError("this path holds no configuration of FlagPerf", given=path, allowed=ALLOWED)
        files.update(dict.fromkeys(below))
        empty += (folder for folder in sorted(path.absolute().rglob("config")) if _is_of_vendor(folder))
        containers += (folder for folder in sorted(path.absolute().rglob(f"*{CONTAINER}")) if folder.is_dir())
    configs = [config for path in files if (config := _vendor_config(path))]
    bases = {path.parent for path in files if path.name in (BASE, MUTABLE)}
    bases |= {folder for config in configs if (folder := _case_folder(config)).is_dir()}
    return Checkout(
        _only(files, TEST_CONF),
        _only(files, CLUSTER_CONF),
        {(folder.parents[1].name, folder.parent.name): _case(folder) for folder in sorted(bases)},
        tuple(sorted(configs, key=lambda config: config.path)),
        (
            *_skipped({*empty, *(config.path.parent for config in configs)}, configs),
            *map(_of_container, containers),
        ),
    )


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        if _is_known(path):
            yield path
        return
    if not path.is_dir():
        raise ConfigError("no such file or folder", given=path, allowed=ALLOWED)
    yield from (file for file in sorted(path.rglob("*.py")) if _is_known(file))


def _is_known(path: Path) -> bool:
    """Whether name and folder of a file are those of FlagPerf's configuration."""
    if path.name in (TEST_CONF, CLUSTER_CONF):
        return True
    if path.parent.name != "config":
        return False
    if path.name in (BASE, MUTABLE):
        return True
    vendor, case = path.parents[2].name, path.parents[1].name
    return bool(
        _CONFIG.fullmatch(path.name)
        and "-" in case
        and re.fullmatch(FILE_NAME, vendor)
        and re.fullmatch(FILE_NAME, case)
    )


def _is_of_vendor(folder: Path) -> bool:
    """Whether a folder is <vendor>/<model>-<framework>/config."""
    return folder.is_dir() and "-" in folder.parent.name and folder.parents[2].name != "benchmarks"


def _of_container(folder: Path) -> Unread:
    """The line on a vendor's folder of a case that is a container with a script of its own."""
    model = folder.name[: -len(CONTAINER)]
    return Unread("config.py", why_no_case(model, "a script in a container"), SourceLine(folder, 0))


def _only(files: Iterable[Path], name: str) -> FileContent | None:
    """The content of the file of a name. Two files are an error: a cluster cannot have two lists of hosts."""
    paths = [path for path in files if path.name == name]
    if len(paths) > 1:
        given = ", ".join(map(str, paths))
        raise ConfigError(f"there are several files {name}", given=given, advice="import one checkout at a time")
    return read_python(paths[0]) if paths else None


def _vendor_config(path: Path) -> VendorConfig | None:
    match = _CONFIG.fullmatch(path.name)
    if match is None:
        return None
    folder, case = path.parent, path.parents[1]
    model, _, framework = case.name.rpartition("-")
    environment, requirements = folder / ENVIRONMENT, folder / REQUIREMENTS
    benchmark = case.parents[1] / "benchmarks" / model / framework
    return VendorConfig(
        path=path,
        has_case=benchmark.is_dir(),
        vendor=case.parent.name,
        model=model,
        framework=framework,
        hardware=match["hardware"],
        nnodes=int(match["nnodes"]),
        nproc=int(match["nproc"]),
        content=read_python(path),
        environment=read_shell(environment) if environment.is_file() else FileContent(),
        requirements=tuple(_lines(requirements)) if requirements.is_file() else (),
        code=tuple(name for name in CODE if (case / name).is_dir()),
    )


def _lines(path: Path) -> Iterator[Value]:
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if (text := line.partition(" #")[0].strip()) and not text.startswith("#"):
            yield Value(text, text, SourceLine(path, number))


def _case_folder(config: VendorConfig) -> Path:
    """FlagPerf's folder of the case of a vendor's config. The vendor's folder is beside benchmarks."""
    return config.path.parents[3] / "benchmarks" / config.model / config.framework / "config"


def _case(folder: Path) -> CaseFolder:
    """The values of a case, from __init__.py, which imports the others, or from _base.py."""
    start = next((path for name in ("__init__.py", BASE) if (path := folder / name).is_file()), None)
    base = read_python(start) if start else FileContent()
    mutable = folder / MUTABLE
    names = read_python(mutable).get("mutable_params", []) if mutable.is_file() else []
    return CaseFolder(base, tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ())


def _skipped(folders: set[Path], configs: Sequence[VendorConfig]) -> Iterator[Unread]:
    """Files in vendors' folders without a known name that no other file imports; and folders without a config file."""
    read = {file for config in configs for file in config.content.files}
    for folder in sorted(folders):
        if not any(config.path.parent == folder for config in configs):
            yield Unread("no config_<hardware>x<nodes>x<devices>.py", "nothing to import", SourceLine(folder, 0))
            continue
        for path in sorted(folder.iterdir()):
            known = path in read or path.name in (ENVIRONMENT, REQUIREMENTS) or _CONFIG.fullmatch(path.name)
            if not known and not HIDDEN.fullmatch(path.name):
                yield Unread(path.name, "no name of a file that FlagPerf reads", SourceLine(path, 0))
