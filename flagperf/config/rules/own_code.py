"""Code that the ranks would import in place of what flagperf and its libraries ship: where it can come from.

A folder of the user's own packages (`code_dir`, PYTHONPATH, the folder in which the launcher runs), variables that tell
Python where to look, and mounts over the packages of an image. What a rank really imported it says itself.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flagperf.config.rules.settable import OPEN
from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.platform import RuntimeSettings, Vendor
from flagperf.contract.build import Where
from flagperf.errors import ConfigError

SHIPPED = ("flagperf", "cases")
USUAL_PYTHON = (None, "python3")  # interpreters of the shipped runtimes
AT_START = ("sitecustomize", "usercustomize")  # Python imports them by itself before anything else
LIBRARIES = (  # what ranks import on every framework; its own file names those that it and its cases bring
    "PIL", "antlr4", "h5py", "hydra", "numpy", "omegaconf", "packaging", "scipy", "sklearn", "tensorboard", "yaml",
)  # fmt: skip
STANDARD = sys.stdlib_module_names - {"test", "this", "antigravity"}

# Variables of Python, a shell and the system's loader by which a process finds, or runs, other code. Not among them are
# LD_LIBRARY_PATH and LD_PRELOAD, which vendors' libraries and allocators need, and those of Python that run nothing.
DECIDES = re.compile(
    r"PYTHON(?!(ASYNCIODEBUG|FAULTHANDLER|HASHSEED|IOENCODING|MALLOC|NOUSERSITE|TRACEMALLOC|UNBUFFERED|UTF8)\Z)\w*"
    r"|BASH_\w+|BASHOPTS|SHELLOPTS|ENV|LD_(?!(BIND_NOW|LIBRARY_PATH|PRELOAD)\Z)\w+|GCONV_PATH"
)

STARTING = ("PYTHON_EXEC", "PYTHONPATH", "PET_RUN_PATH", "BASH_ENV", "LD_AUDIT", "MASTER_ADDR", "RANK")  # no * covers

PACKAGES = re.compile(r"(site|dist)-packages|python3(\.\d+)?")  # a part of a path that leads to Python's packages
HOMES = (  # folders above Python's packages in usual images
    "/", "/usr", "/usr/bin", "/usr/bin/python", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/lib",
    "/opt/conda", "/opt/conda/bin", "/opt/conda/lib",
)  # fmt: skip


def takes_place(
    config: Mapping[str, Any], vendor: Vendor, runtime: RuntimeSettings, hosts: Cluster, where: Where
) -> Iterator[ConfigError]:
    """All that would be imported, or would decide what is, in place of what flagperf and its libraries ship."""
    yield from in_environment(vendor, where)
    libraries = {*LIBRARIES, *config["framework"].get("imports", ())}
    yield from in_code_dir(config["code_dir"], libraries)
    if vendor.extension.code:
        yield from in_code_dir(str(vendor.extension.code), libraries, "vendor.extension.folder")
    folders = (hosts.work_dir, Path(config["result_dir"]).expanduser().absolute())
    if hosts.kubernetes is not None:
        yield from in_mounts(hosts.kubernetes.mounts, folders, "cluster.kubernetes.mounts", where)
    elif runtime.kind == "docker":
        for part, options in (("runtime", runtime), ("vendor", vendor), ("cluster", hosts)):
            yield from in_mounts(options.container.mounts, folders, f"{part}.container.mounts", where)
    elif hosts.passes_environment_on:
        yield from on_the_path(os.environ, Path.cwd(), libraries)


def own_code(config: Mapping[str, Any], vendor: Vendor, replaced: Iterable[ConfigError]) -> dict[str, str]:
    """What of the user's own the ranks may load, for the report; `replaced`: what an open run was not refused for."""
    found = {"code_dir": config["code_dir"]} if config["code_dir"] else {}
    in_pods = config["cluster"].get("kubernetes") is not None
    passed_on = os.environ if config["runtime"]["kind"] == "process" and not in_pods else {}
    if (python := config["runtime"]["python"]) not in USUAL_PYTHON:
        found["runtime.python"] = python
    found |= {name: passed_on[name] for name in ("PYTHONPATH",) if passed_on.get(name)}
    found |= {
        name: text for name, text in vendor.environment.items() if name == "LD_PRELOAD" or DECIDES.fullmatch(name)
    }
    entries = [entry["_target_"] for entry in (*config["sinks"], *config["reports"]) if isinstance(entry, Mapping)]
    if classes := [name for name in entries if not name.startswith("flagperf.")]:
        found["classes"] = ", ".join(classes)
    said: dict[str, list[str]] = {}
    for error in replaced:
        said.setdefault(str(error.key), []).append(f"{error.given}: {error.problem}")
    return found | {key: "; ".join(texts) for key, texts in said.items()}


def in_code_dir(code_dir: str | None, libraries: Collection[str], key: str = "code_dir") -> Iterator[ConfigError]:
    """`code_dir`, or what else goes ahead of all packages in the ranks."""
    if code_dir:
        folder = Path(code_dir).expanduser()
        if not folder.is_dir():
            raise ConfigError("no such folder", key=key, given=folder)
        if found := sorted(modules(folder, laid_over=SHIPPED) & {*SHIPPED, *AT_START, *libraries, *STANDARD}):
            yield _refusal(folder, found, key)


def on_the_path(
    environment: Mapping[str, str], here: Path, libraries: Collection[str], path: Sequence[str] = sys.path
) -> Iterator[ConfigError]:
    """Folders that a rank on this machine looks in first: that in which flagperf runs, and those of PYTHONPATH.

    Modules are looked up on the rest of this interpreter's path: a library that lies nowhere else takes no one's place.
    """
    given = [Path(folder).absolute() for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    first = {here: "the working folder", **dict.fromkeys(given, "PYTHONPATH")}
    rest = [folder for folder in path if Path(folder).absolute() not in first]
    own = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own |= {folder / "lib-dynload" for folder in own}
    for folder, key in first.items():
        names = modules(folder) - _imported_here(folder) if folder not in own else set()
        elsewhere = {name for name in names & {*libraries} if PathFinder.find_spec(name, rest)}
        if found := sorted(elsewhere | names & {*SHIPPED, *AT_START, *STANDARD}):
            yield _refusal(folder, found, key)


def in_environment(vendor: Vendor, where: Where) -> Iterator[ConfigError]:
    """Variables of the training processes."""
    for part in ("environment", "deterministic_environment", "interface_variables", "passes"):
        for name in getattr(vendor, part):
            if DECIDES.fullmatch(name) or any(fnmatchcase(one, name) for one in STARTING if "*" in name):
                problem, key = "this variable decides which code the ranks run", f"vendor.{part}"
                yield ConfigError(problem, where=where(f"{key}.{name}"), key=key, given=name, advice=OPEN)


def in_mounts(
    mounts: Mapping[str, str | None], folders: Iterable[str | Path], key: str, where: Where
) -> Iterator[ConfigError]:
    """Mounts over Python's packages in the image, or into the folders of flagperf's runs."""
    for source, target in mounts.items():
        place = Path(os.path.normpath((target or "").removesuffix(":rw")))
        inside = any(place.is_relative_to(folder) for folder in folders)
        if target and (inside or str(place) in HOMES or any(map(PACKAGES.fullmatch, place.parts))):
            problem = "this mount takes the place of code that the ranks import"
            said = f"{source}: {target}"
            yield ConfigError(problem, where=where(f"{key}.{source}"), key=key, given=said, advice=OPEN)


def modules(folder: Path, laid_over: Collection[str] = ()) -> set[str]:
    """Names under which Python imports what lies in a folder, ahead of what lies elsewhere.

    Args:
        laid_over: packages into which the folder's files will be copied: of these a plain folder counts, too.
    """
    found = set()
    for path in folder.iterdir() if folder.is_dir() and os.access(folder, os.R_OK | os.X_OK) else ():
        name = path.name.split(".")[0]
        if path.is_dir():
            package = name in laid_over or any((path / f"__init__{end}").exists() for end in (".py", ".pyc"))
            found |= {name} if package and name == path.name else set()
        elif path.suffix in (".py", ".pyc", ".so"):
            found.add(name)
    return found


def _imported_here(folder: Path) -> set[str]:
    """flagperf's own packages, where this launcher itself imports them from the folder."""
    specs = {name: find_spec(name) for name in SHIPPED}
    origins = {name: Path(spec.origin).resolve().parents[1] for name, spec in specs.items() if spec and spec.origin}
    return {name for name, origin in origins.items() if origin == folder.resolve()}


def _refusal(folder: Path, found: Sequence[str], key: str) -> ConfigError:
    problem = f"own code would be imported in place of {', '.join(found)}"
    return ConfigError(problem, key=key, given=folder, advice=OPEN)
