"""Whether the ranks' interpreter has the framework, asked before anything starts: real interpreters of this machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from example import PYTORCH

from flagperf.command import Command
from flagperf.config.framework import local_python
from flagperf.config.platform import Framework
from flagperf.errors import HostError
from flagperf.hosts.local import LocalTransport
from flagperf.run.runtime import environment

OTHER = Framework(
    "other",
    ("{python}", "-m", "flagperf.trainer.start", "{config}"),
    module="no_such_framework",
    packages=("pyyaml", "no-such-framework"),
    python="{prefix}-other/bin/python",
    install="make other",
)
VERSIONS = {
    "python": platform.python_version(),
    "pyyaml": importlib.metadata.version("pyyaml"),
    "no-such-framework": "not installed",
}


@pytest.mark.asyncio
@pytest.mark.parametrize("own", [True, False], ids=["the launcher's own", "another"])
async def test_versions_of_the_frameworks_packages(tmp_path: Path, own: bool) -> None:
    """An interpreter by another name is started to know."""
    async with LocalTransport("here") as here:
        launch = Command((sys.executable if own else str(linked(tmp_path / "python")),))
        assert await environment(here, launch, replace(OTHER, module="yaml")) == VERSIONS


def linked(path: Path) -> Path:
    """This environment's interpreter under another name."""
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.asyncio
async def test_a_framework_that_is_missing_says_how_to_get_it() -> None:
    async with LocalTransport("here") as here:
        with pytest.raises(HostError) as refused:
            await environment(here, Command((sys.executable,)), OTHER)
    assert str(refused.value) == (
        f"here: {sys.executable} has no module no_such_framework\n"
        "  do:      make other, name another with runtime.python=PATH, or train in a container with runtime=docker"
    )


def test_an_environment_of_the_frameworks_own_is_used_where_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert [local_python(one) for one in (PYTORCH, OTHER)] == [sys.executable, sys.executable]
    (tmp_path / ".venv-other/bin").mkdir(parents=True)
    (tmp_path / ".venv-other/bin/python").symlink_to(os.path.realpath(sys.executable))
    assert [local_python(one) for one in (PYTORCH, OTHER)] == [
        sys.executable,
        str(tmp_path / ".venv-other/bin/python"),
    ]
