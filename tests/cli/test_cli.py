"""The command line itself: verbs, options, help, what a wrong line is told. No training."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf import __version__
from flagperf.cli.main import HELP, run_command
from flagperf.config.search_path import CONF, options


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run_command(["--help"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == HELP


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run_command(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"flagperf {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(
            ["lsit"],
            "unknown verb\n  where:   command line\n  given:   lsit\n  allowed: did you mean 'list'?\n"
            "  do:      overrides are key=value; flagperf --help",
            id="verb",
        ),
        pytest.param(
            ["--multi"],
            "unrecognized arguments: --multi\n  where:   command line\n  do:      flagperf --help",
            id="option",
        ),
        pytest.param(
            ["--config-dir", "/no/such/folder"],
            "no such folder\n  where:   command line\n  key:     --config-dir\n  given:   /no/such/folder",
            id="config-dir",
        ),
        pytest.param(
            ["list", "case"],
            "there is no such list, and no such case\n  where:   command line\n  given:   case\n"
            "  allowed: did you mean 'cases'?",
            id="list",
        ),
        pytest.param(
            ["report"],
            "report takes one run folder\n  where:   command line\n  given:   \n  do:      flagperf report RUN_DIR",
            id="report without a folder",
        ),
        *(
            pytest.param(
                [verb, "-m", *arguments],
                f"{verb} takes no -m\n  where:   command line\n  key:     -m\n"
                "  do:      only run sweeps over several values; give one value of each key",
                id=f"{verb} -m",
            )
            for verb, arguments in {
                "list": [],
                "report": ["result"],
                "doctor": ["nproc=1,2"],
                "clean": [],
                "check": ["vendor=nvidia"],
                "data": ["check", "model=glm,bert", "data_dir=/data"],
            }.items()
        ),
    ],
)
def test_a_wrong_line_gets_one_message(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(argv) == 2
    assert capsys.readouterr().err == f"flagperf: {message}\n"


def test_list_shows_every_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["list"]) == 0
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    groups = ("model", "vendor", "hardware", "cluster", "experiment")
    assert shown >= {name for group in groups for name in options(group, [CONF])}


def test_shell_completion_answers(tmp_path: Path) -> None:
    environment = {**os.environ, "COMP_LINE": "flagperf model=res", "COMP_POINT": "18"}
    program = "import sys; sys.argv[0] = 'flagperf'; from flagperf.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "-sc", "query=bash"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["model=resnet50"]


def test_a_reader_that_closes_the_output() -> None:
    """As `flagperf dry_run=true | head -1`: no traceback."""
    command = [sys.executable, "-c", "from flagperf.cli.main import main; main()", "dry_run=true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stderr is not None
        writer.stdout.close()
        assert (writer.stderr.read(), writer.wait()) == (b"", 141)
