"""Versions of what the ranks import, for sys_info.log. Imported, or fed to the interpreter of another environment:

python - MODULE PACKAGE…    prints them as JSON; fails where that environment lacks the module
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import sys
from collections.abc import Iterable


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Name → version in this environment, of Python and these packages."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def is_there(module: str) -> bool:
    """Whether this environment has a module, without importing it."""
    return importlib.util.find_spec(module) is not None


if __name__ == "__main__":
    print(json.dumps(versions(sys.argv[2:])))
    sys.exit(0 if is_there(sys.argv[1]) else f"{sys.executable} has no module {sys.argv[1]}")
