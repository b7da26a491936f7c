"""What an environment holds of what the ranks need. Imported, or fed to the interpreter of another environment:

python - MODULE,MODULE PACKAGE…    prints which of the modules are missing, and the versions of the packages

It imports none of them, nor more of Python than it needs: many hosts do it at once. It runs with Python 3.6, too: an
environment that is too old has to say so.
"""

import os
import sys

FOLDER = ".dist-info"  # ends the name of a folder beside each package, such as torch-2.9.0+cu128.dist-info


def versions(packages: "tuple[str, ...]") -> "dict[str, str]":
    """Name → version in this environment, of Python and these packages."""
    there = _installed()
    found = {"python": sys.version.split()[0]}
    found.update((name, there.get(_plain(name)) or _version(name)) for name in packages)
    return found


def missing(modules: "tuple[str, ...]") -> "list[str]":
    """Those of the modules that this environment has not, without importing them."""
    return [name for name in modules if not any(_finds(finder, name.partition(".")[0]) for finder in sys.meta_path)]


def _finds(finder: "object", name: str) -> bool:
    find = getattr(finder, "find_spec", None)
    return find is not None and find(name, None) is not None


def _installed() -> "dict[str, str]":
    """Plain name → version of each package whose folder tells both; of two the one that Python finds first."""
    found = {}  # type: dict[str, str]
    for folder in filter(os.path.isdir, sys.path):
        for entry in os.listdir(folder):  # noqa: PTH208  # this is read by an interpreter that starts for it alone
            name, told, version = entry.partition("-")
            if told and version.endswith(FOLDER):
                found.setdefault(_plain(name), version[: -len(FOLDER)])
    return found


def _plain(name: str) -> str:
    return name.replace("_", "-").replace(".", "-").lower()


def _version(name: str) -> str:
    """The version of a package that has no such folder."""
    try:
        from importlib import metadata
    except ImportError:  # before Python 3.8
        return "unknown"
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    print({"missing": missing(tuple(sys.argv[1].split(","))), "versions": versions(tuple(sys.argv[2:]))})
