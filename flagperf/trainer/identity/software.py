"""Who took part in this rank: versions of libraries, identities of flagperf's and the cases' code, foreign modules."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import flagperf
from flagperf.contract.components import targets
from flagperf.contract.sent_code import BEFORE_SCRIPT, identities
from flagperf.trainer.start.extension import files_here, named

AT_START = ("sitecustomize", "usercustomize")  # Python imports them by itself before anything else
LARGEST = 64 * 2**20  # bytes of a file whose content is looked at


def software(config: Mapping[str, Any], framework: Mapping[str, str], libraries: Iterable[str] = ()) -> dict[str, Any]:
    """`versions`, `python`, `code` (package → identity), `modules` (file → module and SHA-256) and `extension`.

    Args:
        framework: package → version, of the framework.
        libraries: paths of libraries of operators that were loaded into it.

    `extension`: path → SHA-256 of the files of the vendor's own code, where there is some. `modules` are those that are
    neither Python's, nor of an installed package, nor flagperf's, nor the case's: plug-ins, what `code_dir` and
    PYTHONPATH bring. A plug-in is among them wherever it lies, and so is what Python imports before anything else.
    """
    plugin = config["vendor"]["plugin"]
    return {
        "versions": versions(config, plugin, framework),
        "python": interpreter(),
        "code": identities(),
        "modules": foreign_modules(plugin, libraries),
        **({"extension": files_here(config)} if config.get("extension") else {}),
    }


def versions(config: Mapping[str, Any], plugin: str | None, framework: Mapping[str, str]) -> dict[str, str | None]:
    """Of Python, flagperf, the framework, and each package that the configuration names a class or function of."""
    packages = {
        target.partition(".")[0] for target in (*targets(config), *([plugin] if plugin else []), *named(config))
    }
    found = {"python": platform.python_version(), "flagperf": flagperf.__version__, **framework}
    return {**found, **{name: version_of(name) for name in sorted(packages - {"cases", *found})}}


def version_of(package: str) -> str | None:
    """Version of an installed package; None where it says none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = getattr(sys.modules.get(package), "__version__", None)
        return None if version is None else str(version)


def interpreter() -> dict[str, Any]:
    """How this process was started: its interpreter, command line and switches, and what a script added to its path."""
    names = [name for name in dir(sys.flags) if not name.startswith(("_", "n_")) and name not in ("count", "index")]
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    before = os.environ[BEFORE_SCRIPT].split(os.pathsep) if BEFORE_SCRIPT in os.environ else path
    return {
        "executable": sys.executable,
        "argv": Path("/proc/self/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1],
        "flags": {name: int(getattr(sys.flags, name)) for name in names},
        "path_of_script": [folder for folder in path if folder and folder not in before],
    }


def foreign_modules(plugin: str | None, libraries: Iterable[str]) -> dict[str, dict[str, str]]:
    """File → module and SHA-256, of all modules that have come from elsewhere, and of loaded libraries of operators."""
    loaded = ((Path(path).name, Path(path)) for path in sorted(libraries))
    known, packages = known_folders(), {folder: installed(folder) for folder in package_folders()}

    def is_known(path: Path) -> bool:
        folder = next((folder for folder in packages if str(path).startswith(f"{folder}/")), None)
        if folder is None:
            return str(path).startswith(known)
        return path.relative_to(folder).parts[0].split(".")[0] in packages[folder]

    return {
        str(path): {"module": name, "sha256": sha256(path)}
        for name, path in (*module_files(), *loaded)
        if name == plugin or name in AT_START or not is_known(path)
    }


def known_folders() -> tuple[str, ...]:
    """Where Python, flagperf and the cases lie."""
    python = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")}
    own = {str(Path(module.__path__[0])) for name in ("flagperf", "cases") if (module := sys.modules.get(name))}
    return tuple(f"{folder}/" for folder in sorted(python | own))


def package_folders() -> list[str]:
    """Where installed packages lie."""
    usual = [sysconfig.get_paths()[name] for name in ("purelib", "platlib")]
    return list(dict.fromkeys([*usual, *(one for one in sys.path if one.endswith(("site-packages", "dist-packages")))]))


def installed(folder: str) -> set[str]:
    """What packages brought into a folder, by what installers note there: names as far as their first dot."""
    found: set[str] = set()
    for noted in Path(folder).glob("*.*-info"):
        found.add(noted.name.split("-")[0].split(".")[0])
        lists = [path for name in ("top_level.txt", "RECORD") if (path := noted / name).is_file()]
        for line in lists[0].read_text("utf-8", "replace").splitlines() if lists else ():
            found.add(line.split("/")[0].split(",")[0].split(".")[0])
    return found


def module_files() -> Iterator[tuple[str, Path]]:
    """Name and file of each imported module that has a file."""
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).is_absolute() and name not in ("__main__", "__mp_main__"):
            yield name, Path(file)


def sha256(path: Path) -> str:
    """Of a file's content; what stands there instead where it cannot be read or is very large."""
    try:
        if path.stat().st_size > LARGEST:
            return f"not computed: {path.stat().st_size} bytes"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"not computed: {error.strerror}"
