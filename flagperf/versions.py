"""Versions of what the ranks import, for sys_info.log. Imported, or fed to the interpreter of another environment."""

from __future__ import annotations

import importlib.metadata
import json
import platform

PACKAGES = ("torch", "torchvision", "torchaudio", "transformers")


def versions() -> dict[str, str]:
    """Name → version in this environment."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    print(json.dumps(versions()))
