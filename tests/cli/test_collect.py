"""`flagperf report RUN_DIR collect=true` where nothing can be collected; tests/cluster brings what real hosts kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from recorded import recorded_run

from flagperf.cli.main import run_command
from flagperf.run.folder import held

PLAN = (
    '{"nodes": [{"node": {"name": "here", "address": "127.0.0.1", "local": true}, "log_dir": "/x/run/case/round1/n"}]}'
)
CONFIG = """
cluster: {name: x, title: x, nodes: [{name: here, address: 127.0.0.1, local: true}]}
vendor: {environment: {HF_TOKEN: '***'}}
deadlines: {connect: 5}
"""


def run_folder(folder: Path, plan: str = PLAN, config: str = CONFIG) -> None:
    round_ = folder / "case/round1"
    round_.mkdir(parents=True)
    (round_ / "plan.json").write_text(plan)
    (round_ / "config.yaml").write_text(config)
    (folder / "flagperf_run.log").write_text("")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "an empty folder": (
        lambda _: None,
        "flagperf: no run in this folder\n  where:   command line\n  given:   {f}\n"
        "  do:      give a folder such as result/run20260101-120000\n",
    ),
    "a damaged plan": (
        lambda folder: run_folder(folder, plan="{}"),
        "flagperf: plan.json or config.yaml of this round cannot be read\n  where:   {f}/case/round1\n"
        "  given:   'nodes'\n",
    ),
    "a log folder that a command takes for an option": (
        lambda folder: run_folder(folder, plan=PLAN.replace("/x/run", "-rf/run")),
        "flagperf: plan.json or config.yaml of this round cannot be read\n  where:   {f}/case/round1\n"
        "  given:   log_dir is no absolute path: -rf/run/case/round1/n\n",
    ),
    "a damaged configuration": (
        lambda folder: run_folder(folder, config="[]"),
        "flagperf: plan.json or config.yaml of this round cannot be read\n  where:   {f}/case/round1\n"
        "  given:   list indices must be integers or slices, not str\n",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(
    make: Callable[[Path], object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path)
    assert run_command(["report", str(tmp_path), "collect=true"]) == 2
    assert capsys.readouterr().err == message.format(f=tmp_path)


def test_a_secret_that_is_not_told_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stay in logs that are brought; no file of the run has it."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    run_folder(tmp_path, plan=PLAN.replace('"local": true', '"local": false'))
    assert run_command(["report", str(tmp_path), "collect=true", "trust=true"]) == 2
    assert capsys.readouterr().err == (
        "flagperf: this variable was secret in the run: flagperf searches the logs for its value\n"
        f"  where:   {tmp_path}/case/round1/config.yaml\n  key:     vendor.environment.HF_TOKEN\n"
        "  do:      set HF_TOKEN to its value of the run, and collect again\n"
    )


def test_without_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["report", "collect=true"]) == 2
    assert capsys.readouterr().err.startswith("flagperf: report takes one run folder\n")


def test_a_run_of_this_machine_has_nothing_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recorded_run(tmp_path)
    for round_ in run.glob("*/round*"):
        (round_ / "plan.json").write_text(PLAN)
        (round_ / "config.yaml").write_text(CONFIG)
    assert run_command(["report", str(run), "collect=true", "trust=true"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert (shown[0], shown[-1]) == ("nothing is left to collect", str(run / "report.html"))


def test_a_run_that_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(tmp_path)
    with held(tmp_path):
        assert run_command(["report", str(tmp_path), "collect=true"]) == 2
    assert capsys.readouterr().err == (
        f"flagperf: this run is still running\n  where:   command line\n  given:   {tmp_path}\n"
        "  do:      the run collects its own logs at its end\n"
    )
