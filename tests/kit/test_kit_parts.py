"""The parts of a kit that need no network: the archive, the tags of a platform, the list of data, refusals."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from flagperf.cli.main import run_command
from flagperf.config.compose import compose
from flagperf.errors import ConfigError
from flagperf.kit import archive
from flagperf.kit.data import full_data
from flagperf.kit.wheels import Target, pip, platform_tags, this_python


@pytest.mark.parametrize("suffix", archive.SUFFIXES)
def test_the_same_files_give_the_same_archive(tmp_path: Path, suffix: str) -> None:
    written = []
    for number, names in enumerate((("b/install.sh", "a.txt"), ("a.txt", "b/install.sh"))):
        folder = tmp_path / str(number)
        (folder / "b").mkdir(parents=True)
        for name in names:
            (folder / name).write_text(name)
            os.utime(folder / name, (number, number))
        (tmp_path / "linked").write_text("an image")
        (folder / "image.tar").symlink_to(tmp_path / "linked")
        target = tmp_path / f"{number}{suffix}"
        archive.write(folder, target, "kit")
        written.append(target.read_bytes())
    assert written[0] == written[1]
    plain = tmp_path / "plain.tar"
    with (tmp_path / f"0{suffix}").open("rb") as source, plain.open("wb") as file:
        zstandard.ZstdDecompressor().copy_stream(source, file) if suffix.endswith("zst") else file.write(source.read())
    with tarfile.open(plain) as tar:
        assert [(member.name, oct(member.mode), member.isfile()) for member in tar] == [
            ("kit/a.txt", "0o644", True),
            ("kit/b/install.sh", "0o755", True),
            ("kit/image.tar", "0o644", True),
        ]


def test_the_platforms_that_a_tag_accepts() -> None:
    assert platform_tags("manylinux_2_18_aarch64")[:3] == [
        "manylinux_2_18_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
    ]
    assert platform_tags("linux_aarch64") == ["linux_aarch64"]
    assert Target(("3.10",)).pip_options(this_python()) == []
    assert Target(("3.10",), "linux_aarch64").pip_options("3.10") == [
        "--implementation=cp",
        "--python-version=3.10",
        "--platform=linux_aarch64",
    ]


def test_the_list_of_the_full_data(tmp_path: Path) -> None:
    for name in ("train/0/a.JPEG", "val/0/b.JPEG"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("a picture")
    job = compose(["model=resnet50", "size=full", f"data_dir={tmp_path}", "dry_run=true"], [])
    listed = full_data(job, print)
    assert listed["extent"] == {"unit": "images", "train": 1281167, "eval": 50000, "classes": 1000}
    sha256 = "92b2fa58028958317e408bd84ecfa70f5ee35b121991dbc232c49d166353708b"
    assert [(file["name"], file["bytes"]) for file in listed["files"]] == [("train/0/a.JPEG", 9), ("val/0/b.JPEG", 9)]
    assert {file["sha256"] for file in listed["files"]} == {sha256}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["model=resnet50"], "pack needs into=\n", id="no file"),
        pytest.param(["into=kit.zip"], "unknown format\n  where:   command line\n  key:     into\n  given:   kit.zip\n"
                     "  allowed: FILE.tar.zst or FILE.tar\n", id="another format"),
        pytest.param(["into=nowhere/kit.tar"], "no such folder\n", id="no folder"),
        pytest.param(["into=here.tar"], "this file exists already\n", id="an existing file"),
        pytest.param(["into=kit.tar", "python=2"], "no version of Python\n  where:   command line\n  key:     python\n"
                     "  given:   2\n  allowed: 3.10, 3.11 …, or several: 3.12,3.10\n", id="another Python"),
    ],
)  # fmt: skip
def test_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.tar").touch()
    assert run_command(["pack", *words]) == 2
    assert told in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["here.tar"]


@pytest.mark.pip
def test_pips_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        pip(["download", "--no-index", f"--dest={tmp_path}", "flagperf-not-there"], print)
    assert refusal.value.problem == "pip download failed"
    assert "No matching distribution found for flagperf-not-there" in str(refusal.value)
