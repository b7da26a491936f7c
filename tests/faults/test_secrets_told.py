"""A rank on this machine that is given secrets, and prints them: who can see them while it runs, and what is kept."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import psutil
import pytest
from test_faults import Launcher, launch

TOKEN, OTHER, KEY = "the-launchers-token", "a b'c\"d$(touch hacked)`e`ü\\", "key-of-the-vendor"
SECRETS = (TOKEN, OTHER, KEY)


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    (tmp_path / "value").write_text(f"{OTHER}\n")
    named = f"{{HF_TOKEN: {{variable: MY_TOKEN}}, OTHER: {{file: {tmp_path}/value}}}}"
    before = os.umask(0o077)
    try:
        return launch(
            tmp_path / "runs" / "run",
            f"+cluster.secrets={named}",
            "+vendor.environment.WANDB_API_KEY='${oc.env:MY_KEY}'",
            *("division=open", "task.fault=tell", "max_steps=100000", "log_level=debug"),
        )
    finally:
        os.umask(before)


def test_only_the_rank_sees_them_and_nothing_keeps_them(tmp_path: Path, launcher: Launcher) -> None:
    try:
        deadline = time.monotonic() + 200
        while KEY not in launcher.log("rank1.out.log"):
            assert launcher.process.poll() is None and time.monotonic() < deadline, launcher.process.communicate()[0]
            time.sleep(0.1)
        assert launcher.log("rank1.out.log").splitlines()[-3:] == list(SECRETS)
        assert seen_in_command_lines() == []
        assert list((tmp_path / "runs").rglob(".secrets*")) == []
    finally:
        (tmp_path / "gate").touch()
    code, output = launcher.wait()
    assert code == 5, output
    assert "RuntimeError: *** *** ***" in output
    assert launcher.log("rank1.out.log").splitlines().count("***") == 3
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    kept = {path: path.read_bytes() for path in files}
    assert [path for path, data in kept.items() if any(secret.encode() in data for secret in SECRETS)] == []
    assert [secret for secret in SECRETS if secret in output] == []
    assert b"WANDB_API_KEY: '***'" in kept[next((tmp_path / "runs").glob("run/*/config.yaml"))]
    assert b"HF_TOKEN:\n      variable: MY_TOKEN\n" in kept[next((tmp_path / "runs").glob("run/*/config.yaml"))]
    run = [launcher.folder, *launcher.folder.rglob("*")]
    assert [path for path in run if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    assert not Path("hacked").exists()
    assert launcher.left() == []


def seen_in_command_lines() -> list[str]:
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue  # ended meanwhile
    return [line for line in lines if any(secret in line for secret in SECRETS)]
