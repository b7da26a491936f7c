"""What an environment holds of what the ranks need. Imported, or fed to the interpreter of another environment:

python - MODULE,MODULE PACKAGE…    prints as JSON which of the modules are missing, and the versions of the packages

It imports none of them, and runs with Python 3.6, too: an environment that is too old has to say so.
"""

import importlib.util
import json
import platform
import sys
from typing import Dict, Iterable, List

try:
    from importlib import metadata
except ImportError:  # before Python 3.8
    metadata = None  # type: ignore[assignment]


def versions(packages: Iterable[str]) -> Dict[str, str]:
    """Name → version in this environment, of Python and these packages."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name) if metadata else "unknown"
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def missing(modules: Iterable[str]) -> List[str]:
    """Those of the modules that this environment has not, without importing them."""
    return [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]


if __name__ == "__main__":
    told = {"missing": missing(sys.argv[1].split(",")), "versions": versions(sys.argv[2:])}
    print(json.dumps(told))
