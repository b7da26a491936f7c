"""What stays of a round on this machine."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flagperf.run.kept_files import by_umask, without_secrets
from flagperf.secret import Mask


def test_secrets_go_from_all_files_and_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("my-secret")
    folder = tmp_path / "node"
    (folder / "deep").mkdir(parents=True)
    (folder / "rank0.out.log").write_text("said my-secret\n")
    (folder / "deep" / "more").write_text("my-secret")
    (folder / "link").symlink_to(elsewhere)
    without_secrets(folder, Mask(["my-secret"]))
    assert (folder / "rank0.out.log").read_text() == "said ***\n"
    assert (folder / "deep" / "more").read_text() == "***"
    assert elsewhere.read_text() == "my-secret"
    without_secrets(tmp_path / "not there", Mask(["my-secret"]))


def test_what_a_rank_left_beside_its_logs_does_not_keep_secrets_in_them(caplog: pytest.LogCaptureFixture) -> None:
    """A file that nobody may read, folders in folders, many files."""
    place = Path(tempfile.mkdtemp(dir="/dev/shm"))  # elsewhere it takes seconds to remove so deep a folder
    user, folder = 65534, place / "node"
    folder.mkdir()
    (folder / "rank0.out.log").write_text("my-secret")
    (folder / "closed").write_text("my-secret")
    (folder / "closed").chmod(0)
    for number in range(2000):
        (folder / f"many{number}").touch()
    deep = os.open(folder, os.O_RDONLY)
    for name in (*["d"] * 1100, *["d" * 200] * 12):  # a path of more than 4,096 characters
        os.mkdir(name, dir_fd=deep)
        deeper = os.open(name, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = deeper
    os.close(deep)
    if os.geteuid() == 0:  # whom rights do not bind
        for path in (place, folder, *folder.iterdir()):
            os.chown(path, user, user)
    if not (child := os.fork()):
        os.chdir(place)  # the user may not enter the folders above
        if os.geteuid() == 0:
            os.setuid(user)
        without_secrets(Path(folder.name), Mask(["my-secret"]))
        by_umask(Path(folder.name))
        os._exit(len(caplog.messages))
    assert os.waitpid(child, 0)[1] == 0
    assert [(folder / name).read_text() for name in ("rank0.out.log", "closed")] == ["***"] * 2
    assert stat.S_IMODE((folder / "closed").stat().st_mode) == 0
    subprocess.run(["rm", "-rf", place], check=True)


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=["022", "027", "077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_permissions_that_came_from_a_host_follow_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    file = folder / "rank0.out.log"
    file.touch()
    folder.chmod(0o777)
    file.chmod(0o6646)
    (folder / "shared").mkdir()
    (folder / "shared").chmod(0o2777)  # of a folder: its files belong to the group
    by_umask(folder, tmp_path / "not there")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, file, folder / "shared")]
    assert modes == [0o777 & ~umask, 0o646 & ~umask, 0o2777 & ~umask]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of another user")
def test_a_setuid_file_of_a_container_becomes_ours() -> None:
    """A container's root wrote it into the folder of a user, who may not change its permissions."""
    with tempfile.TemporaryDirectory() as name:
        check_setuid_file(Path(name))


def check_setuid_file(folder: Path) -> None:
    (folder / "tool").write_text("program")
    (folder / "tool").chmod(0o4755)
    os.chown(folder, 65534, 65534)
    if not (child := os.fork()):
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        by_umask(folder)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    about = (folder / "tool").stat()
    assert (about.st_uid, about.st_mode & 0o6000, (folder / "tool").read_text()) == (65534, 0, "program")
