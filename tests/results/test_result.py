"""A round's folder → Result; result.json; the exit code of a run."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from example_results import CONFIG, a_result, write_round

from flagperf.contract.outcome import Failure
from flagperf.contract.perflog import Event
from flagperf.contract.records import Change, Result
from flagperf.contract.sample_data import sample_name
from flagperf.errors import ConfigError
from flagperf.results import result
from flagperf.results.summary import summary_of


def read(folder: Path, status: str = "finished", **config: Any) -> Result:
    return result.result_of_logs({**CONFIG, **config}, (), 1, folder, result.Ending(status))


KILLED = Failure("signal SIGKILL", "node1", 1, 9, "training", signal="SIGKILL", last_lines=("step 3", "step 4"))

# ---------------------------------------------------------------- logs → Result


def test_a_round_is_read_whole(tmp_path: Path) -> None:
    values = write_round(tmp_path)
    assert read(tmp_path) == a_result(values=values)


def test_what_the_launcher_knows(tmp_path: Path) -> None:
    write_round(tmp_path)
    found = result.result_of_logs(
        CONFIG, (), 3, tmp_path, result.Ending("failed", failure=KILLED, seconds=12.0), {"lr": "0.1"}
    )
    assert (found.round, found.status, found.failure, found.seconds, found.sweep) == (
        3, "failed", KILLED, 12.0, {"lr": "0.1"},
    )  # fmt: skip


def test_damaged_checkpoints_are_noted(tmp_path: Path) -> None:
    """In the words of the ranks, each once."""
    values = write_round(tmp_path)
    notes = ("step000000004.pt is damaged: its content is not that of its hash",)
    said = Event("INIT_END", {"rendezvous": 0.1, "resume_notes": notes}).line()
    for log in tmp_path.glob("*/rank*.out.log"):
        log.write_text(log.read_text() + said + "\n")
    assert read(tmp_path) == a_result(values=values, notes=notes)


def test_no_folder_is_a_round_without_values(tmp_path: Path) -> None:
    found = read(tmp_path / "round1", status="not started")
    assert found == a_result(
        values={}, status="not started", verdict="INVALID", reasons=("not started",), target_reached=None
    )


def test_torn_lines_do_not_count_and_ordinary_output_is_left_out(tmp_path: Path) -> None:
    values = write_round(tmp_path)
    log = tmp_path / "node0_noderank0" / "rank0.out.log"
    log.write_bytes(b'hello \xff\n[PerfLog] {"event": "STEP_E\n' + log.read_bytes() + b"[PerfLog] {")
    assert read(tmp_path) == a_result(
        values=values,
        verdict="SUSPECT",
        reasons=("rank 0: 2 PerfLog lines cannot be read, and do not count",),
    )


def test_limits_that_the_user_set_are_asked_for(tmp_path: Path) -> None:
    """max_steps of the case is a limit; max_steps of the command line is a promise."""
    write_round(tmp_path, stop_reason="max_epochs", epochs=100, converged=False)
    asked = result.result_of_logs(
        {**CONFIG, "max_steps": 500},
        [Change("max_steps", None, 500, "command line")],
        1,
        tmp_path,
        result.Ending("finished"),
    )
    assert (read(tmp_path, max_steps=500).reasons, asked.reasons) == (
        (),
        ("max_steps=500 was asked, max_epochs ended it at 100",),
    )


IMAGES = {"extent": {"unit": "images", "train": 1_281_167, "eval": 50_000}}


@pytest.mark.parametrize(
    ("train", "config", "verdict", "reached", "other"),
    [
        pytest.param(1_281_167, {}, "VALID", True, "", id="all of it"),
        pytest.param(16, {}, "SUSPECT", None, "16 of 1,281,167 training images", id="sixteen photos"),
        pytest.param(16, {"data": {}}, "VALID", True, "", id="a case that says no extent"),
        pytest.param(16, {"size": "tiny"}, "VALID", True, "", id="a reduced size"),
        pytest.param(16, {"synthetic": True}, "VALID", None, "", id="synthetic"),
    ],
)
def test_data_of_the_case(
    train: int, config: dict[str, Any], verdict: str, reached: bool | None, other: str, tmp_path: Path
) -> None:
    write_round(tmp_path)
    for log in tmp_path.glob("*/rank*.out.log"):
        event = Event("BUILT", {"data": {"train": train, "eval": 50_000}})
        log.write_text(f"{event.line()}\n{log.read_text()}")
    found = read(tmp_path, **{"data": IMAGES, **config})
    assert (found.verdict, found.target_reached, found.other_data) == (verdict, reached, other)
    assert found.built["data"]["train"] == train


BOTH = {"metric": "acc1", "value": 95.0, "direction": "higher", "also": {"acc5": 99.0}}


@pytest.mark.parametrize(
    ("config", "values", "reached"),
    [
        pytest.param({}, {"final_acc1": 95.0}, True, id="reached"),
        pytest.param({}, {"final_acc1": 94.9, "converged": False}, False, id="missed"),
        pytest.param({}, {"final_acc1": None, "converged": False}, None, id="never evaluated"),
        pytest.param({"target": None}, {}, None, id="no target"),
        pytest.param({"size": "tiny"}, {"sample_data": True}, True, id="tiny on sample data: its own target"),
        pytest.param({"size": "full"}, {"sample_data": True}, None, id="full on sample data: never claimed"),
        pytest.param({"size": "tiny", "synthetic": True}, {"sample_data": True}, None, id="synthetic: never claimed"),
        pytest.param(
            {"target": {"metric": "acc1", "value": 96.0, "direction": "lower"}}, {"final_acc1": 95.0}, True, id="lower"
        ),
        pytest.param({"target": BOTH}, {"final_acc5": 99.0}, True, id="both of two"),
        pytest.param({"target": BOTH}, {"final_acc5": 98.0, "converged": False}, False, id="one of two"),
        pytest.param({"target": BOTH}, {"converged": False}, None, id="one of two measured"),
    ],
)
def test_target_reached(tmp_path: Path, config: dict[str, Any], values: dict[str, Any], reached: bool | None) -> None:
    write_round(tmp_path, **values)
    assert read(tmp_path, **config).target_reached is reached


@pytest.mark.parametrize(
    ("source", "final", "reached"),
    [
        pytest.param("command line", 60.0, None, id="ended early by the user"),
        pytest.param("experiment smoke", 60.0, None, id="ended early by an experiment"),
        pytest.param("command line", 96.0, True, id="reached all the same"),
        pytest.param("tuning nvidia/resnet50/A100x2x8", 60.0, False, id="missed within the vendor's limit"),
    ],
)
def test_target_of_a_training_that_a_limit_ended(
    tmp_path: Path, source: str, final: float, reached: bool | None
) -> None:
    write_round(tmp_path, stop_reason="max_steps", converged=False, final_acc1=final)
    changes = [Change("max_steps", None, 100, source)]
    found = result.result_of_logs({**CONFIG, "max_steps": 100}, changes, 1, tmp_path, result.Ending("finished"))
    assert (found.verdict, found.target_reached) == ("VALID", reached)


SAMPLE = {"_target_": "cases.digits.write"}


@pytest.mark.parametrize(
    ("data_dir", "sample_data"),
    [
        pytest.param(f"/home/me/sample/{sample_name('resnet50', SAMPLE)}", True, id="the folder of its sample data"),
        pytest.param("/data/imagenet", False, id="another"),
        pytest.param(None, False, id="none"),
    ],
)
def test_sample_data_of_a_round_that_broke_off(tmp_path: Path, data_dir: str | None, sample_data: bool) -> None:
    found = read(tmp_path, status="failed", data_dir=data_dir, data={"sample": SAMPLE})
    assert found.sample_data is sample_data


def test_a_synthetic_round_is_marked(tmp_path: Path) -> None:
    assert read(tmp_path, status="failed", synthetic=True).synthetic is True
    assert read(tmp_path, status="failed").synthetic is False


def test_monitors_are_summed_up(tmp_path: Path) -> None:
    """Training lasts from 1000 s to 1020 s of the epoch."""
    write_round(tmp_path)
    from flagperf.contract.monitor_log import stamp

    lines = [f"{stamp(second)}\t{share}\n" for second, share in ((1000, 0.2), (1010, 0.4), (1020, 0.9), (1030, 1.0))]
    (tmp_path / "node0_noderank0" / "cpu_monitor.log").write_text("".join(lines))
    assert read(tmp_path).monitors == {
        "nodes": {
            "node0_noderank0": {"cpu": {"mean": 0.5, "max": 0.9, "coverage": 1.0}},
            "node1_noderank1": {"cpu": {"not_available": "there is no log of it"}},
        },
        "energy": {},
    }


AHEAD = 3600  # seconds


def test_monitors_of_a_node_whose_clock_is_ahead(tmp_path: Path) -> None:
    """Logs have the node's own time; sys_info.log says how far that is from the launcher's."""
    write_round(tmp_path, "2,3")
    write_devices(tmp_path, busy=(2, 3))
    vendor = {**CONFIG["vendor"], "container": {"gpus": "all"}}
    together = read(tmp_path, nproc=2, vendor=vendor)
    node = tmp_path / "node1_noderank1"
    (node / "sys_info.log").write_text(f"os: Linux\nclock_offset: +{AHEAD}.000\n")
    for log in node.glob("*.log"):
        log.write_text(later(log.read_text()))
    corrected = read(tmp_path, nproc=2, vendor=vendor)
    assert corrected == dataclasses.replace(together, clocks={node.name: AHEAD})
    (node / "sys_info.log").unlink()
    apart = read(tmp_path, nproc=2, vendor=vendor)
    why = f"no sample lies in the training, the nearest is {AHEAD - 30} s after it (of 9)"
    assert apart.monitors["nodes"][node.name] == {"nvidia": {"not_available": why, "coverage": 0.0}}
    assert apart.monitors["energy"] == {"devices": {"not_available": f"{node.name}: {why}", "coverage": 0.0}}


def later(text: str) -> str:
    """A log of a rank or a monitor whose clock was ahead."""
    from flagperf.contract.monitor_log import parse_stamp, stamp

    text = re.sub(r'"time_ms": (\d+)', lambda found: f'"time_ms": {int(found[1]) + 1000 * AHEAD}', text)
    return re.sub(r"^\S+-\S+$", lambda found: stamp((parse_stamp(found[0]) or 0.0) + AHEAD), text, flags=re.MULTILINE)


def write_devices(folder: Path, busy: tuple[int, ...]) -> None:
    """Logs of two nodes with six GPUs each, of which the busy ones draw 300 W and the others 50 W."""
    from flagperf.contract.monitor_log import Device, stamp

    lines = [Device(80, 300).line() if place in busy else Device(30, 50).line() for place in range(6)]
    text = "".join("\n".join([stamp(second), *lines, "", ""]) for second in range(990, 1031, 5))
    for node in ("node0_noderank0", "node1_noderank1"):
        (folder / node / "nvidia_monitor.log").write_text(text)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        pytest.param("2,3", "all", id="visible devices"),
        pytest.param(None, "device=2,3", id="devices of the container"),
        pytest.param("1,2", "device=1,2,3", id="visible devices of the container's"),
    ],
)
def test_energy_is_that_of_the_devices_used(tmp_path: Path, visible: str | None, gpus: str) -> None:
    write_round(tmp_path, visible)
    write_devices(tmp_path, busy=(2, 3))
    vendor = {**CONFIG["vendor"], "container": {"gpus": gpus}}
    monitors = read(tmp_path, nproc=2, vendor=vendor).monitors
    assert {node: found["nvidia"]["indices"] for node, found in monitors["nodes"].items()} == {
        "node0_noderank0": [2, 3],
        "node1_noderank1": [2, 3],
    }
    assert monitors["energy"]["devices"]["energy_j"] == pytest.approx(4 * 300 * 20)


def test_energy_of_devices_that_are_not_known_is_left_out(tmp_path: Path) -> None:
    write_round(tmp_path, "GPU-8f2e,GPU-77aa")
    write_devices(tmp_path, busy=(2, 3))
    why = "CUDA_VISIBLE_DEVICES=GPU-8f2e,GPU-77aa does not name devices by their numbers"
    unknown = {"nvidia": {"not_available": f"the devices of the job are not known: {why}"}}
    assert read(tmp_path, nproc=2).monitors == {
        "nodes": {"node0_noderank0": unknown, "node1_noderank1": unknown},
        "energy": {},
    }


# ---------------------------------------------------------------- result.json


def test_result_json_reads_back(tmp_path: Path) -> None:
    given = a_result(
        values={"final_loss": math.nan, "p_core": 3.5, "ranks": [{"rank": 0, "host": "a"}]},
        reasons=("the loss is not finite",),
        phases={"node0_noderank0": {"connect": 0.1}},
        started=1.5,
        revision=3,
    )
    path = result.write(given, tmp_path / "round1")
    assert path == tmp_path / "round1" / "result.json"
    assert json.loads(path.read_text())["schema"] == 3
    found = result.read(path.parent, CONFIG)
    assert math.isnan(found.values["final_loss"])
    assert dataclasses.replace(found, values={}) == dataclasses.replace(given, values={})


def test_a_result_without_target_reads_back(tmp_path: Path) -> None:
    given = a_result(target=None, target_reached=None)
    result.write(given, tmp_path)
    assert result.read(tmp_path, CONFIG) == given


NO_DATA = Failure("data_dir does not exist", details={"where": "command line", "key": "data_dir", "given": "/gone"})


@pytest.mark.parametrize(
    ("failure", "record", "text"),
    [
        pytest.param(
            KILLED,
            {
                "cause": "signal SIGKILL",
                "host": "node1",
                "node_rank": 1,
                "rank": 9,
                "phase": "training",
                "exit_status": None,
                "signal": "SIGKILL",
                "last_lines": ["step 3", "step 4"],
                "details": {},
            },
            "rank 9 on node1 (node rank 1): signal SIGKILL, during training\n    step 3\n    step 4",
            id="a rank",
        ),
        pytest.param(
            NO_DATA,
            {
                "cause": "data_dir does not exist",
                "host": None,
                "node_rank": None,
                "rank": None,
                "phase": None,
                "exit_status": None,
                "signal": None,
                "last_lines": [],
                "details": {"where": "command line", "key": "data_dir", "given": "/gone"},
            },
            "data_dir does not exist\n  where:   command line\n  key:     data_dir\n  given:   /gone",
            id="could not start",
        ),
    ],
)
def test_a_failure_is_written_as_fields(tmp_path: Path, failure: Failure, record: dict[str, Any], text: str) -> None:
    given = a_result(status="failed", verdict="INVALID", failure=failure)
    path = result.write(given, tmp_path)
    assert json.loads(path.read_text())["failure"] == record
    assert result.read(tmp_path, CONFIG) == given
    assert str(failure) == text


@pytest.mark.parametrize("text", [None, "rank 9 on node1 (node rank 1): signal SIGKILL\n    step 3"])
def test_the_text_that_schema_1_has_for_a_failure_is_kept(tmp_path: Path, text: str | None) -> None:
    path = result.write(a_result(), tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 1, "failure": text}))
    assert result.read(tmp_path, CONFIG) == a_result(failure=text and Failure(text))
    assert str(result.read(tmp_path, CONFIG).failure) == str(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('{"schema": 1, "case": "glm"}', "a required key is missing", id="fields are missing"),
        pytest.param('{"schema": 99}', "written by another version", id="another schema"),
        pytest.param("", "not a result of flagperf", id="empty"),
    ],
)
def test_unreadable(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        result.read(tmp_path, CONFIG)
    assert caught.value.problem == problem


# ---------------------------------------------------------------- exit code

GOOD = a_result()
MISSED = a_result(target_reached=False)
UNKNOWN = a_result(target_reached=None)
SUSPECT = a_result(verdict="SUSPECT", reasons=("a slow rank",))
INVALID = a_result(verdict="INVALID", reasons=("MFU is 1.20",))
FAILED = a_result(status="failed", verdict="INVALID")


@pytest.mark.parametrize(
    ("jobs", "require_target", "code"),
    [
        pytest.param([], False, 0, id="nothing"),
        pytest.param([[GOOD, GOOD], [GOOD]], True, 0, id="all reached"),
        pytest.param([[MISSED]], False, 0, id="missed, not required"),
        pytest.param([[GOOD], [GOOD, MISSED]], True, 6, id="missed, required"),
        pytest.param([[UNKNOWN]], True, 6, id="not shown, required"),
        pytest.param([[SUSPECT]], True, 0, id="suspect"),
        pytest.param([[INVALID]], False, 5, id="invalid"),
        pytest.param([[GOOD], [GOOD, FAILED]], False, 5, id="one round failed"),
        pytest.param([[MISSED], [FAILED]], True, 5, id="a failure outweighs a missed target"),
    ],
)
def test_exit_code(jobs: list[list[Result]], require_target: bool, code: int) -> None:
    summaries = [summary_of(f"job{n}", results, CONFIG, ()) for n, results in enumerate(jobs)]
    assert result.exit_code(summaries, require_target) == code
