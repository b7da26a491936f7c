"""`flagperf rerun`: the command of a run, from its folder alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from user_folder import TOY, write

from flagperf.cli.main import run_command
from flagperf.run.command_file import FILE, Command, keep


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run of the user's own case, whose configuration folder is gone."""
    bench = write(tmp_path / "bench", {"model/toy": TOY})
    folder = tmp_path / "run"
    folder.mkdir()
    words = ("model=toy", "size=tiny", "max_steps=7", "run_name=first", "dry_run=true")
    monkeypatch.chdir(tmp_path)
    keep(Command(words, False, (str(bench),), str(tmp_path), 1000.0), folder)
    for path in sorted(bench.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    return folder


def test_it_is_composed_as_then(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["rerun", str(run)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"flagperf --config-dir {run.parent}/bench model=toy size=tiny max_steps=7 dry_run=true"
    assert "max_steps: 7" in [line.strip() for line in said]
    assert not [line for line in said if line.startswith("note:")]


def test_an_override_takes_the_place_of_the_old_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["rerun", str(run), "max_steps=9", "nproc=2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith(" model=toy size=tiny dry_run=true max_steps=9 nproc=2")
    assert "max_steps: 9" in [line.strip() for line in said]


def test_what_is_not_as_it_was_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads((run / FILE).read_text())
    now = " ".join(record["code"].values())
    record |= {"code": {"flagperf": "aa", "cases": "bb"}, "version": "0.0.9", "folder": "/elsewhere"}
    (run / FILE).write_text(json.dumps(record))
    assert run_command(["rerun", str(run), "trust=true"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note:")]
    version = {field.name: field.default for field in dataclasses.fields(Command)}["version"]
    assert notes == [
        f"note: the code is not that of the run: flagperf 0.0.9, code aa bb; now flagperf {version}, code {now}",
        f"note: the run began in /elsewhere; relative paths count from {run.parent} now",
    ]


@pytest.mark.parametrize("words", [[], ["max_steps=3"]])
def test_without_a_run(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["rerun", *words]) == 2
    assert capsys.readouterr().err == (
        "flagperf: rerun takes one run folder\n  where:   command line\n"
        "  do:      flagperf rerun RUN_DIR [OVERRIDES…]\n"
    )
