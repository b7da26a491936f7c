"""Rounds that never start are part of the run: told, counted, and listed again from the files."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from flagperf.cli.main import run_command

FAULTS = Path(__file__).parents[1] / "faults"
CASE = "resnet50-pytorch-cpux1x1"

# Starts the ranks of one round, and is gone by the next round.
PYTHON = f"""#!/bin/sh
case "$*" in *start_workload*) rm "$0";; esac
exec {sys.executable} "$@"
"""


@pytest.mark.parametrize(
    ("overrides", "sizes"),
    [
        pytest.param(["repeat=2"], [None], id="one job"),
        pytest.param(["-m", "train_batch_size=8,16"], [8, 16], id="a sweep"),
    ],
)
def test_a_refused_job_leaves_its_cause_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], overrides: list[str], sizes: list[int | None]
) -> None:
    """No job finds its data."""
    assert run_command([*overrides, f"data_dir={tmp_path}/gone", f"result_dir={tmp_path}", "run_name=run"]) == 2
    said = capsys.readouterr()
    assert said.err.count("flagperf: data_dir does not exist\n  where:   command line\n") == len(sizes)
    run = tmp_path / "run"
    log = (run / "flagperf_run.log").read_text()
    assert log.count("data_dir does not exist\n  where:   command line\n") == len(sizes)
    written = [(run / name).read_text() for name in ("report.md", "report.html")]
    assert run_command(["report", str(run)]) == 0
    assert [(run / name).read_text() for name in ("report.md", "report.html")] == written
    for size in sizes:
        job = run / (f"{CASE},train_batch_size={size}" if size else CASE)
        assert {path.name for path in job.iterdir()} == {"config.yaml", "changes.yaml", "summary.json", "round1"}
        record = json.loads((job / "round1" / "result.json").read_text())
        assert (record["status"], record["failure"]["cause"]) == ("failed", "data_dir does not exist")
        assert {**record["failure"]["details"], "allowed": None} == {
            "where": "command line",
            "key": "data_dir",
            "given": f"{tmp_path}/gone",
            "allowed": None,
        }
        assert record["sweep"] == ({"train_batch_size": str(size)} if size else {})


@pytest.mark.torch
def test_a_round_that_cannot_start_leaves_the_earlier_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAULTS), *sys.path]))
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    argv = ["--config-dir", str(FAULTS / "conf"), "model=workload", f"runtime.python={python}", "repeat=3"]
    assert run_command([*argv, f"result_dir={tmp_path}", "run_name=run"]) == 3
    said = capsys.readouterr()
    assert f"{python}: No such file or directory" in said.err
    job = tmp_path / "run" / "workload-workload-cpux1x1"
    rounds = json.loads((job / "summary.json").read_text())["results"]
    assert [(one["round"], one["status"]) for one in rounds] == [(1, "finished"), (2, "failed"), (3, "not started")]
    of_files = [json.loads((job / f"round{number}/result.json").read_text()) for number in (1, 2)]
    assert [{"schema": 3, **one} for one in rounds[:2]] == of_files
    assert of_files[0]["verdict"] == "VALID"
    report = (tmp_path / "run" / "report.md").read_text()
    assert "round 2: INVALID**\n\n- failed: " in report and "round 3: INVALID**\n\n- not started\n" in report
    assert run_command(["report", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "report.md").read_text() == report


SUITE = """\
# @package _global_
suite:
  - {{model: workload, seed: 1, repeat: 2}}
  - {{model: workload, seed: 2, data_dir: {later}}}
  - {{model: workload, seed: 3}}
"""


@pytest.mark.torch
def test_a_suite_goes_on_where_it_broke(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data of the second job is not there at first. What was done is not done again."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAULTS), *sys.path]))
    later = tmp_path / "later"
    (tmp_path / "conf/experiment").mkdir(parents=True)
    (tmp_path / "conf/experiment/mine.yaml").write_text(SUITE.format(later=later))
    folders = ["--config-dir", str(FAULTS / "conf"), "--config-dir", str(tmp_path / "conf")]
    argv = [*folders, "-m", "+experiment=mine", f"result_dir={tmp_path}"]
    assert run_command([*argv, "run_name=broken"]) == 2
    later.mkdir()
    assert run_command([*argv, "run_name=whole", f"resume={tmp_path}/broken"]) == 0
    assert capsys.readouterr().out.count(f"  done in {tmp_path}/broken: taken over\n") == 2
    rounds = {run: [_rounds(tmp_path / run, seed) for seed in (1, 2, 3)] for run in ("broken", "whole")}
    assert [[one["status"] for one in job] for job in rounds["broken"]] == [["finished"] * 2, ["failed"], ["finished"]]
    assert [[one["status"] for one in job] for job in rounds["whole"]] == [["finished"] * 2, ["finished"], ["finished"]]
    assert (rounds["whole"][0], rounds["whole"][2]) == (rounds["broken"][0], rounds["broken"][2])
    report = _lines(tmp_path / "whole")
    assert run_command(["report", str(tmp_path / "whole")]) == 0
    assert _lines(tmp_path / "whole") == report


def _lines(run: Path) -> list[str]:
    """The lines of a report, whatever the order of its jobs: `flagperf report` has that in which they were started."""
    return sorted(re.sub(r"job\d", "job", line) for line in (run / "report.md").read_text().splitlines())


def _rounds(run: Path, seed: int) -> list[dict[str, object]]:
    (folder,) = run.glob(f"workload-workload-cpux1x1,seed={seed}*")
    rounds: list[dict[str, object]] = json.loads((folder / "summary.json").read_text())["results"]
    return rounds
