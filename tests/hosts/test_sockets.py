"""Folders with sockets: nobody's are removed, those of a living process stay."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flagperf.hosts.sockets import remove_dead_socket_folders, socket_folder

HOLD = """
from flagperf.hosts.sockets import socket_folder
with socket_folder() as folder:
    print(folder, flush=True)
    input()
"""


def test_a_folder_is_gone_after_its_use_and_stays_while_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket_folder() as folder:
        (folder / "socket").touch()
        remove_dead_socket_folders()
        assert [path.name for path in folder.iterdir()] == ["socket"]
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_socket_fits_also_where_the_path_of_temporary_files_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with socket_folder() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
    assert (folder.exists(), list(long.iterdir())) == (False, [])


def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        remove_dead_socket_folders()
        assert folder.is_dir()
        process.kill()
    other = tmp_path / "flagperf-socket-link"
    other.symlink_to(tmp_path.parent)
    remove_dead_socket_folders()
    assert list(tmp_path.iterdir()) == [other]
