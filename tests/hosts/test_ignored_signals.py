"""A user's shell that ignores signals: commands below it get them all the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.hosts.ssh.process import SIGNALS

TOLD = "the user's shell there ignores signals: remove trap from its start-up file (.bashrc)\n"


@pytest.mark.parametrize(
    ("tools", "ignored", "answer"),
    [
        pytest.param(["env"], "TERM HUP INT", ("00000000\n", "", 0), id="env"),
        pytest.param(["python3"], "TERM HUP INT CHLD", ("00000000\n", "", 0), id="python3"),
        pytest.param(["perl"], "TERM HUP INT", ("00000000\n", "", 0), id="perl"),
        pytest.param([], "TERM", ("", TOLD, 1), id="no tool"),
        pytest.param([], "USR1", ("00000200\n", "", 0), id="other signals stay as they are"),
        pytest.param([], "", ("00000000\n", "", 0), id="nothing ignored"),
    ],
)
def test_a_command_has_the_usual_signals(
    tmp_path: Path, tools: list[str], ignored: str, answer: tuple[str, str, int]
) -> None:
    for tool in ("sh", "sed", *tools):
        found = sys.executable if tool == "python3" else shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    trap = f"trap '' {ignored}; " if ignored else ""
    show = 'sed -n "s/SigIgn:.*\\(.......\\)$/0\\1/p" /proc/self/status'  # the first 28: C libraries use some after 31
    argv = ["bash", "-c", f'{trap}exec sh -c "$0" flagperf sh -c "$1"', SIGNALS, show]
    done = subprocess.run(
        argv, env={"PATH": str(tmp_path)}, executable=shutil.which("bash"), capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == answer
