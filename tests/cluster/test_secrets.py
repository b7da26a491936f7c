"""Ranks on other hosts that are given secrets, and print them: who can see them meanwhile, and what is kept."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path

import pytest
from flagperf_run import DOCKER, FAKE, User, assert_nothing_left
from hosts import Host, TestCluster, on_files_of_runs
from test_cluster_faults import NAME, wait_for

PROCESS = ("runtime=process", f"runtime.python={sys.executable}")
TOKEN, OTHER = "the-launchers-token", "a b'c\"d$(touch hacked)`e`ü\\"


@pytest.mark.parametrize(
    "runtime", [pytest.param(DOCKER, id="docker"), pytest.param(PROCESS, id="process", marks=pytest.mark.slow)]
)
def test_only_the_ranks_see_them_and_nothing_keeps_them(
    lab: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    (tmp_path / "value").write_text(f"{OTHER}\n")
    named = {"HF_TOKEN": {"variable": "MY_TOKEN"}, "OTHER": {"file": str(tmp_path / "value")}}
    user = User(lab, tmp_path / "home", steps=True, secrets=named)
    process = user.start(*FAKE, *runtime, "nnodes=2", "max_steps=600", "log_level=debug", scenario="tell")
    try:
        for node in ("h1_noderank0", "h2_noderank1"):
            folder = tmp_path / "home/result/run" / NAME / "round1" / node
            wait_for(folder / "start_pytorch_task.log", "told: *** ***\n", process)  # not even while it runs
            wait_for(folder / f"rank{node[-1]}.out.log", '"step": 4', process)
        for host in lab.hosts:
            shown = look(host)
            assert "steps.start()" in shown, shown  # the rank runs
            assert TOKEN not in shown and OTHER not in shown
            assert host.output("find", "/srv", "/tmp", "/var/tmp", "-name", ".secrets*") == ""
    finally:
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 130, output
    assert TOKEN not in output and OTHER not in output
    assert holds(tmp_path / "home") == []
    assert_nothing_left(lab)
    for host in lab.hosts:
        assert files_with(host, TOKEN, "touch hacked") == ""


def test_a_start_that_fails_leaves_none(lab: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was sent, and no shell read it: there is no such device for the container."""
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    user = User(lab, tmp_path / "home", steps=True, secrets={"HF_TOKEN": {"variable": "MY_TOKEN"}})
    done = user.run(*FAKE, *DOCKER, "nnodes=2", "+cluster.container.devices=[/dev/not-there]")
    assert done.exit_code == 3 and "docker refuses the container" in done.output, done.output
    assert TOKEN not in done.output and holds(tmp_path / "home") == []
    assert_nothing_left(lab)
    for host in lab.hosts:
        assert files_with(host, TOKEN) == ""


def look(host: Host) -> str:
    """What every user of a host can see of its processes, and what docker tells of its containers."""
    lines = host.output("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true")
    return lines + host.output("sh", "-c", "docker ps -aq | xargs -r docker inspect")


def files_with(host: Host, *texts: str) -> str:
    """Files of a host in which one of the texts stands."""
    return host.run(
        "sh", "-c", on_files_of_runs(f"grep -rlF {' '.join(f'-e {shlex.quote(text)}' for text in texts)}")
    ).stdout


def holds(folder: Path) -> list[Path]:
    """Files in which a secret stands."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if any(secret.encode() in path.read_bytes() for secret in (TOKEN, OTHER))]
