"""Shell completion: the words that it offers, and that it never writes anything else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from user_folder import TOY, write

from flagperf.cli.complete import complete
from flagperf.cli.help import verbs


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two runs, two bundles, and a folder of the user's own."""
    for name in ("run1", "run2"):
        (tmp_path / "result" / name).mkdir(parents=True)
        (tmp_path / "result" / name / "flagperf_run.log").touch()
    (tmp_path / "result/run1/job").mkdir()
    (tmp_path / "result/run1/job/summary.json").touch()
    (tmp_path / "sent").mkdir()
    for bundle in ("one.tar.zst", "sent/two.tar.zst"):
        (tmp_path / bundle).touch()
    write(tmp_path / "mine", {"model/toy": TOY, "cluster/lab": "title: mine\n"})
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("flagperf com", ["compare", "compile=", "compile_modules="], id="verbs and keys"),
        pytest.param("flagperf model=res", ["model=resnet50"], id="a case"),
        pytest.param("flagperf precision=amp", ["precision=amp_bf16", "precision=amp_fp16"], id="options of a key"),
        pytest.param("flagperf dry_run=", ["dry_run=false", "dry_run=true"], id="a switch"),
        pytest.param("flagperf train_b", ["train_batch_size="], id="a key"),
        pytest.param("flagperf train_batch_size=", ["train_batch_size=auto"], id="a number, or a word"),
        pytest.param("flagperf --config-dir mine model=toy dep", ["depth="], id="a key of a case of the user's own"),
        pytest.param(
            "flagperf deadlines.st", ["deadlines.stall=", "deadlines.start=", "deadlines.stop="], id="below a key"
        ),
        pytest.param(
            "flagperf vendor=nvidia hardware=",
            [
                f"hardware={name}"
                for name in ("A100", "A800", "B200", "GB200", "H100", "H20", "H200", "H800", "L40S", "RTX4090")
            ],
            id="hardware of the vendor",
        ),
        pytest.param("flagperf +experiment=sm", ["+experiment=smoke"], id="an experiment"),
        pytest.param("flagperf --config-dir mine cluster=l", ["cluster=lab", "cluster=local"], id="own"),
        pytest.param("flagperf --config-dir gone cluster=", None, id="a folder that is not there"),
        pytest.param("flagperf ", [*verbs()], id="verbs alone before a letter"),
        pytest.param("flagperf model=toy ", [], id="no key before a letter"),
        pytest.param("flagperf data_dir=", ["data_dir=mine/", "data_dir=result/", "data_dir=sent/"], id="folders"),
        pytest.param("flagperf resume=./result/r", ["resume=./result/run1/", "resume=./result/run2/"], id="below one"),
        pytest.param("flagperf report ", ["result/run1", "result/run2", "collect=", "trust="], id="runs"),
        pytest.param("flagperf compare result/run1 result/run2", ["result/run2"], id="further runs"),
        pytest.param("flagperf compare pub", ["published"], id="published figures"),
        pytest.param("flagperf compare result/run1/", ["result/run1/job"], id="a job of a run"),
        pytest.param("flagperf compare result/run1 result/run2 g", ["gate="], id="what a verb takes"),
        pytest.param(
            "flagperf export ",
            ["result/run1", "result/run2", "conversion=", "key=", "meter=", "network="],
            id="runs to pack",
        ),
        pytest.param("flagperf verify ", ["one.tar.zst", "key=", "keys="], id="bundles"),
        pytest.param("flagperf verify sent/t", ["sent/two.tar.zst"], id="bundles of a folder"),
        pytest.param("flagperf list pad", ["paddle/bert"], id="a case of a list"),
        pytest.param("flagperf list bert fr", ["frameworks", "framework="], id="what a list takes"),
        pytest.param("flagperf list bert framework=pad", ["framework=paddle"], id="a framework of a list"),
        pytest.param("flagperf run probe=f", ["probe=fabric"], id="a key of a run"),
        pytest.param("flagperf data prep", ["prepare"], id="what to do with data"),
        pytest.param("flagperf docs ca", ["case", "case="], id="what a page is about"),
        pytest.param("flagperf docs submission result/run1 result/run", ["result/run1", "result/run2"], id="measured"),
        pytest.param("flagperf modelzoo export int", ["into="], id="an option of a verb"),
        pytest.param("flagperf modelzoo export model=vi", ["model=vit"], id="a case to export"),
        pytest.param("flagperf docs case runs=", ["runs=result/run1", "runs=result/run2"], id="runs behind an option"),
        pytest.param("flagperf check vendor=me", ["vendor=metax"], id="a vendor to check"),
        pytest.param("flagperf --m", ["--multirun"], id="an option"),
    ],
)
def test_completion(line: str, words: list[str] | None) -> None:
    if words is None:
        assert ask(line) == ("", "")
    else:
        assert complete(line) == words


def ask(line: str) -> tuple[str, str]:
    """What a shell reads that asks, and what stands in the prompt."""
    program = "import sys; sys.argv[0] = 'flagperf'; from flagperf.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "-sc", "query=bash"],
        env={**os.environ, "COMP_LINE": line, "COMP_POINT": str(len(line))},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("flagperf model=res", "model=resnet50", id="a word"),
        pytest.param("flagperf 'model=", "", id="an open quote"),
        pytest.param('flagperf model="${x', "", id="a variable"),
    ],
)
def test_a_shell_gets_words_and_no_errors(line: str, words: str) -> None:
    assert ask(line) == (words, "")
