"""`flagperf compare`: real runs' folders in, a table and an exit code out; what it refuses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from example_results import CONFIG, write_round

from flagperf import report
from flagperf.cli.main import run_command
from flagperf.contract.perflog import parse
from flagperf.results import result, summary

JOB = "resnet50-pytorch-A100x2x8"
USAGE = (
    "flagperf compare BASE OTHER… [by=KEY] [gate='p_train>-3%'] [align=1%] [across=KEY] [same=1%] "
    "[noise=DIR] [html=FILE …]"
)
TOO_FEW = "compare takes at least two runs, or one with by="
OF_JOB = CONFIG | {"repeat": 3, "mutable": []}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three rounds; the second is 5 % slower."""
    folder = tmp_path_factory.mktemp("result")
    for name, factor in (("old", 1.0), ("new", 0.95)):
        job = folder / name / JOB
        job.mkdir(parents=True)
        (folder / name / "flagperf_run.log").touch()
        (job / "config.yaml").write_text(yaml.safe_dump(OF_JOB))
        for number, speed in enumerate((1.0, 1.002, 0.998), start=1):
            place = job / f"round{number}"
            seconds = 18.0 / (speed * factor)
            write_round(place, train_no_eval_time=seconds, p_train=3200 / seconds)
            result.write(result.result_of_logs(CONFIG, (), number, place, result.Ending("finished")), place)
    return folder


@pytest.mark.parametrize(
    ("gate", "code", "outcome"),
    [
        pytest.param("p_train>-3%", 7, "failed  p_train>-3%  -5.00 % (-5.43 % to -4.57 %)", id="failed"),
        pytest.param("p_train>-10%", 0, "passed  p_train>-10%  -5.00 % (-5.43 % to -4.57 %)", id="passed"),
        pytest.param(
            "p_train>-5%",
            8,
            "undecided  p_train>-5%  -5.00 % (-5.43 % to -4.57 %): even 100 rounds a side would not decide: "
            "they vary too much, or the change is too near to the bound",
            id="undecided",
        ),
    ],
)
def test_the_exit_code_is_the_gates(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, gate: str, code: int, outcome: str
) -> None:
    files = [tmp_path / "c.md", tmp_path / "c.xml", tmp_path / "c.html"]
    words = [f"gate={gate}", f"markdown={files[0]}", f"junit={files[1]}", f"html={files[2]}"]
    assert run_command(["compare", str(runs / "old"), str(runs / "new"), *words]) == code
    assert outcome in capsys.readouterr().out
    written = [file.read_bytes() for file in files]
    assert run_command(["compare", str(runs / "old"), str(runs / "new"), *words]) == code
    assert [file.read_bytes() for file in files] == written  # to the byte


@pytest.mark.parametrize(
    ("factor", "code", "outcome"),
    [
        pytest.param(1.0, 0, "passed  align=1%  seed 0, 10 steps in common, mean error of the loss 0 %", id="inside"),
        pytest.param(1.02, 7, "failed  align=1%  seed 0, 10 steps in common, mean error of the loss 2 %", id="outside"),
    ],
)
def test_losses_are_held_against_a_reference(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, factor: float, code: int, outcome: str
) -> None:
    for name in ("reference", "device"):
        shutil.copytree(runs / "old", tmp_path / name, ignore=shutil.ignore_patterns("round[23]", "result.json"))
        for log in (tmp_path / name).glob(f"{JOB}/round*/*/rank*.out.log"):
            log.write_text(
                "".join(_seeded(line, factor if name == "device" else 1.0) for line in log.read_text().splitlines())
            )
    words = ["compare", str(tmp_path / "reference"), str(tmp_path / "device"), "align=1%"]
    words += [f"junit={tmp_path}/a.xml", f"html={tmp_path}/a.html"]
    assert run_command(words) == code
    assert outcome in capsys.readouterr().out
    assert f'failures="{code // 7}"' in (tmp_path / "a.xml").read_text()
    assert '"title":"Loss, seed 0: band of 1 %"' in (tmp_path / "a.html").read_text()


def _seeded(line: str, factor: float) -> str:
    """A line of a rank's log, with a seed and with other losses."""
    event = parse(line)
    assert event
    if event.event == "SUBMIT_INFO":
        event = replace(event, value={**event.value, "config": {**OF_JOB, "seed": 0}})
    if event.event == "STEP_END":
        event = replace(event, value={**event.value, "loss": event.value["loss"] * factor})
    return f"{event.line()}\n"


def test_scales_are_shown_together(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one, two = (shutil.copytree(runs / "old", tmp_path / name) for name in ("1x8", "2x8"))
    config = one / JOB / "config.yaml"
    config.write_text(config.read_text().replace("nnodes: 2", "nnodes: 1"))
    for second in one.glob(f"{JOB}/round*/*_noderank1"):
        shutil.rmtree(second)
    assert run_command(["compare", str(one), str(two)]) == 0
    said = capsys.readouterr().out.partition("scaling")[2].splitlines()
    assert [line.split()[:3] for line in said[1:4]] == [
        ["case", "scale", "devices"],
        ["resnet50", "1x8", "8"],
        ["resnet50", "2x8", "16"],
    ]


def test_jobs_can_be_given_too(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["compare", str(runs / "old" / JOB), str(runs / "new")]) == 0
    assert "Student's t with 4 degrees of freedom" in " ".join(capsys.readouterr().out.split())


def test_against_what_is_published(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "published", str(runs / "new"), "across=precision", "gate=p_train>-3%"]
    assert run_command(words) == 8
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"published/resnet50-A100x2x8  →  {runs}/new/{JOB}"
    assert said[-1].startswith("undecided  p_train>-3%  -98.")


def test_earlier_rounds_are_found_beside_the_runs(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        shutil.copytree(runs / "old", tmp_path / name, ignore=shutil.ignore_patterns("round[23]"))
        config = tmp_path / name / JOB / "config.yaml"
        config.write_text(config.read_text().replace("repeat: 3", "repeat: 1"))
    words = ["compare", str(tmp_path / "one"), str(tmp_path / "two")]
    assert run_command(words) == 0
    assert "One round of a job: how its rounds vary is not known" in " ".join(capsys.readouterr().out.split())
    earlier = shutil.copytree(runs / "old", tmp_path / "earlier")
    (three,) = report.read_run(earlier)
    summary.write(three, earlier / JOB)
    assert run_command(words) == 0
    said = "Student's t with 2 degrees of freedom (2 from earlier rounds)"
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            [],
            f'{TOO_FEW}\n  where:   command line\n  given:   ""\n  do:      {USAGE}',
            id="nothing",
        ),
        pytest.param(
            ["OLD"],
            f"{TOO_FEW}\n  where:   command line\n  given:   OLD\n  do:      {USAGE}",
            id="one run",
        ),
        pytest.param(
            ["OLD", "NEW", "gat=x"],
            f"unknown option of compare\n  where:   command line\n  given:   gat\n  allowed: did you mean 'gate'?\n"
            f"  do:      {USAGE}",
            id="unknown option",
        ),
        pytest.param(
            ["OLD", "NEW", "junit=x.xml"],
            "junit= writes decisions\n  where:   command line\n  key:     junit\n  given:   x.xml\n"
            "  do:      add gate=… or align=…",
            id="junit and nothing to decide",
        ),
        pytest.param(
            ["OLD", "NEW", "same=much"],
            "no share\n  where:   command line\n  key:     same\n  given:   much\n"
            "  allowed: a share such as 1% or 0.01",
            id="no share",
        ),
        pytest.param(
            ["OLD", "NEW", "align=-1%"],
            "no share\n  where:   command line\n  key:     align\n  given:   -1%\n"
            "  allowed: a share such as 1% or 0.01",
            id="no share to align within",
        ),
        pytest.param(
            ["OLD", "NEW", "across=precison"],
            "unknown key\n  where:   command line\n  key:     across\n  given:   precison\n"
            "  allowed: did you mean 'precision'?",
            id="across what",
        ),
        pytest.param(
            ["OLD", "NEW", "noise=/nowhere"],
            "no such folder\n  where:   command line\n  key:     noise\n  given:   /nowhere\n"
            "  do:      give a result folder, in which runs lie",
            id="no folder for the noise",
        ),
        pytest.param(
            ["OLD", "NEW", "markdown=/nowhere/c.md"],
            "the file cannot be written: No such file or directory\n  where:   command line\n  key:     markdown\n"
            "  given:   /nowhere/c.md",
            id="no place for a file",
        ),
        pytest.param(
            ["OLD", "by=nproc"],
            f"no two jobs make a pair\n  where:   command line\n  given:   OLD/{JOB}\n"
            "  do:      by=KEY compares jobs with different values of KEY",
            id="one value only",
        ),
    ],
)
def test_what_is_refused(runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    old, new = str(runs / "old"), str(runs / "new")
    assert run_command(["compare", *(word.replace("OLD", old).replace("NEW", new) for word in words)]) == 2
    assert capsys.readouterr().err == f"flagperf: {message.replace('OLD', old)}\n"
