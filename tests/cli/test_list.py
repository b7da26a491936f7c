"""`flagperf list`: names and titles, from shipped files and the user's own; the runs of a folder."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from example_results import CONFIG, a_result
from user_folder import TOY, write

from flagperf.cli.list import KINDS, rows
from flagperf.cli.main import run_command
from flagperf.results import summary


@pytest.mark.parametrize("kind", KINDS)
def test_shipped_choices_have_titles(kind: str) -> None:
    found = rows(kind)
    assert found == sorted(found)
    assert found
    assert [name for name, title in found if not title] == []


@pytest.mark.parametrize(
    ("kind", "file", "text", "row"),
    [
        pytest.param("cases", "model/toy", TOY, ("toy", "a case of the user's own"), id="title"),
        pytest.param(
            "vendors",
            "vendor/acme",
            '# @package _global_\n# flagperf vendor=acme\nvendor:\n  title: "Acme\'s chips"  # all of them\n',
            ("acme", "Acme's chips"),
            id="title below its group",
        ),
        pytest.param(
            "experiments",
            "experiment/night",
            "# @package _global_\n# flagperf +experiment=night\n#\n# What runs at night.\n# Every night.\nrepeat: 3\n",
            ("night", "What runs at night."),
            id="first comment",
        ),
        pytest.param("clusters", "cluster/bad", "nodes: [\n", ("bad", ""), id="not YAML"),
    ],
)
def test_the_users_own(tmp_path: Path, kind: str, file: str, text: str, row: tuple[str, str]) -> None:
    assert row in rows(kind, [write(tmp_path, {file: text})])


def test_frameworks_with_how_to_get_each(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run_command(["list", "frameworks"])
    lines = {
        line.split()[0]: re.split(r"\s{2,}", line.strip())[1:] for line in capsys.readouterr().out.splitlines()[1:]
    }
    assert lines["paddle"] == ["PaddlePaddle, ranks started by flagperf", "make paddle"]
    assert lines["pytorch"] == ["PyTorch, ranks started by torchrun", "pip install 'flagperf[train]' for that python"]


def test_a_users_file_replaces_the_shipped_one(tmp_path: Path) -> None:
    mine = write(tmp_path, {"cluster/local": "title: my machine\nnodes: [{address: 127.0.0.1, local: true}]\n"})
    assert ("local", "my machine") in rows("clusters", [mine])


def test_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, began in (("old", 1000.0), ("new", 100_000.0)):
        job = tmp_path / name / "resnet50-pytorch-A100x2x8"
        job.mkdir(parents=True)
        (job / "config.yaml").touch()
        (job.parent / "flagperf_run.log").touch()
        result = a_result(started=began, values={"p_train": 1234.5}, sample_data=name == "old")
        summary.write(summary.summary_of(job.name, [result], CONFIG, ()), job)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert run_command(["list", "runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "date              run  job                        verdict  p_train\n"
        "1970-01-02 03:46  new  resnet50-pytorch-A100x2x8  VALID    1,234 images/s\n"
        "1970-01-01 00:16  old  resnet50-pytorch-A100x2x8  VALID    1,234 images/s\n"
        "    sample data\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["runs", "EMPTY"],
            "flagperf: no run in this folder\n  where:   command line\n  given:   EMPTY\n"
            "  do:      give the result_dir of your runs: flagperf list runs RESULT_DIR\n",
            id="no run",
        ),
        pytest.param(
            ["runs", "a", "b"],
            "flagperf: list runs takes one result folder\n  where:   command line\n  given:   a b\n"
            "  do:      flagperf list runs [RESULT_DIR]\n",
            id="two folders",
        ),
        pytest.param(
            ["run"],
            "flagperf: unknown kind of list\n  where:   command line\n  given:   run\n"
            "  allowed: did you mean 'runs'?\n",
            id="unknown kind",
        ),
    ],
)
def test_what_cannot_be_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    given = [word.replace("EMPTY", str(tmp_path)) for word in words]
    assert run_command(["list", *given]) == 2
    assert capsys.readouterr().err == message.replace("EMPTY", str(tmp_path))
