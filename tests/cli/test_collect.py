"""`flagperf collect` on folders that have nothing to collect; tests/cluster brings what real hosts kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flagperf.cli.main import run_command
from flagperf.run.folder import held

PLAN = (
    '{"nodes": [{"node": {"name": "here", "address": "127.0.0.1", "local": true}, "log_dir": "/x/run/case/round1/n"}]}'
)
CONFIG = "cluster: {nodes: [{name: here, address: 127.0.0.1, local: true}]}\ndeadlines: {connect: 5}\n"


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
    assert run_command(["collect", str(tmp_path)]) == 2
    assert capsys.readouterr().err == message.format(f=tmp_path)


def test_without_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["collect"]) == 2
    assert capsys.readouterr().err.startswith("flagperf: collect takes one run folder\n")


def test_a_run_of_this_machine_has_nothing_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(tmp_path)
    assert run_command(["collect", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing is left to collect\n"


def test_a_run_that_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(tmp_path)
    with held(tmp_path):
        assert run_command(["collect", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"flagperf: this run goes on\n  where:   command line\n  given:   {tmp_path}\n"
        "  do:      it collects its logs itself when it ends\n"
    )
