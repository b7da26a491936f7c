"""Lists installed packages. Either imported, or sent to the interpreter of another environment:

python - MODULE,MODULE PACKAGE…    prints the missing modules, and the versions of the packages

It imports none of the packages, and little of Python, because many hosts run it at once. It also runs with Python 3.6:
an environment that is too old must be able to report its version.
"""

import os
import sys

FOLDER = ".dist-info"  # end of the name of each package's folder, such as torch-2.9.0+cu128.dist-info


def versions(packages: "tuple[str, ...]") -> "dict[str, str]":
    """Name → version in this environment, for Python and these packages."""
    installed = _installed()
    result = {"python": sys.version.split()[0]}
    result.update((name, installed.get(_plain(name)) or _version(name)) for name in packages)
    return result


def missing(modules: "tuple[str, ...]") -> "list[str]":
    """The modules that this environment lacks. Imports no package."""
    return [name for name in modules if not any(_finds(finder, name.partition(".")[0]) for finder in sys.meta_path)]


def _finds(finder: "object", name: str) -> bool:
    find = getattr(finder, "find_spec", None)
    return find is not None and find(name, None) is not None


def _installed() -> "dict[str, str]":
    """Plain name → version of each package with a .dist-info folder. Of two versions the first on sys.path counts."""
    packages = {}  # type: dict[str, str]
    for folder in filter(os.path.isdir, sys.path):
        for entry in os.listdir(folder):  # noqa: PTH208  # pathlib would slow the start of this interpreter
            name, dash, version = entry.partition("-")
            if dash and version.endswith(FOLDER):
                packages.setdefault(_plain(name), version[: -len(FOLDER)])
    return packages


def _plain(name: str) -> str:
    return name.replace("_", "-").replace(".", "-").lower()


def _version(name: str) -> str:
    """The version of a package without a .dist-info folder."""
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
