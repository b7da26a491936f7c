"""Finds own code that the ranks would import in place of code of flagperf or its libraries.

Sources are folders of the user's packages (`code_dir`, PYTHONPATH, the working folder of the launcher), variables with
search paths of Python, and mounts over the packages of an image. Each rank also reports its real imports.
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

from flagperf.config.schema.keys import OPEN
from flagperf.config.schema.platform import Vendor
from flagperf.config.schema.values import Typed
from flagperf.contract.build import Where
from flagperf.errors import ConfigError
from flagperf.user import user_path

SHIPPED = ("flagperf", "cases")
USUAL_PYTHON = (None, "python3")  # interpreters of the shipped runtimes
AT_START = ("sitecustomize", "usercustomize")  # Python imports them by itself before anything else
LIBRARIES = (  # imports of ranks on every framework; the framework's file has further ones
    "PIL", "antlr4", "h5py", "hydra", "numpy", "omegaconf", "packaging", "scipy", "sklearn", "tensorboard", "yaml",
)  # fmt: skip
STANDARD = sys.stdlib_module_names - {"test", "this", "antigravity"}

# Variables by which Python, a shell or the system's loader finds or runs other code. LD_LIBRARY_PATH and LD_PRELOAD are
# left out, because vendors' libraries and allocators need them, and so are variables of Python that run no code.
DECIDES = re.compile(
    r"PYTHON(?!(ASYNCIODEBUG|FAULTHANDLER|HASHSEED|IOENCODING|MALLOC|NOUSERSITE|TRACEMALLOC|UNBUFFERED|UTF8)\Z)\w*"
    r"|BASH_\w+|BASHOPTS|SHELLOPTS|ENV|LD_(?!(BIND_NOW|LIBRARY_PATH|PRELOAD)\Z)\w+|GCONV_PATH"
)

# Variables that no pattern with * may match.
STARTING = ("PYTHON_EXEC", "PYTHONPATH", "PET_RUN_PATH", "BASH_ENV", "LD_AUDIT", "MASTER_ADDR", "RANK")

PACKAGES = re.compile(r"(site|dist)-packages|python3(\.\d+)?")  # a part of a path that leads to Python's packages
HOMES = (  # folders above Python's packages in usual images
    "/", "/usr", "/usr/bin", "/usr/bin/python", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/lib",
    "/opt/conda", "/opt/conda/bin", "/opt/conda/lib",
)  # fmt: skip


def replacing_code(config: Mapping[str, Any], typed: Typed, where: Where) -> Iterator[ConfigError]:
    """Errors for own code, variables and mounts that would replace code of flagperf or its libraries in the ranks."""
    yield from in_environment(typed.vendor, where)
    libraries = {*LIBRARIES, *typed.framework.imports}
    yield from in_code_dir(config["code_dir"], libraries)
    if typed.vendor.extension.code:
        yield from in_code_dir(str(typed.vendor.extension.code), libraries, "vendor.extension.folder")
    cluster = typed.cluster
    folders = (cluster.work_dir, user_path(config["result_dir"]).absolute())
    if cluster.kubernetes is not None:
        yield from in_mounts(cluster.kubernetes.mounts, folders, "cluster.kubernetes.mounts", where)
    elif typed.runtime.kind == "docker":
        for part in ("runtime", "vendor", "cluster"):
            yield from in_mounts(getattr(typed, part).container.mounts, folders, f"{part}.container.mounts", where)
    elif cluster.passes_environment_on:
        yield from on_the_path(os.environ, Path.cwd(), libraries)


def own_code(config: Mapping[str, Any], typed: Typed, allowed: Iterable[ConfigError]) -> dict[str, str]:
    """The user's own code that the ranks may load, for the report. `allowed`: errors that an open run ignores."""
    sources = {"code_dir": config["code_dir"]} if config["code_dir"] else {}
    passed_on = os.environ if typed.runtime.kind == "process" and typed.cluster.kubernetes is None else {}
    if typed.runtime.python not in USUAL_PYTHON:
        sources["runtime.python"] = typed.runtime.python
    sources |= {name: passed_on[name] for name in ("PYTHONPATH",) if passed_on.get(name)}
    variables = typed.vendor.environment.items()
    sources |= {name: text for name, text in variables if name == "LD_PRELOAD" or DECIDES.fullmatch(name)}
    entries = [entry["_target_"] for entry in (*config["sinks"], *config["reports"]) if isinstance(entry, Mapping)]
    if classes := [name for name in entries if not name.startswith("flagperf.")]:
        sources["classes"] = ", ".join(classes)
    problems: dict[str, list[str]] = {}
    for error in allowed:
        problems.setdefault(str(error.key), []).append(f"{error.given}: {error.problem}")
    return sources | {key: "; ".join(texts) for key, texts in problems.items()}


def in_code_dir(code_dir: str | None, libraries: Collection[str], key: str = "code_dir") -> Iterator[ConfigError]:
    """An error for a folder that comes before all packages in the ranks, such as `code_dir`."""
    if code_dir:
        folder = user_path(code_dir)
        if not folder.is_dir():
            raise ConfigError("no such folder", key=key, given=folder)
        if names := sorted(modules(folder, laid_over=SHIPPED) & {*SHIPPED, *AT_START, *libraries, *STANDARD}):
            yield _refusal(folder, names, key)


def on_the_path(
    environment: Mapping[str, str], working_folder: Path, libraries: Collection[str]
) -> Iterator[ConfigError]:
    """Errors for the first folders of a rank's search path on this machine: the working folder, and PYTHONPATH.

    A module that is not on the further path of this interpreter replaces nothing.
    """
    python_path = [Path(folder).absolute() for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    folders = {working_folder: "the working folder", **dict.fromkeys(python_path, "PYTHONPATH")}
    further_path = [folder for folder in sys.path if Path(folder).absolute() not in folders]
    python_folders = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    python_folders |= {folder / "lib-dynload" for folder in python_folders}
    for folder, key in folders.items():
        names = modules(folder) - _imported_here(folder) if folder not in python_folders else set()
        elsewhere = {name for name in names & {*libraries} if PathFinder.find_spec(name, further_path)}
        if replaced := sorted(elsewhere | names & {*SHIPPED, *AT_START, *STANDARD}):
            yield _refusal(folder, replaced, key)


def in_environment(vendor: Vendor, where: Where) -> Iterator[ConfigError]:
    """Errors for variables of the training processes."""
    for part in ("environment", "deterministic_environment", "interface_variables", "passes"):
        for name in getattr(vendor, part):
            if DECIDES.fullmatch(name) or any(fnmatchcase(variable, name) for variable in STARTING if "*" in name):
                problem, key = "this variable decides which code the ranks run", f"vendor.{part}"
                yield ConfigError(problem, where=where(f"{key}.{name}"), key=key, given=name, advice=OPEN)


def in_mounts(
    mounts: Mapping[str, str | None], folders: Iterable[str | Path], key: str, where: Where
) -> Iterator[ConfigError]:
    """Errors for mounts over Python's packages in the image, or into the folders of flagperf's runs."""
    for source, target in mounts.items():
        path = Path(os.path.normpath((target or "").removesuffix(":rw")))
        inside = any(path.is_relative_to(folder) for folder in folders)
        if target and (inside or str(path) in HOMES or any(map(PACKAGES.fullmatch, path.parts))):
            problem = "this mount takes the place of code that the ranks import"
            mount = f"{source}: {target}"
            yield ConfigError(problem, where=where(f"{key}.{source}"), key=key, given=mount, advice=OPEN)


def modules(folder: Path, laid_over: Collection[str] = ()) -> set[str]:
    """Names of the modules in a folder that Python prefers to modules of later folders.

    Args:
        laid_over: packages that will get copies of the folder's files. For these a folder without __init__ counts, too.
    """
    names = set()
    for path in folder.iterdir() if folder.is_dir() and os.access(folder, os.R_OK | os.X_OK) else ():
        name = path.name.split(".")[0]
        if path.is_dir():
            is_package = name in laid_over or any((path / f"__init__{end}").exists() for end in (".py", ".pyc"))
            names |= {name} if is_package and name == path.name else set()
        elif path.suffix in (".py", ".pyc", ".so"):
            names.add(name)
    return names


def _imported_here(folder: Path) -> set[str]:
    """flagperf's own packages, if this launcher imports them from the folder."""
    specs = {name: find_spec(name) for name in SHIPPED}
    origins = {name: Path(spec.origin).resolve().parents[1] for name, spec in specs.items() if spec and spec.origin}
    return {name for name, origin in origins.items() if origin == folder.resolve()}


def _refusal(folder: Path, names: Sequence[str], key: str) -> ConfigError:
    problem = f"own code would be imported in place of {', '.join(names)}"
    return ConfigError(problem, key=key, given=folder, advice=OPEN)
