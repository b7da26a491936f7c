"""The command line itself: verbs, options, help, what a wrong line is told. No training."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from flagperf_command import FLAGPERF

from flagperf import __version__
from flagperf.cli.help import EXIT_CODES, usage, verbs, words_of
from flagperf.cli.main import run_command
from flagperf.config.files.search_path import CONF, options
from flagperf.config.schema.keys import GROUPS, KEYS


def help_of(*argv: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_:
        run_command([*argv, "--help"])
    assert exit_.value.code == 0
    return capsys.readouterr().out


WATCH = """\
flagperf watch: show the progress of a run that another terminal started

usage: flagperf watch RUN_DIR

flagperf watch ends when the run ends. Where the output is no terminal, it prints the state of the run once.

words:
  RUN_DIR  a folder that a run made, such as result/run20260101-120000; flagperf list runs shows them

examples:
  flagperf watch result/run20260101-120000

exit codes:
  0    done
  2    wrong usage or configuration
  3    a host cannot be used
  130  interrupted
"""


def test_help_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert help_of("watch", capsys=capsys) == WATCH


def test_help_without_a_verb_is_about_all(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of("model=glm", capsys=capsys)
    whats = {name: help_of(name, capsys=capsys).partition("\n")[0].partition(": ")[2] for name in verbs()}
    assert [shown.count(f"  {name:8}  {what}\n") for name, what in whats.items()] == [1] * len(whats)
    assert [shown.count(f"  {code:<4} {what}\n") for code, what in EXIT_CODES.items()] == [1] * len(EXIT_CODES)


@pytest.mark.parametrize("name", verbs())
def test_help_of_each_verb(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(name, capsys=capsys)
    titles = re.findall(r"^(\w[\w ]+):", shown, re.MULTILINE)
    explained = "overrides needed most" if name == "run" else "words"
    options = [title for title in titles if title == "options"]
    assert titles == [f"flagperf {name}", "usage", explained, *options, "examples", "exit codes"]
    assert usage(name).split()[:2] == ["flagperf", "[run]" if name == "run" else name]
    heads = re.findall(r"^  flagperf (\S+)", shown.partition("\nexamples:\n")[2], re.MULTILINE)
    assert heads and (name == "run" or set(heads) == {name})
    codes = re.findall(r"^  (\d+)  +(.+)", shown.partition("\nexit codes:\n")[2], re.MULTILINE)
    assert codes and set(codes) <= {*EXIT_CODES.items()}
    assert max(map(len, shown.splitlines())) <= 120


@pytest.mark.parametrize(("argv", "same"), [(["help"], []), (["help", "watch"], ["watch"])], ids=" ".join)
def test_help_is_a_verb_too(argv: list[str], same: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert help_of(*argv, capsys=capsys) == help_of(*same, capsys=capsys)


def test_help_names_keys_that_exist() -> None:
    named = {word.partition("=")[0] for word in words_of("run") if "=" in word}
    assert len(named) > 15
    assert named - {*KEYS, *GROUPS, "framework"} == set()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run_command(["--version"])
    assert exit_.value.code == 0
    assert re.fullmatch(rf"flagperf {__version__}( [0-9a-f]{{12}}(-dirty)?)?\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        *(
            pytest.param([verb, "result/run1"], f'"flagperf {verb}" is now: flagperf {now}', id=f"{verb} of 0.1")
            for verb, now in {
                "submit": "docs submission RUN…",
                "collect": "report RUN_DIR collect=true",
                "bundle": "export RUN_DIR FILE.tar.zst",
                "probe": "run probe=alone",
            }.items()
        ),
        pytest.param(
            ["lisst"],
            "unknown verb\n  where:   command line\n  given:   lisst\n  allowed: did you mean 'list'?\n"
            "  do:      overrides are key=value; flagperf --help",
            id="verb",
        ),
        pytest.param(
            ["--multi"],
            "unrecognized arguments: --multi\n  where:   command line\n  do:      flagperf --help",
            id="option",
        ),
        pytest.param(
            ["--nproc=2", "--max_steps=3"],
            "unrecognized arguments: --nproc=2 --max_steps=3\n  where:   command line\n"
            "  do:      overrides have no dashes: nproc=2 max_steps=3",
            id="overrides with dashes",
        ),
        pytest.param(
            ["-m"],
            "a sweep needs overrides\n  where:   command line\n  key:     -m\n"
            "  do:      give several values of a key: flagperf -m model=resnet50,glm nproc=1,2",
            id="-m alone",
        ),
        pytest.param(
            ["--config-dir", "/no/such/folder"],
            "no such folder\n  where:   command line\n  key:     --config-dir\n  given:   /no/such/folder",
            id="config-dir",
        ),
        pytest.param(
            ["list", "case"],
            "no list and no choice has this name\n  where:   command line\n  given:   case\n"
            "  allowed: did you mean 'cases'?",
            id="list",
        ),
        pytest.param(
            ["report"],
            "report takes one run folder\n  where:   command line\n  given:   \n"
            "  do:      flagperf report RUN_DIR [collect=true] [trust=true]",
            id="report without a folder",
        ),
        pytest.param(
            ["predict", "-m", "nproc=1,2", "oversubscribe=true", "operators=table.yaml"],
            "a table has the operators of one job\n  where:   command line\n  key:     operators\n"
            "  given:   2 jobs\n  allowed: one job\n  do:      give one value of each key, without -m",
            id="operators of a sweep",
        ),
        *(
            pytest.param(
                argv,
                "no such user\n  where:   command line\n  given:   ~no-such-user\n"
                "  do:      a file of this name is ./~no-such-user",
                id=f"{argv[0]} of a user that is not there",
            )
            for argv in (
                ["--config-dir", "~no-such-user", "list"],
                ["compare", "~no-such-user", "result"],
                ["import", "~no-such-user", "into=conf"],
                ["list", "runs", "~no-such-user"],
                ["node", "~no-such-user", "node_rank=0", "master=10.0.0.1:29500"],
                ["rerun", "~no-such-user"],
                ["watch", "~no-such-user"],
            )
        ),
        *(
            pytest.param(
                [verb, "-m", *arguments],
                f"{verb} takes no -m\n  where:   command line\n  key:     -m\n"
                "  do:      only run and predict sweep over several values; give one value of each key",
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


def test_more_nodes_than_the_cluster_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["-m", "nnodes=1,2,3", f"result_dir={tmp_path}/result"]) == 2
    assert capsys.readouterr() == (
        "",
        "flagperf: the cluster has too few hosts for nnodes=2\n  where:   cluster local\n  key:     nnodes\n"
        "  given:   2\n  allowed: 1 to 1\n"
        "  do:      choose a larger cluster (cluster=NAME), or see the plan with dry_run=true\n",
    )
    assert not (tmp_path / "result").exists()


def test_list_shows_every_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["list"]) == 0
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    groups = ("model", "vendor", "hardware", "cluster", "experiment")
    assert shown >= {name for group in groups for name in options(group, [CONF])}


def test_a_reader_that_closes_the_output() -> None:
    """As `flagperf dry_run=true | head -1`: no traceback."""
    command = [*FLAGPERF, "dry_run=true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stderr is not None
        writer.stdout.close()
        assert (writer.stderr.read(), writer.wait()) == (b"", 141)


@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        pytest.param('"$@" list clusters >&-', 0, "", id="closed"),
        pytest.param('"$@" dry_run=true <&- >&- 2>&-', 0, "", id="all closed"),
        pytest.param('"$@" list clusters >/dev/full', 3, "flagperf: no space is left", id="a full device"),
    ],
)
def test_output_that_leads_nowhere(line: str, code: int, error: str, tmp_path: Path) -> None:
    done = subprocess.run(["sh", "-c", line, "sh", *FLAGPERF], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr[: len(error)]) == (code, "", error)
    assert len(done.stderr.splitlines()) <= 1


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_before_the_hosts_are_connected(number: signal.Signals, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        cluster = f"title: silent\nnodes:\n  - {{address: 127.0.0.1, port: {silent.getsockname()[1]}}}\n"
        (tmp_path / "cluster").mkdir()
        (tmp_path / "cluster/silent.yaml").write_text(cluster)
        command = [*FLAGPERF, "doctor", "--config-dir", ".", "cluster=silent"]
        run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        connection, _ = silent.accept()
        with connection:
            run.send_signal(number)
            assert (run.communicate()[1].splitlines()[-1:], run.returncode) == (["flagperf: interrupted"], 130)
