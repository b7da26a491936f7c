"""Runs a module as `python -m` does, with code as it stands in source files: python uncached.py MODULE ARGUMENT...

Python runs a cached `.pyc` in place of a source file of the same size and time, whatever is in it. What is compared by
hashes is the source. So this file, which Python compiles itself because it is named by its path, lets no cache be read
below flagperf's and the cases' folders, a vendor's code, `code_dir` and PYTHONPATH. Python's own library and installed
packages keep theirs: to compile them takes seconds.

Only the standard library: it is the first code of a rank.
"""

from __future__ import annotations

import runpy
import sys
import sysconfig
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

PACKAGES = ("site-packages", "dist-packages")  # names of folders that installers write to
OURS = ("flagperf", "cases")  # which may lie among them


class Uncached(SourceFileLoader):
    """Compiles a source file, and neither reads nor writes a cache."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class Ours(MetaPathFinder):
    """Finds flagperf and the cases also where they were installed among other packages."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        found = PathFinder.find_spec(name) if name in OURS else None
        if found is not None and found.origin and found.submodule_search_locations:
            loader, below = Uncached(name, found.origin), list(found.submodule_search_locations)
            return spec_from_file_location(name, found.origin, loader=loader, submodule_search_locations=below)
        return None


def finder(path: str) -> FileFinder:
    """Looks for modules in a folder, with no loader of `.pyc` files. Raises ImportError where caches may be read."""
    folder = Path(path).absolute()
    if not folder.is_dir() or is_installed(folder):
        raise ImportError(path)
    return FileFinder(str(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES), (Uncached, SOURCE_SUFFIXES))


def is_installed(folder: Path) -> bool:
    """Whether Python's library or an installed package lies there, which is not flagperf's own."""
    for place, part in enumerate(folder.parts):
        if part in PACKAGES:
            return folder.parts[place + 1 : place + 2] not in [(name,) for name in OURS]
    libraries = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib")}
    return any(folder == library or library in folder.parents for library in libraries)


def install() -> None:
    """From now on, in this process."""
    if finder not in sys.path_hooks:
        sys.path_hooks.insert(0, finder)
        sys.meta_path.insert(0, Ours())
        sys.path_importer_cache.clear()


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as with -m, in place of this file's folder
    del sys.argv[0]
    install()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
