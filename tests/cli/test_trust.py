"""Folders that this user did not write, or not as they are now: nothing in them is obeyed without trust=true."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from user_folder import TOY, write

from flagperf.cli.main import run_command
from flagperf.contract import made_here
from flagperf.run.command_file import FILE, Command, keep

FOREIGN = (
    "flagperf: your flagperf did not write this folder on this machine: its author decides what the command does\n"
)
OWN = "  allowed: a folder of your own runs, unchanged\n"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This user's state folder, which is new."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


@pytest.fixture
def run(tmp_path: Path, state: Path) -> Path:  # noqa: ARG001  # the record of it lies there
    """The folder of a dry run of a case of the user's own."""
    bench = write(tmp_path / "bench", {"model/toy": TOY})
    folder = tmp_path / "run"
    folder.mkdir()
    words = ("model=toy", "size=tiny", "max_steps=7", "dry_run=true")
    keep(Command(words, False, (str(bench),), str(tmp_path), 1000.0), folder)
    return folder


def changed_override(run: Path, _: Path) -> str:
    record = json.loads((run / FILE).read_text())
    record["overrides"][2] = "max_steps=8"
    (run / FILE).write_text(json.dumps(record))
    return FILE


def changed_case(run: Path, _: Path) -> str:
    with (run / "config_dirs/0/model/toy.yaml").open("a") as file:
        file.write("# more\n")
    return "config_dirs/0/model/toy.yaml"


def added_case(run: Path, _: Path) -> str:
    shutil.copy(run / "config_dirs/0/model/toy.yaml", run / "config_dirs/0/model/other.yaml")
    return "config_dirs/0/model/other.yaml"


def without_record(_: Path, state: Path) -> str:
    shutil.rmtree(state)
    return FILE


def record_of_another(_: Path, state: Path) -> str:
    os.chown(state / "flagperf" / made_here.RECORD, 1234, 1234)
    return FILE


def record_that_all_may_write(_: Path, state: Path) -> str:
    (state / "flagperf" / made_here.RECORD).chmod(0o666)
    return FILE


def linked_record(_: Path, state: Path) -> str:
    record = state / "flagperf" / made_here.RECORD
    record.symlink_to(record.rename(record.with_name("elsewhere")))
    return FILE


STRANGE: dict[str, Callable[[Path, Path], str]] = {
    "an override was changed": changed_override,
    "a configuration file was changed": changed_case,
    "a configuration file was added": added_case,
    "there is no record": without_record,
    "the record is another user's": record_of_another,
    "all may write to the record": record_that_all_may_write,
    "the record is a link": linked_record,
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE.keys())
def test_a_command_that_is_not_as_it_was_written_is_refused(
    change: Callable[[Path, Path], str], run: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = change(run, state)
    line = json.loads((run / FILE).read_text())["overrides"]
    files = sorted(path for path in (run / "config_dirs").rglob("*") if path.is_file())
    more = "".join(f"           with the values of this file: {path}\n" for path in files)
    for verb, words in {"rerun": [], "node": ["node_rank=0", "master=127.0.0.1:29500"]}.items():
        assert run_command([verb, str(run), *words]) == 2
        assert capsys.readouterr().err == (
            f"{FOREIGN}  where:   {run / first}\n"
            f"  given:   runs: flagperf --config-dir {run.parent}/bench {' '.join(line)}\n{more}{OWN}"
            f"  do:      if you trust its author: flagperf {verb} {run} … trust=true\n"
        )
    assert run_command(["rerun", str(run), "trust=true"]) == 0


def test_a_folder_of_ours_is_obeyed_wherever_it_lies(run: Path) -> None:
    shutil.copytree(run, run.with_name("copy"))
    shutil.rmtree(run)
    assert run_command(["rerun", str(run.with_name("copy"))]) == 0


CLUSTER = """\
cluster:
  name: x
  title: x
  ssh: {{config: {place}/ssh_config, known_hosts: /dev/null}}
  secrets: {{TOKEN: {{file: {place}/nothing}}}}
  nodes: [{{name: h1, address: 192.0.2.9, user: root}}]
vendor: {{environment: {{}}}}
deadlines: {{connect: 5}}
"""
PLAN = {"nodes": [{"node": {"name": "h1", "address": "192.0.2.9", "user": "root"}, "log_dir": "/w/run/case/round1/h1"}]}


def test_no_host_of_a_strange_folder_is_contacted(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    round_ = tmp_path / "run/case/round1"
    round_.mkdir(parents=True)
    (round_ / "plan.json").write_text(json.dumps(PLAN))
    (round_ / "config.yaml").write_text(CLUSTER.format(place=tmp_path))
    (tmp_path / "ssh_config").write_text(f"Host *\n  ProxyCommand touch {tmp_path}/owned\n")
    assert run_command(["report", str(tmp_path / "run"), "collect=true"]) == 2
    assert capsys.readouterr().err == (
        f"{FOREIGN}  where:   {round_}/plan.json\n"
        f"  given:   h1: reached by ssh -F {tmp_path}/ssh_config -o UserKnownHostsFile=/dev/null root@192.0.2.9\n"
        f"           h1: brings /w/run/case/round1/h1, and removes /w/run there\n"
        f"           {tmp_path}/ssh_config: ProxyCommand touch {tmp_path}/owned\n"
        f"           reads {tmp_path}/nothing, to hide the secret TOKEN in the logs\n{OWN}"
        f"  do:      if you trust its author: flagperf report {tmp_path}/run … trust=true\n"
    )
    assert not (tmp_path / "owned").exists() and not state.exists()


OURS = "flagperf.report.page.HtmlReport"
NESTED = {"_target_": "subprocess.getoutput", "cmd": "touch owned"}
WRITERS: dict[str, tuple[object, str]] = {
    "a program": ({"_target_": "subprocess.Popen", "args": ["touch", "owned"]}, "calls subprocess.Popen"),
    "a function of flagperf": (
        {"_target_": "flagperf.contract.regular.write_atomically", "path": "owned", "text": ""},
        "calls flagperf.contract.regular.write_atomically",
    ),
    "Python's by the name of a module that imports it": (
        {"_target_": "flagperf.report.page.Path.touch", "self": "owned"},
        "calls flagperf.report.page.Path.touch",
    ),
    "in an argument": ({"_target_": OURS, "x": NESTED}, "calls subprocess.getoutput"),
    "deep in an argument": ({"_target_": OURS, "x": {"y": [{"z": NESTED}]}}, "calls subprocess.getoutput"),
    "positional": ({"_target_": OURS, "_args_": [NESTED]}, "calls subprocess.getoutput"),
    "partial": ({"_target_": OURS, "_partial_": True}, f"makes {{'_target_': '{OURS}', '_partial_': True}}"),
    "a mapping": ({"_target_": OURS, "x": {"y": 1}}, f"makes {{'_target_': '{OURS}', 'x': {{'y': 1}}}}"),
    "a variable": (
        {"_target_": OURS, "x": "${oc.env:HOME}"},
        f"makes {{'_target_': '{OURS}', 'x': '${{oc.env:HOME}}'}}",
    ),
    "no class": ({"_target_": [OURS]}, f"makes {{'_target_': ['{OURS}']}}"),
}


@pytest.mark.parametrize(("writer", "deed"), WRITERS.values(), ids=WRITERS.keys())
def test_a_writer_of_a_strange_folder_is_not_called(
    writer: object, deed: str, tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only flagperf's own writers are made of a folder of others, with plain arguments."""
    shutil.copytree(Path(__file__).parents[1] / "data/runs/two-rounds", tmp_path / "run")
    (config,) = tmp_path.glob("run/*/config.yaml")
    with config.open("a") as file:
        file.write(f"reports: {json.dumps([{'_target_': OURS}, writer])}\n")
    assert run_command(["report", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == (
        f"{FOREIGN}  where:   {config}\n  given:   {deed}, of reports\n{OWN}"
        f"  do:      if you trust its author: flagperf report {tmp_path}/run … trust=true\n"
    )
    assert not state.exists() and not Path("owned").exists() and not [*tmp_path.glob("run/report.*")]


@pytest.mark.parametrize("reports", ["5", "null", "{_target_: os.system}", "html"])
def test_writers_that_are_no_list_are_refused(reports: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(Path(__file__).parents[1] / "data/runs/two-rounds", tmp_path / "run")
    (config,) = tmp_path.glob("run/*/config.yaml")
    with config.open("a") as file:
        file.write(f"reports: {reports}\n")
    assert run_command(["report", str(tmp_path / "run")]) == 2
    given = "{'_target_': 'os.system'}" if reports.startswith("{") else reports
    assert capsys.readouterr().err.splitlines()[:4] == [
        "flagperf: wrong type of value",
        "  where:   config.yaml",
        "  key:     reports",
        f"  given:   {given}",
    ]
