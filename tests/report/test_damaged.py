"""The report of a folder that was damaged, or changed by someone: what is wrong is said, and the rest is reported."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_results import CONFIG, make_run
from flagperf_command import flagperf
from hypothesis import given, settings
from hypothesis import strategies as st

from flagperf import report
from flagperf.cli.main import run_command
from flagperf.contract.monitor_log import monitor_log
from flagperf.errors import ConfigError
from flagperf.hosts.monitors.node import BusyFraction, largest_watts, used_fraction
from flagperf.report.markdown import markdown
from flagperf.results.monitors import summarize
from flagperf.run.console import Terminal

WHOLE = ("VALID", ())


def edited(**values: Any) -> Callable[[Path], object]:
    """Changes figures in the second round's result.json."""

    def edit(round_: Path) -> None:
        record = json.loads((round_ / "result.json").read_text())
        record["values"].update(values)
        (round_ / "result.json").write_text(json.dumps(record))

    return edit


def without_logs(round_: Path) -> None:
    for node in round_.glob("node*"):
        shutil.rmtree(node)


def as_folder(round_: Path) -> None:
    (round_ / "result.json").unlink()
    (round_ / "result.json").mkdir()


def text(content: str) -> Callable[[Path], object]:
    return lambda round_: (round_ / "result.json").write_text(content)


LAUNCHER_DIED = "no result.json that can be read: how the processes ended is not known"
ROUNDS: dict[str, tuple[Callable[[Path], object], tuple[str, tuple[str, ...]]]] = {
    "whole": (lambda _: None, WHOLE),
    "a figure is edited": (
        edited(p_whole=99999),
        ("INVALID", ("result.json is not what the ranks logged: p_whole is 99999, they say 160.0",)),
    ),
    "figures are added and taken away": (
        edited(mfu=0.9, final_loss=None),
        (
            "INVALID",
            ("result.json is not what the ranks logged: final_loss is None, they say 0.5, mfu is 0.9, they say None",),
        ),
    ),
    "a figure is text": (edited(p_whole="fast"), ("SUSPECT", (LAUNCHER_DIED,))),
    "nested beyond measure": (text('{"schema": 2, "case": ' + "[" * 100_000), ("SUSPECT", (LAUNCHER_DIED,))),
    "another type": (text('{"schema": 2, "case": 7}'), ("SUSPECT", (LAUNCHER_DIED,))),
    "a folder": (as_folder, ("SUSPECT", (LAUNCHER_DIED,))),
    "the logs are gone": (
        without_logs,
        ("SUSPECT", ("the logs of its ranks are not there: the figures are those of result.json",)),
    ),
}


@pytest.mark.parametrize(("damage", "told"), ROUNDS.values(), ids=ROUNDS.keys())
def test_a_round(damage: Callable[[Path], object], told: tuple[str, tuple[str, ...]], tmp_path: Path) -> None:
    damage(make_run(tmp_path) / "round2")
    (job,) = report.read_run(tmp_path)
    assert [(one.verdict, one.reasons) for one in job.results] == [WHOLE, told]
    assert job.results[1].values["p_whole"] == 160.0  # that of the ranks, whatever else is written
    shown(tmp_path)


def shown(folder: Path) -> None:
    """All that `flagperf report` makes."""
    found = report.read_run(folder)
    Terminal(file=io.StringIO()).print(report.terminal_table(found))
    assert {path.name for path in report.write(folder, found)} == {"report.md", "report.html"}


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_a_folder_in_the_place_of_a_report(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path)
    (tmp_path / name).mkdir()
    assert run_command(["report", str(tmp_path)]) == 3
    assert capsys.readouterr().err == (
        f"flagperf: a file cannot be read or written\n  where:   {tmp_path}/{name}\n  given:   Is a directory\n"
    )
    assert {path.name for path in tmp_path.glob(".*")} == set()


TARGET = CONFIG["target"]
WRONG: dict[str, tuple[dict[str, object], str | None]] = {
    "max_cv is text": ({"max_cv": "x"}, "max_cv"),
    "max_cv is below 0": ({"max_cv": -1}, "max_cv"),
    "own is text": ({"own": "x"}, "own"),
    "own has a number": ({"own": {"a": 1}}, "own.a"),
    "the target is text": ({"target": "x"}, None),
    "the target has no metric": ({"target": {"value": 1}}, None),
    "the target's value is a list": ({"target": {**TARGET, "value": [1]}}, "target.value"),
    "the target's direction is no direction": ({"target": {**TARGET, "direction": "up"}}, "target.direction"),
    "a further target is text": ({"target": {**TARGET, "also": {"x": "y"}}}, "target.also.x"),
}


@pytest.mark.parametrize(("values", "key"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_of_a_configuration(values: dict[str, object], key: str | None, tmp_path: Path) -> None:
    job = make_run(tmp_path)
    (job / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "repeat": 2, **values}))
    with pytest.raises(ConfigError) as caught:
        report.read_run(tmp_path)
    assert caught.value.key == key


def test_a_damaged_job_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_run(tmp_path)
    other = make_run(tmp_path, name="resnet50-pytorch-A100x2x8,lr=0.2")
    (other / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "repeat": "often"}))
    assert [job.name for job in report.read_run(tmp_path)] == ["resnet50-pytorch-A100x2x8"]
    assert caplog.messages == [
        "a job is left out of the report: wrong type of value\n"
        f"  where:   {other}/config.yaml\n"
        "  key:     repeat\n"
        "  given:   often\n"
        "  allowed: a whole number, at least 1, at most 10000"
    ]


# ---------------------------------------------------------------- anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(st.text(max_size=9), deeper, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make_run(folder, rounds=1, repeat=1)
    return folder


@pytest.mark.long
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_record_gives_a_report(run: Path, data: st.DataObject) -> None:
    path = run / "resnet50-pytorch-A100x2x8" / "round1" / "result.json"
    whole = path.read_text()
    record = json.loads(whole)
    record[data.draw(st.sampled_from(sorted(record)))] = data.draw(JSON)
    try:
        path.write_text(json.dumps(record))
        shown(run)
    except ConfigError as error:
        assert error.key in ("schema", "revision")
    finally:
        path.write_text(whole)


@pytest.mark.long
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_any_configuration_gives_a_report_or_a_refusal(run: Path, data: st.DataObject) -> None:
    path = run / "resnet50-pytorch-A100x2x8" / "config.yaml"
    whole = path.read_text()
    config = yaml.safe_load(whole)
    config[data.draw(st.sampled_from(sorted(config)))] = data.draw(JSON)
    try:
        path.write_text(yaml.safe_dump(config))
        shown(run)
    except ConfigError as error:
        assert str(run) in str(error) or error.key
    finally:
        path.write_text(whole)


SAMPLES = st.text(alphabet="0123456789-:.CWMiBN/A% \t\n", max_size=200) | st.text(max_size=100)


@settings(deadline=None)
@given(SAMPLES, st.sampled_from(("cpu", "mem", "pwr", "nvidia")))
def test_any_monitor_log_is_summed_up(tmp_path_factory: pytest.TempPathFactory, log: str, name: str) -> None:
    folder = tmp_path_factory.mktemp("node")
    stamped = f"1970-01-01-00:16:45\t{log}\n\n1970-01-01-00:16:50\n{log}\n"
    (folder / f"{name}_monitor.log").write_text(stamped, encoding="utf-8", errors="surrogateescape")
    assert isinstance(summarize(folder, 1000.0, 1020.0), dict)


@given(st.text() | st.text(alphabet="cpu 0123456789MemTotalAvailable:kB\nWatts|.-"))
def test_any_output_of_a_monitor_is_read_or_refused(text: str) -> None:
    """The recorder tells a ValueError and a LookupError in the monitor's log."""
    for read in (BusyFraction(), used_fraction, largest_watts):
        with contextlib.suppress(ValueError, LookupError):
            assert all(isinstance(line, str) for line in read(text))


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


SPECIAL: dict[str, tuple[str, tuple[str, tuple[str, ...]] | str]] = {
    "the log of a rank": ("{round}/node0_noderank0/rank1.out.log", ("INVALID", ("no log of rank 1",))),
    "a monitor's log": ("{round}/node0_noderank0/cpu_monitor.log", WHOLE),
    "sys_info.log": ("{round}/node0_noderank0/sys_info.log", WHOLE),
    "result.json": ("{round}/result.json", ("SUSPECT", (LAUNCHER_DIED,))),
    "the run's log": ("{run}/flagperf_run.log", WHOLE),
    "the command": ("{run}/command.json", WHOLE),
    "the changes": ("{job}/changes.yaml", "[Errno 22] not a regular file: '{job}/changes.yaml'"),
    "the configuration": ("{job}/config.yaml", "[Errno 22] not a regular file: '{job}/config.yaml'"),
}


def huge(path: Path) -> None:
    """A file of 64 GiB that takes no room on its disk."""
    path.touch()
    os.truncate(path, 64 << 30)


@pytest.mark.parametrize(
    ("file", "told", "special"),
    [
        pytest.param(file, told, special, id=f"{name}: {special.__name__}")
        for name, (file, told) in SPECIAL.items()
        for special in (pipe, endless, huge)
        if special is not huge or name != "the log of a rank"  # which is read line by line, to its end
    ],
)
def test_only_regular_files_of_a_size_that_flagperf_writes_are_read(
    file: str, told: tuple[str, tuple[str, ...]] | str, special: Callable[[Path], None], tmp_path: Path
) -> None:
    job, run = make_run(tmp_path), tmp_path
    places = {"run": run, "job": job, "round": job / "round2"}
    special(Path(file.format(**places)))
    if isinstance(told, str):
        with pytest.raises(ConfigError) as caught:
            report.read_run(run)
        assert caught.value.given == ("larger than 64 MiB" if special is huge else told.format(**places))
        return
    (summary,) = report.read_run(run)
    assert (summary.results[1].verdict, summary.results[1].reasons) == told
    assert [path.name for path in report.write(run, [summary])] == ["report.md", "report.html"]


@pytest.mark.parametrize("special", [pipe, endless], ids=["pipe", "endless"])
def test_the_zone_of_old_monitor_logs_comes_from_regular_files(special: Callable[[Path], None], tmp_path: Path) -> None:
    node = make_run(tmp_path) / "round2" / "node0_noderank0"
    (node / "cpu_monitor.log").write_text("2026-01-01-00:00:00\n0.5\n")
    special(node / "rank0.out.log")
    assert monitor_log(node, "cpu").startswith("2026-01-01-00:00:00")


TREE = "\x1b]0;x\x07"
VALUES: dict[str, tuple[str, object]] = {
    "own": ("own", {TREE: {TREE: 1}}),
    "own as text": ("own", {TREE: TREE}),
    "data": ("data", {"extent": TREE}),
    "reports": ("reports", [{"_target_": "flagperf.report.markdown.MarkdownReport", TREE: 1}]),
}


@pytest.mark.parametrize(("key", "value"), VALUES.values(), ids=VALUES.keys())
def test_values_of_anyone_give_neither_traceback_nor_escapes(key: str, value: object, tmp_path: Path) -> None:
    job = make_run(tmp_path)
    (job / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "repeat": 2, key: value}))
    done = flagperf("report", str(tmp_path))
    assert ("Traceback" in done.stderr, "\x1b" in done.stderr + done.stdout, done.returncode in (0, 2)) == (
        *(False, False),
        True,
    )


def test_a_report_is_written_in_the_place_of_links(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run").parent
    (tmp_path / "precious").write_text("mine")
    names = ("report.md", "report.html")
    for name in names:
        (run / name).symlink_to(tmp_path / "precious")
    report.write(run, report.read_run(run))
    assert (tmp_path / "precious").read_text() == "mine"
    assert [(run / name).is_symlink() for name in names] == [False, False]


def test_what_a_rank_printed_makes_no_html(tmp_path: Path) -> None:
    """A program that shows report.md may take HTML in it for HTML."""
    run, result = tmp_path, make_run(tmp_path) / "round2/result.json"
    record = json.loads(result.read_text())
    said = "<script>alert(1)</script>"
    failure = {"cause": f"{said} </b>", "rank": 1, "last_lines": ["~~~~", said]}
    record |= {"status": "failed", "failure": failure}
    result.write_text(json.dumps(record))
    text = markdown(run, report.read_run(run))
    assert text.count(said) == 2  # both in the block of text, which ~~~~ does not end
    outside = re.sub("^~~~~~text.*?^~~~~~$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "&lt;script>alert(1)&lt;/script> &lt;/b>" in outside
    assert re.findall("<[a-z/!?][^>]*>", outside, re.IGNORECASE) == ['<a id="job1">', "</a>"]
