"""Runs a module as `python -m` does, compiled from its source files: python uncached.py MODULE ARGUMENT...

Python runs a cached `.pyc` in place of a source file of the same size and time, whatever the cache contains. But hashes
are compared of the source files. So this module reads no cache for flagperf, the cases, a vendor's code, `code_dir` and
PYTHONPATH. Python starts it by its path, and so compiles it without a cache, too. Python's own library and installed
packages keep their caches: to compile them takes seconds.

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
OURS = "flagperf"  # lies among them, with the cases in it
# Of Python's own. Asked for here, once: sysconfig imports modules while it answers. Below `finder` it would be asked
# again before it has the answer.
LIBRARIES = frozenset(Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib"))


class Uncached(SourceFileLoader):
    """Compiles a source file, and neither reads nor writes a cache."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source file of a module."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class OurPackage(MetaPathFinder):
    """Finds flagperf also where it was installed among other packages. It finds the cases itself."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        """The spec of flagperf, with a loader that reads no cache; None for other modules."""
        spec = PathFinder.find_spec(name) if name == OURS else None
        if spec is not None and spec.origin and spec.submodule_search_locations:
            loader, below = Uncached(name, spec.origin), list(spec.submodule_search_locations)
            return spec_from_file_location(name, spec.origin, loader=loader, submodule_search_locations=below)
        return None


def finder(path: str) -> FileFinder:
    """A finder for the modules of a folder, which reads no `.pyc` file. Raises ImportError where caches are allowed."""
    folder = Path(path).absolute()
    if not folder.is_dir() or is_installed(folder):
        raise ImportError(path)
    return FileFinder(str(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES), (Uncached, SOURCE_SUFFIXES))


def is_installed(folder: Path) -> bool:
    """Whether a folder belongs to Python's library or to an installed package other than flagperf."""
    for index, part in enumerate(folder.parts):
        if part in PACKAGES:
            return folder.parts[index + 1 : index + 2] != (OURS,)
    return not LIBRARIES.isdisjoint((folder, *folder.parents))


def install() -> None:
    """Import our code without caches from now on, in this process."""
    if finder not in sys.path_hooks:
        sys.path_hooks.insert(0, finder)
        sys.meta_path.insert(0, OurPackage())
        sys.path_importer_cache.clear()


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as with -m, in place of this file's folder
    del sys.argv[0]
    install()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
