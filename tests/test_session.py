"""Jobs that never start are part of the run: told, counted, and listed again from the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flagperf.cli import run_command


def test_refused_jobs_are_reported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither job finds its data; the first one's exit code counts."""
    words = ["-m", "train_batch_size=8,16", f"data_dir={tmp_path}/gone", f"result_dir={tmp_path}", "run_name=run"]
    assert run_command(words) == 2
    assert capsys.readouterr().out.count("data_dir does not exist") == 2
    run = tmp_path / "run"
    text, page = (run / "report.md").read_text(), (run / "report.html").read_text()
    assert text.startswith("# run\n\n**2 jobs: 2 INVALID.**\n")
    assert run_command(["report", str(run)]) == 0
    assert ((run / "report.md").read_text(), (run / "report.html").read_text()) == (text, page)
    for size in (8, 16):
        job = run / f"resnet50-pytorch-cpux1x1,train_batch_size={size}"
        assert {path.name for path in job.iterdir()} == {"config.yaml", "changes.yaml", "summary.json", "round1"}
        record = json.loads((job / "round1" / "result.json").read_text())
        assert (record["status"], record["failure"].splitlines()[0]) == ("failed", "data_dir does not exist")
        assert record["sweep"] == {"train_batch_size": str(size)}
