"""The software of this rank: versions of libraries, identities of flagperf's and the cases' code, foreign modules."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import flagperf
from flagperf.contract.components import targets
from flagperf.contract.sent_code import BEFORE_SCRIPT, identities
from flagperf.trainer.start.extension import extension_targets, local_file_hashes

AT_START = ("sitecustomize", "usercustomize")  # Python imports them by itself before anything else
VIRTUALENV = {"virtualenv", "uv"}  # keys of makers of environments that may write a `_virtualenv.py`
LARGEST = 64 * 2**20  # bytes of the largest file that is hashed


def software(config: Mapping[str, Any], framework: Mapping[str, str], libraries: Iterable[str] = ()) -> dict[str, Any]:
    """`versions`, `python`, `code` (package → identity), `modules` (file → module and SHA-256) and `extension`.

    Args:
        framework: package → version, of the framework.
        libraries: paths of libraries of operators that were loaded into it.

    `extension`: path → SHA-256 of the files of the vendor's own code, where it has some. `modules` are foreign modules:
    not of Python, an installed package, flagperf or the case, such as those from `code_dir` and PYTHONPATH. A plug-in
    and the modules that Python imports first always count as foreign.
    """
    plugin = config["vendor"]["plugin"]
    return {
        "versions": versions(config, plugin, framework),
        "python": interpreter(),
        "code": identities(),
        "modules": foreign_modules(plugin, libraries),
        **({"extension": local_file_hashes(config)} if config.get("extension") else {}),
    }


def versions(config: Mapping[str, Any], plugin: str | None, framework: Mapping[str, str]) -> dict[str, str | None]:
    """Versions of Python, flagperf, the framework, and each package with a class or function in the configuration."""
    packages = {
        target.partition(".")[0]
        for target in (*targets(config), *([plugin] if plugin else []), *extension_targets(config))
    }
    known = {"python": platform.python_version(), "flagperf": flagperf.__version__, **framework}
    return {**known, **{name: version_of(name) for name in sorted(packages - {"cases", *known})}}


def version_of(package: str) -> str | None:
    """Version of an installed package; None where it has none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = getattr(sys.modules.get(package), "__version__", None)
        return None if version is None else str(version)


def interpreter() -> dict[str, Any]:
    """The start of this process: interpreter, command line, switches, and folders that a script added to its path."""
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
    """File → module and SHA-256, of all foreign modules and loaded libraries of operators."""
    loaded = ((Path(path).name, path) for path in sorted(libraries))
    known, packages = known_folders(), {folder: installed(folder) for folder in package_folders()}
    packages[sysconfig.get_paths()["purelib"]] |= of_environment()

    def is_known(path: str) -> bool:
        path = os.path.realpath(path) if "/../" in path else os.path.normpath(path)
        folder = next((folder for folder in packages if path.startswith(f"{folder}/")), None)
        if folder is None:
            return path.startswith(known)
        return re.split("[/.]", path[len(folder) + 1 :], maxsplit=1)[0] in packages[folder]

    return {
        path: {"module": name, "sha256": sha256(Path(path))}
        for name, path in (*module_files(), *loaded)
        if name == plugin or name in AT_START or not is_known(path)
    }


def known_folders() -> tuple[str, ...]:
    """The folders of Python, flagperf and the cases."""
    python = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")}
    packages = {str(Path(module.__path__[0])) for name in ("flagperf", "cases") if (module := sys.modules.get(name))}
    return tuple(f"{folder}/" for folder in sorted(python | packages))


def package_folders() -> list[str]:
    """The folders of installed packages."""
    usual = [sysconfig.get_paths()[name] for name in ("purelib", "platlib")]
    return list(
        dict.fromkeys([*usual, *(folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages")))])
    )


def installed(folder: str) -> set[str]:
    """Names, up to their first dot, that packages installed into a folder, by the installers' metadata there."""
    names: set[str] = set()
    for metadata in Path(folder).glob("*.*-info"):
        names.add(metadata.name.split("-")[0].split(".")[0])
        lists = [path for name in ("top_level.txt", "RECORD") if (path := metadata / name).is_file()]
        if lists:
            names.update(re.findall(r"^[^/,.\r\n]+", lists[0].read_text("utf-8", "replace"), re.MULTILINE))
    return names


def of_environment() -> set[str]:
    """Names of modules that the maker of a virtual environment wrote among its packages, by the environment's file."""
    file = Path(sys.prefix, "pyvenv.cfg")
    lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    return {"_virtualenv"} if {line.partition("=")[0].strip() for line in lines} & VIRTUALENV else set()


def module_files() -> Iterator[tuple[str, str]]:
    """Name and file of each imported module that has a file."""
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith("/") and name not in ("__main__", "__mp_main__"):
            yield name, file


def sha256(path: Path) -> str:
    """SHA-256 of a file's content; a text with the reason where the file is unreadable or very large."""
    try:
        if path.stat().st_size > LARGEST:
            return f"not computed: {path.stat().st_size} bytes"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"not computed: {error.strerror}"
