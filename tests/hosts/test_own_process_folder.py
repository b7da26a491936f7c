"""Folders of long commands in /tmp: those of another user are left alone, whatever lies in them. Run as root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flagperf.hosts.leftovers import dead_process_folders
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.shell import shell
from flagperf.hosts.ssh.process import HOLD, START, STOP
from flagperf.hosts.transport import Completed

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can make folders of another user"),
]

USER = 1234
OPENED = ("lease", "lock", "status")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a long command, as mktemp makes it."""
    made = Path(tempfile.mkdtemp(prefix="flagperf-process.", dir="/tmp"))
    (made / "pid").write_text("1")
    yield made
    for path in [*made.iterdir(), made]:
        path.unlink() if path.is_symlink() or not path.is_dir() else path.rmdir()


def with_links(folder: Path, target: Path) -> None:
    for name in OPENED:
        (folder / name).symlink_to(target / name)


def with_pipes(folder: Path, _: Path) -> None:
    for name in OPENED:
        os.mkfifo(folder / name)


def nothing_more(folder: Path, _: Path) -> None:
    pass


def of_another(folder: Path) -> None:
    os.chown(folder, USER, USER)


def open_to_a_group(folder: Path) -> None:
    folder.chmod(0o770)


WHOSE: dict[str, Callable[[Path], None]] = {"another user's": of_another, "open to a group": open_to_a_group}
CONTENT: dict[str, Callable[[Path, Path], None]] = {"links": with_links, "pipes": with_pipes, "no files": nothing_more}


@pytest.mark.parametrize("content", CONTENT.values(), ids=CONTENT.keys())
@pytest.mark.parametrize("whose", WHOSE.values(), ids=WHOSE.keys())
async def test_nothing_is_opened_in_a_folder_of_another(
    whose: Callable[[Path], None], content: Callable[[Path, Path], None], folder: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    content(folder, tmp_path)
    whose(folder)
    before = sorted(folder.iterdir())
    (folder / "pid").write_text(str(os.getpid()))  # `stop` would end this process
    here = LocalTransport("here")
    assert str(folder) not in await dead_process_folders(here)
    held = await here.run(shell(HOLD, str(folder), "5"), timeout=5)
    stopped = await here.run(shell(STOP, str(folder)), timeout=5)
    assert (held.exit_status, held.stdout, stopped.exit_status) == (1, "", 0)
    assert sorted(folder.iterdir()) == before and list(tmp_path.iterdir()) == []


async def test_a_link_to_our_own_folder_is_none(folder: Path) -> None:
    link = Path(f"{folder}-link")
    link.symlink_to(folder)
    try:
        folders = await dead_process_folders(LocalTransport("here"))
        assert (str(folder) in folders, str(link) in folders) == (True, False)
    finally:
        link.unlink()


async def test_no_command_starts_where_others_could_swap_its_folder(tmp_path: Path) -> None:
    """In a mount namespace of its own, whose /tmp all may write to and has no sticky bit."""
    words = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o mode=0777 none /tmp && PATH=/usr/bin:/bin "$@"', "-")
    starting = shell(START, "true", "", "true", f"{tmp_path}/log", "5", "10", "true")
    command = type(starting)((*words, *starting.argv))
    done: Completed = await LocalTransport("here").run(command, timeout=10)
    problem = "/tmp can be written by others, who could swap what lies in it, and has no sticky bit\n"
    assert (done.exit_status, done.stdout, done.stderr) == (3, "", problem)
