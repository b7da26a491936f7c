"""The work_dir of a host: nobody else may reach into it. Real folders of a real other user."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts.facts import read_facts
from flagperf.hosts.leftovers import REMOVE_DEAD, claim, claimed_folders, remove_dead_folders
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.shell import shell
from flagperf.hosts.transport import Completed

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can make folders of another user"),
]

NOBODY = 65534
ADVICE = "set cluster.work_dir to a new folder such as /var/tmp/flagperf: flagperf makes it for this user alone"
OPEN = "{root}/work can be written by others, who could put links into it"


def folder(path: Path, mode: int = 0o755, owner: int = 0) -> Path:
    path.mkdir(parents=True)
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path


def link(path: Path, target: Path, owner: int = 0) -> Path:
    path.symlink_to(target)
    os.chown(path, owner, owner, follow_symlinks=False)
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "made by another user": (lambda root: folder(root / "work", owner=NOBODY), "{root}/work belongs to user nobody"),
    "as /tmp: open to all, with the sticky bit": (lambda root: folder(root / "work", 0o1777), OPEN),
    "open to all": (lambda root: folder(root / "work", 0o777), OPEN),
    "open to a group": (lambda root: folder(root / "work", 0o770), OPEN),
    "with another user's link in the place of sample data": (
        lambda root: link(folder(root / "work") / "sample", folder(root / "real"), NOBODY).parent,
        "{root}/work/sample belongs to another user",
    ),
    "a link": (lambda root: link(root / "work", folder(root / "real")), "{root}/work is a link"),
    "a link to nothing": (
        lambda root: link(root / "work", root / "real"),
        "mkdir: cannot create directory ‘{root}/work’: File exists",
    ),
    "below a folder of another user": (
        lambda root: folder(root / "theirs", owner=NOBODY) / "work",
        "{root}/theirs belongs to user nobody, who could swap what lies in it",
    ),
    "below a folder that all may write to": (
        lambda root: folder(root / "open", 0o777) / "work",
        "{root}/open can be written by others, who could swap what lies in it, and has no sticky bit",
    ),
    "below a folder that a group may write to": (
        lambda root: folder(root / "shared", 0o775) / "work",
        "{root}/shared can be written by others, who could swap what lies in it, and has no sticky bit",
    ),
    "below another user's link": (
        lambda root: link(root / "theirs", folder(root / "real"), NOBODY) / "work",
        "{root}/theirs belongs to user nobody, who could swap what lies in it",
    ),
    "below our link to another user's folder": (
        lambda root: link(root / "ours", folder(folder(root / "theirs", owner=NOBODY) / "real")) / "work",
        "{root}/theirs belongs to user nobody, who could swap what lies in it",
    ),
}


async def looked(work_dir: Path) -> None:
    """As a run does: what the host told with its facts counts."""
    here = LocalTransport("node1")
    facts = await read_facts(here, f"{work_dir}/run", work_dir=str(work_dir))
    assert facts.fields["host"]
    await remove_dead_folders(here, str(work_dir), make=True, claims=facts.claims)


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_folder_that_others_reach_into_is_refused(
    make: Callable[[Path], Path], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    work_dir = make(tmp_path)
    before = {path: path.lstat().st_mode for path in tmp_path.rglob("*")}
    made = (
        [] if "sample" in why else [(f"cannot make {work_dir}/run", claim(LocalTransport("node1"), f"{work_dir}/run"))]
    )
    for problem, attempt in (
        *made,
        (f"cannot use {work_dir}", remove_dead_folders(LocalTransport("node1"), str(work_dir), make=True)),
        (f"cannot use {work_dir}", looked(work_dir)),
    ):
        with pytest.raises(HostError) as caught:
            await attempt
        assert str(caught.value) == f"node1: {problem}: {why.format(root=tmp_path)}\n  do:      {ADVICE}"
    assert not (work_dir / "run").exists()
    assert {path: path.lstat().st_mode for path in before} == before


ACCEPTED: dict[str, tuple[Callable[[Path], Path], int]] = {
    "not there yet": (lambda root: root / "a" / "work", 0o700),
    "ours, readable by others": (lambda root: folder(root / "work", 0o755), 0o755),
    "ours, with files of others": (lambda root: folder(root / "work" / "alice", owner=NOBODY).parent, 0o755),
    "below a folder with the sticky bit": (lambda root: folder(root / "open", 0o1777) / "work", 0o700),
    "below our link": (lambda root: link(root / "ours", folder(root / "real")) / "work", 0o700),
    "with a space": (lambda root: root / "a b" / "work", 0o700),
}


@pytest.mark.parametrize(("make", "mode"), ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_what_is_there_keeps_its_rights_and_what_is_made_is_for_us_alone(
    make: Callable[[Path], Path], mode: int, tmp_path: Path
) -> None:
    work_dir, here = make(tmp_path), LocalTransport("node1")
    await claim(here, f"{work_dir}/run")
    assert [path.stat().st_mode & 0o7777 for path in (work_dir, work_dir / "run")] == [mode, 0o700]
    assert await claimed_folders(here, str(work_dir)) == {f"{work_dir}/run": "this"}
    claims = (await read_facts(here, str(work_dir), work_dir=str(work_dir))).claims
    assert claims is not None
    assert await claimed_folders(here, "/not asked", claims=claims) == {f"{work_dir}/run": "this"}
    await claim(here, f"{work_dir}/run")  # the next round of the same run


async def test_a_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    folder(tmp_path / "work" / "run")
    (tmp_path / "work" / "run" / ".owner").write_text("another launcher")
    with pytest.raises(HostError, match=f"another run works in {tmp_path}/work/run"):
        await claim(LocalTransport("node1"), f"{tmp_path}/work/run")
    assert (tmp_path / "work" / "run" / ".owner").read_text() == "another launcher"


PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (lambda run: link(run, folder(run.parent.parent / "real"), NOBODY), "{run} is a link"),
    "a folder": (lambda run: folder(run, owner=NOBODY), "{run} belongs to user nobody"),
    "an owner's file": (
        lambda run: link(folder(run) / ".owner", run.parent.parent / "target", NOBODY),
        "{run}/.owner is a link",
    ),
}


@pytest.mark.parametrize(("plant", "why"), PLANTED.values(), ids=PLANTED.keys())
async def test_what_others_put_into_a_folder_before_it_was_closed(
    plant: Callable[[Path], object], why: str, tmp_path: Path
) -> None:
    work_dir, here = folder(tmp_path / "work"), LocalTransport("node1")
    (folder(work_dir / "dead", owner=NOBODY) / ".owner").write_text(f"{socket.gethostname()} boot 1 1")
    link(work_dir / "linked", work_dir / "dead")
    plant(work_dir / "run")
    with pytest.raises(HostError, match=re.escape(why.format(run=work_dir / "run"))):
        await claim(here, f"{work_dir}/run")
    assert await claimed_folders(here, str(work_dir)) == {}
    assert await remove_dead_folders(here, str(work_dir)) == {}
    assert (work_dir / "dead" / ".owner").exists() and not (tmp_path / "target").exists()


async def test_to_look_makes_nothing(tmp_path: Path) -> None:
    here, work_dir = LocalTransport("node1"), f"{tmp_path}/work"
    assert await claimed_folders(here, work_dir) == {}
    assert (await read_facts(here, work_dir, work_dir=work_dir)).claims is None
    assert not (tmp_path / "work").exists()


async def test_a_folder_with_files_of_another_user_stays_whole() -> None:
    """Files of root in this user's folders can be removed; a folder of root that is not empty cannot."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for run, of_root in (("mixed", "logs/scratch"), ("mine", "empty")):
            (top / run / of_root).mkdir(parents=True)
            (top / run / "root.log").write_text("")
        (top / "mixed/logs/scratch/file").write_text("")
        for path in (top, top / "mixed", top / "mixed/logs", top / "mine"):
            os.chown(path, NOBODY, NOBODY)
        command = shell(REMOVE_DEAD, str(top / "mixed"), str(top / "mine"))
        argv = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", *command.argv]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert done.stdout.split("\0") == [str(top / "mixed"), ""]
        assert sorted(path.name for path in top.rglob("*")) == ["file", "logs", "mixed", "root.log", "scratch"]


async def test_a_session_that_ends_without_an_answer_is_no_fault_of_the_folder() -> None:
    lost = Completed(Command(("true",)), None, "", "")
    with pytest.raises(HostError) as caught:
        await claimed_folders(LocalTransport("node1"), "/srv/work", claims=lost)
    problem = "cannot use /srv/work: the connection, or sshd's session, ended before the answer"
    assert str(caught.value) == f"node1: {problem}"
