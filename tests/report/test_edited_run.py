"""A recorded run with edited files. The report and flagperf verify compare the files with the logs of the ranks."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded import recorded_run

from flagperf import report
from flagperf.cli.main import run_command
from flagperf.report.runs import listed
from flagperf.results import summary
from flagperf.run import command_file
from flagperf.run.folder import RUN_LOG
from flagperf.verify import check

JOB = "resnet50-pytorch-cpux1x2"
Edit = Callable[[Path], object]


def replace(files: str, old: str, new: str) -> Edit:
    """Replaces a text in each of the files of the job. Every file must contain the text."""

    def edit(job: Path) -> None:
        for path in sorted(job.glob(files)):
            text, count = re.subn(old, new, path.read_text(), count=1)
            assert count == 1
            path.write_text(text)

    return edit


def together(*edits: Edit) -> Edit:
    return lambda job: [edit(job) for edit in edits]


def recorded(number: int, **values: Any) -> Edit:
    """Sets fields of a round's result.json."""

    def edit(job: Path) -> None:
        path = job / f"round{number}" / "result.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}, indent=2))

    return edit


def without_round(job: Path) -> None:
    """Removes round 1 of two, and gives its number to the other round."""
    shutil.rmtree(job / "round1")
    (job / "round2").rename(job / "round1")
    recorded(1, round=1)(job)


def asked_for(rounds: int) -> Edit:
    """Writes the command of the run."""
    command = command_file.Command((f"repeat={rounds}",), False, (), "/home/me", 5.0)
    return lambda job: command_file.keep(command, job.parent)


def with_hash_of_round_1(job: Path) -> None:
    """Records the hash of round 1 in round 2."""
    recorded(2, previous=hashlib.sha256((job / "round1/result.json").read_bytes()).hexdigest())(job)


def finished_run(folder: Path) -> Path:
    """A copy of a recorded run, as if the launcher had waited for its end."""
    run = recorded_run(folder)
    for number in (1, 2):
        recorded(number, status="finished", verdict="VALID", reasons=[])(run / JOB)
    report.write_again(run, report.read_run(run))
    return run


OWN_SEEDS = together(
    replace("config.yaml", "(?m)^seed: 0$", "seed: 0\nrepeat_seed: own"),
    replace("round*/*/rank*.out.log", '"seed": 0', '"seed": 0, "repeat_seed": "own"'),
    replace("round2/*/rank*.out.log", '"seed": 0', '"seed": 1'),
    recorded(2, seed=1),
)
NOT_READ = "config.yaml is not what the ranks read: "
CHAIN = "the round before it was another one: the hash of that result.json is not the recorded one"
LONGER = "the ranks measured {} s of training, the launcher saw it go on for 62.00 s"
LOGS, EACH = "round*/*/rank*.out.log", ("round1", "round2")
BY_BOTH = {(location, "verdict") for location in (*EACH, "")}
EDITS: dict[str, tuple[Edit, tuple[tuple[str, ...], ...], set[tuple[str, str]]]] = {
    # the edit → the reasons of each round in the report, and the locations and figures that differ in verify
    "nothing": (lambda _: None, ((), ()), set()),
    "nothing, with hashes, seeds and the command": (
        together(OWN_SEEDS, with_hash_of_round_1, asked_for(2)),
        ((), ()),
        set(),
    ),
    "the product": (
        replace("config.yaml", "(?m)^  name: cpu$", "  name: H100"),
        ((NOT_READ + "hardware.name",),) * 2,
        {*BY_BOTH, *((location, "hardware of config.yaml") for location in EACH)},
    ),
    "the division": (
        replace("config.yaml", "division: closed", "division: open"),
        ((NOT_READ + "division",),) * 2,
        {*BY_BOTH, *((location, "division of config.yaml") for location in EACH)},
    ),
    "the fingerprint": (
        replace(LOGS, '"seed": 0', '"seed": 0, "fingerprint": {"network": {"parameters": 5}}'),
        ((NOT_READ + "fingerprint.network.parameters",),) * 2,
        {*BY_BOTH, *((location, "fingerprint of config.yaml") for location in EACH)},
    ),
    "code of the user in a rank": (
        replace(LOGS, '"seed": 0', '"seed": 0, "own": {"PYTHONPATH": "cheat"}'),
        ((NOT_READ + "own.PYTHONPATH",),) * 2,
        {*BY_BOTH, *((location, "own of config.yaml") for location in EACH)},
    ),
    "a round is gone": (
        together(OWN_SEEDS, without_round),
        (("the ranks read seed 1, that of round 1 is 0",), ("not started",)),
        {("round1", "seed of round 1"), ("round1", "verdict"), ("", "verdict")},
    ),
    "a round is gone, and the number of rounds changed": (
        together(OWN_SEEDS, without_round, replace("config.yaml", "repeat: 2", "repeat: 1")),
        ((NOT_READ + "repeat",),),
        {("round1", "seed of round 1"), ("round1", "repeat of config.yaml"), ("round1", "verdict"), ("", "verdict")},
    ),
    "the command asked for more": (
        asked_for(3),
        (("the command asked for 3 rounds, config.yaml says 2",),) * 2,
        {("", "repeat of config.yaml")},
    ),
    "an earlier result, after its hash was recorded": (
        together(with_hash_of_round_1, recorded(1, seconds=99.0)),
        ((), (CHAIN,)),
        {("round2", "previous")},
    ),
    "the launcher saw a longer training": (
        recorded(1, trained=62.0),
        ((LONGER,), ()),
        {("round1", "verdict"), ("", "verdict")},
    ),
    "the launcher did not reach a host meanwhile": (
        recorded(1, trained=62.0, outages=[{"host": "h", "began": 0.0, "seconds": 30.0}]),
        ((), ()),
        set(),
    ),
    "the verdict of a round that failed": (
        recorded(1, status="failed", failure={"cause": "exit code 1"}),
        (("failed: exit code 1",), ()),
        {("round1", "verdict"), ("", "verdict")},
    ),
    "the verdict of a rank that finished twice": (
        replace("round2/*/rank1.out.log", r"(?m)^(.*FINISHED.*)$", r"\1\n\1"),
        ((), ("rank 1 logged FINISHED 2 times: the last one counts",)),
        {("round2", "verdict"), ("", "verdict")},
    ),
}


@pytest.mark.parametrize(("edit", "reasons", "differing"), EDITS.values(), ids=EDITS)
def test_an_edit_is_reported(
    tmp_path: Path, edit: Edit, reasons: tuple[tuple[str, ...], ...], differing: set[tuple[str, str]]
) -> None:
    run = finished_run(tmp_path)
    edit(run / JOB)
    (job,) = report.read_run(run)
    reported = [tuple(re.sub(r"measured [0-9.]+", "measured {}", text) for text in one.reasons) for one in job.results]
    assert reported == list(reasons)
    assert [round_.verdict for round_ in job.results] == [
        "VALID" if not texts else "SUSPECT" if "saw" in texts[0] or "times" in texts[0] else "INVALID"
        for texts in reasons
    ]
    rows = {(row.location.removeprefix(JOB).strip("/"), row.figure) for row in check(run) if row.answer == "differs"}
    of_job = (
        "verdict",
        "repeat of config.yaml",
    )  # other figures of the job come from summary.json, which is not edited
    assert {(location, figure) for location, figure in rows if location or figure in of_job} == differing


def test_list_shows_the_verdict_of_the_report(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    (run / RUN_LOG).touch()
    before = [job.verdict for job in listed(tmp_path)]
    replace("config.yaml", "division: closed", "division: open")(run / JOB)
    assert run_command(["report", str(run)]) == 0
    after = [job.verdict for job in listed(tmp_path)]
    assert (before, after, summary.verdict(summary.read(run / JOB))) == (["VALID"], ["INVALID"], "INVALID")


CPU = "round1/*/cpu_monitor.log"
LOST: dict[str, tuple[Edit, str]] = {  # what is gone → what the warning says after the name of the job
    "the log of a monitor": (
        lambda job: [path.unlink() for path in job.glob(CPU)],
        "round1: cpu of {} (there is no log of it)",
    ),
    "the figures in it": (
        lambda job: [path.write_text("garbage\n") for path in job.glob(CPU)],
        "round1: cpu of {} (there is no log of it)",
    ),
    "the time of the training": (
        lambda job: [path.write_text(re.sub(r"(?m)^\d{4}", "1999", path.read_text())) for path in job.glob(CPU)],
        "round1: cpu of {} (no sample lies in the training, the nearest is ",
    ),
    "the logs of the ranks": (
        lambda job: [path.unlink() for path in job.glob("round1/*/rank*.out.log")],
        "round1: the figures of its ranks (their logs are not there)",
    ),
}


@pytest.mark.parametrize(("edit", "told"), LOST.values(), ids=LOST)
def test_a_report_loses_no_figures(
    tmp_path: Path, edit: Edit, told: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that knows more than the logs stays, and the command names what the logs do not tell."""
    run = finished_run(tmp_path)
    assert run_command(["report", str(run)]) == 0
    files = [run / "report.md", run / "report.html", run / JOB / "summary.json"]
    before = [path.read_bytes() for path in files]
    (node,) = (path.name for path in (run / JOB / "round1").glob("*_noderank0"))
    edit(run / JOB)
    capsys.readouterr()
    assert run_command(["report", str(run)]) == 0
    warning = f"the report stays as it is, for these figures would be lost: {JOB}: {told.format(node)}"
    assert any(record.message.startswith(warning) for record in caplog.records), caplog.text
    assert ([path.read_bytes() for path in files], str(run / "report.md") in capsys.readouterr().out) == (before, False)
