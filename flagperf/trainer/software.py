"""Who took part in this rank: versions of libraries, identities of flagperf's and the cases' code, foreign modules."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import flagperf
from flagperf.trainer.extension import files_here, named
from flagperf.trainer.imports import targets
from flagperf.trainer.sent_code import identities

LARGEST = 64 * 2**20  # bytes of a file whose content is looked at


def software(config: Mapping[str, Any], framework: Mapping[str, str], libraries: Iterable[str] = ()) -> dict[str, Any]:
    """`versions`, `code` (package → identity), `modules` (file → module and SHA-256) and `extension` of this process.

    Args:
        framework: package → version, of the framework.
        libraries: paths of libraries of operators that were loaded into it.

    `extension`: path → SHA-256 of the files of the vendor's own code, where there is some. `modules` are those that are
    neither Python's, nor installed, nor flagperf's, nor the case's: plug-ins, what `code_dir` and PYTHONPATH bring. A
    plug-in is among them wherever it lies.
    """
    plugin = config["vendor"]["plugin"]
    return {
        "versions": versions(config, plugin, framework),
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


def foreign_modules(plugin: str | None, libraries: Iterable[str]) -> dict[str, dict[str, str]]:
    """File → module and SHA-256, of all modules that have come from elsewhere, and of loaded libraries of operators."""
    loaded = ((Path(path).name, Path(path)) for path in sorted(libraries))
    known = known_folders()
    return {
        str(path): {"module": name, "sha256": sha256(path)}
        for name, path in (*module_files(), *loaded)
        if name == plugin or not str(path).startswith(known)
    }


def known_folders() -> tuple[str, ...]:
    """Where Python, installed packages, flagperf and the cases lie."""
    python = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed = {folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))}
    own = {str(Path(module.__path__[0])) for name in ("flagperf", "cases") if (module := sys.modules.get(name))}
    return tuple(f"{folder}/" for folder in sorted(python | installed | own))


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
