"""Figures computed a second time: those of recorded runs agree, and a changed digit is named wherever it stands."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from example_results import CONFIG, write_round
from recorded import recorded_run

from flagperf.contract.monitor_log import Device, stamp
from flagperf.contract.perflog import Event
from flagperf.contract.records import Result
from flagperf.results import result
from flagperf.verify import Row, check
from flagperf.verify.logs import Event as LoggedEvent
from flagperf.verify.logs import Rank
from flagperf.verify.monitor_logs import Sample, samples
from flagperf.verify.rank_figures import RANK_FIGURES

JOB = "resnet50-pytorch-cpux1x2"
RESULT = f"{JOB}/round1/result.json"
LOGS = f"{JOB}/round1/vm_noderank0/rank*.out.log"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return recorded_run(tmp_path)


def differing(run: Path) -> set[tuple[str, str]]:
    """Location, without the job, and name of each figure that differs."""
    return {(row.location.removeprefix(JOB).strip("/"), row.figure) for row in check(run) if row.answer == "differs"}


@pytest.mark.parametrize("name", ["two-rounds", "sweep"])
def test_a_recorded_run_agrees(tmp_path: Path, name: str) -> None:
    rows = check(recorded_run(tmp_path, name))
    answers = Counter(row.answer for row in rows)
    assert (answers["differs"], answers["agrees"] > answers["not recomputed"]) == (0, True)


def test_recomputed_figures(run: Path) -> None:
    """The most important figures are recomputed. Each other figure has a reason."""
    rows = [row for row in check(run) if row.location == f"{JOB}/round1"]
    agreeing = {row.figure for row in rows if row.answer == "agrees"}
    rates = {"p_whole", "p_train", "p_core", "steady_throughput", "training_sequences_per_second"}
    times = {"e2e_time", "raw_train_time", "step_time_p50", "step_time_p90", "step_time_p99", "eval_time", "data_wait"}
    outcome = {"final_acc1", "final_loss", "converged", "target_reached", "stop_reason", "global_steps"}
    of_ranks = {f"rank 0: {name}" for name in ("raw_train_time", "step_time_sum", "steady_time", "loss_checksum")}
    assert agreeing >= rates | times | outcome | of_ranks | {"vm_noderank0 cpu mean"}
    assert all(row.how for row in rows)
    assert next(row.how for row in rows if row.figure == "rank 0: step_time_p50") == (
        "some steps were not logged; log_freq=1 logs every step; the same for all 2 ranks"
    )


ROUND = "round1"
DIGITS: dict[str, tuple[str, str, str, set[tuple[str, str]]]] = {
    # change: file, pattern, replacement, and the figures that differ afterwards
    "p_train of a result": (
        RESULT,
        r'"p_train": 112\.',
        '"p_train": 113.',
        {(ROUND, "p_train"), ("", "p_train mean"), ("", "p_train stdev"), ("", "p_train min"), ("", "p_train cv")}
        | {("", "round 1: values.p_train")},
    ),
    "percentile of a result": (
        RESULT,
        r'"step_time_p99": 0\.7786(?=[0-9]*,\n    "data_wait")',
        '"step_time_p99": 0.7787',
        {(ROUND, "step_time_p99"), ("", "round 1: values.step_time_p99")},
    ),
    "target of a result": (
        RESULT,
        '"target_reached": true',
        '"target_reached": false',
        {(ROUND, "target_reached"), ("", "round 1: target_reached")}
        | {("", f"steps_to_target {key}") for key in ("n", "stdev", "cv")},
    ),
    "seed of a result": (RESULT, '"seed": 0', '"seed": 1', {(ROUND, "seed"), ("", "round 1: seed")}),
    "hardware of a result": (
        RESULT,
        '"hardware": "cpu"',
        '"hardware": "H100"',
        {(ROUND, "hardware"), ("", "round 1: hardware")},
    ),
    "batch of a configuration": (
        f"{JOB}/config.yaml",
        "train_batch_size: 32",
        "train_batch_size: 64",
        {
            (location, name)
            for location in ("round1", "round2")
            for name in ("train_batch_size of config.yaml", "verdict")
        }
        | {("", name) for name in ("verdict", "round 1: verdict", "round 2: verdict")},
    ),
    "monitor of a result": (
        RESULT,
        r'"mean": 0\.2031',
        '"mean": 0.2032',
        {(ROUND, "vm_noderank0 mem mean"), ("", "round 1: monitors.nodes.vm_noderank0.mem.mean")},
    ),
    "mean of a summary": (f"{JOB}/summary.json", r'"mean": 116\.0', '"mean": 116.1', {("", "p_train mean")}),
    "number of rounds": (
        f"{JOB}/summary.json",
        r'"p_core": {\n      "n": 2',
        '"p_core": {\n      "n": 3',
        {("", "p_core n")},
    ),
    "loss of a step": (LOGS, r'("step": 30, .*?"loss": [0-9]\.)[0-9]', r"\g<1>9", {(ROUND, "rank 0: loss_checksum")}),
    "loss of the last step": (
        LOGS,
        r'("step": 66, .*?"loss": [0-9]\.)[0-9]',
        r"\g<1>9",
        {(ROUND, "rank 0: loss_checksum"), (ROUND, "final_loss")},
    ),
    "time of a step": (
        LOGS,
        r'("step": 30, .*?"step_time": 0\.)[0-9]',
        r"\g<1>1",
        {(ROUND, "rank 0: step_time_sum"), (ROUND, "rank 0: steady_time"), (ROUND, "rank 0: compute_time")}
        | {(ROUND, name) for name in ("num_trained_units", "p_whole", "p_train", "p_core", "steady_throughput")},
    ),
    "throughput of a step": (
        LOGS,
        r'("step": 30, .*?"throughput": )[0-9]',
        r"\g<1>9",
        {(ROUND, name) for name in ("num_trained_units", "p_whole", "p_train", "p_core", "steady_throughput")},
    ),
    "accuracy of an evaluation": (
        LOGS,
        r'("step": 66, "samples": 4224, "acc1": )91',
        r"\g<1>98",
        {(ROUND, "final_acc1"), (ROUND, "final_accuracy")},
    ),
    "an evaluation below the target": (
        LOGS,
        r'("step": 66, "samples": 4224, "acc1": )91',
        r"\g<1>81",
        {(ROUND, name) for name in ("final_acc1", "final_accuracy", "converged", "stop_reason", "target_reached")},
    ),
    "clock of the training": (
        LOGS,
        r'("event": "TRAIN_END".*?"time_ms": [0-9]{8})[0-9]',
        lambda match: f"{match[1]}{(int(match[0][-1]) + 5) % 10}",  # type: ignore[dict-item]
        {(ROUND, "rank 0: raw_train_time"), (ROUND, "vm_noderank0 cpu coverage"), (ROUND, "vm_noderank0 mem coverage")},
    ),
}


@pytest.mark.parametrize(("files", "old", "new", "expected"), DIGITS.values(), ids=DIGITS)
def test_a_changed_digit_is_named(run: Path, files: str, old: str, new: str, expected: set[tuple[str, str]]) -> None:
    """The check needs no hash. The same change in the logs of all ranks is seen, too."""
    for path in sorted(run.glob(files)):
        text, count = re.subn(old, new, path.read_text(), count=1)
        assert count == 1
        path.write_text(text)
    assert {(location, name.replace("rank 1", "rank 0")) for location, name in differing(run)} == expected


def test_one_rank_with_other_figures(run: Path) -> None:
    (log,) = run.glob(LOGS.replace("*", "1"))
    log.write_text(re.sub(r'"p_core": [0-9]', '"p_core": 9', log.read_text()))
    row, *verdicts = [row for row in check(run) if row.answer == "differs"]
    assert [(verdict.figure, verdict.stated, verdict.recomputed, verdict.how) for verdict in verdicts][:1] == [
        ("verdict", "SUSPECT", "INVALID", "ranks disagree about p_core")
    ]
    assert (row.location, row.figure, row.how) == (f"{JOB}/round1", "p_core", "FINISHED of rank 1")
    assert (str(row.stated)[:3], str(row.recomputed)[:3]) == ("116", "916")


def test_percentiles_where_every_step_was_logged(tmp_path: Path) -> None:
    times = (0.5, 0.3, 0.2, 0.4, 0.1)
    of_rank = {"rank": 0, "step_time_p50": 0.25, "step_time_p90": 0.37, "step_time_p99": 0.5}
    values = {
        "global_steps": 5,
        "warmup_steps": 1,
        "resumed_from_step": None,
        "ranks": [of_rank],
        "step_time_p50": 0.25,
    }
    events = [
        *(Event("STEP_END", {"step": n, "step_time": s, "throughput": 8 / s}) for n, s in enumerate(times, 1)),
        Event("FINISHED", values),
    ]
    node = tmp_path / "job" / "round1" / "vm_noderank0"
    node.mkdir(parents=True)
    (node / "rank0.out.log").write_text("".join(f"{event.line()}\n" for event in events))
    (tmp_path / "job" / "config.yaml").write_text("{nnodes: 1, nproc: 1}")
    (node.parent / "result.json").write_text(json.dumps({"schema": 3, "values": values}))
    rows = {row.figure: (row.recomputed, row.answer) for row in check(tmp_path) if "step_time_p" in row.figure}
    assert rows == {
        "step_time_p50": (0.25, "agrees"),
        "rank 0: step_time_p50": (0.25, "agrees"),
        "rank 0: step_time_p90": (pytest.approx(0.37), "agrees"),
        "rank 0: step_time_p99": (pytest.approx(0.397), "differs"),
    }


@pytest.mark.parametrize(
    ("sides", "groups"),
    [
        pytest.param(None, (0,) * 8, id="of a version without meshes"),
        pytest.param((-1, 1, 1), (0,) * 8, id="data parallelism"),
        pytest.param((2, -1, 1), (0, 1, 2, 3) * 2, id="replicas of shards"),
        pytest.param((1, 2, -1), tuple(range(8)), id="shards of divided layers"),
        pytest.param((-1, 1, 2), (0, 1) * 4, id="replicas of divided layers"),
    ],
)
def test_which_ranks_hold_the_same_parameters(sides: tuple[int, int, int] | None, groups: tuple[int, ...]) -> None:
    mesh = {"parallel": {"mesh": dict(zip(("dp_replicate", "dp_shard", "tp"), sides, strict=True))}} if sides else {}
    submitted = (LoggedEvent("SUBMIT_INFO", {"config": {"nnodes": 2, "nproc": 4, **mesh}}, 0.0),)
    group_of = RANK_FIGURES["parameters_group"].compute
    assert tuple(group_of(Rank(number, Path(), submitted)) for number in range(8)) == groups


# ---------------------------------------------------------------- energy


def write_monitors(round_folder: Path) -> None:
    """Power of two nodes and of their devices, from 5 s before the training to 5 s after it; one has a counter."""
    for number in (0, 1):
        node = round_folder / f"node{number}_noderank{number}"
        times = range(995, 1026, 5)
        pwr = (f"{stamp(t)}\t{300 + t % 7}" + (f"\t{310.5 * (t - 900)}" if number else "") for t in times)
        (node / "pwr_monitor.log").write_text("".join(f"{line}\n" for line in pwr))
        blocks = [
            (
                t,
                [
                    Device(40.0 + number, 200.0 + t % 9, 1024.0, 40960.0, 90.0, t * 250.0, 1400.0 + t)
                    for number in range(8)
                ],
            )
            for t in times
        ]
        blocks[3][1][2] = Device(power=65535.0)
        text = "".join(
            f"{stamp(t)}\n" + "".join(f"{device.line()}\n" for device in devices) + "\n" for t, devices in blocks
        )
        (node / "nvidia_monitor.log").write_text(text)
        (node / "cpu_monitor.log").write_text("".join(f"{stamp(t)}\t0.{t % 10 + 1}\n" for t in times if t != 1010))
        (node / "sys_info.log").write_text("clock_offset: +0.000\n")


@pytest.mark.parametrize("older", [False, True], ids=["with offset", "older"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
def test_energy_and_monitors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str, older: bool) -> None:
    """A log without offsets is read by the clocks of the ranks. So all readers see the same in any time zone."""
    import time

    def judged() -> Result:
        return result.result_of_logs(CONFIG, (), 1, folder, result.Ending("finished"))

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        folder = tmp_path / "job" / "round1"
        ranks = [{"rank": rank, "samples": 200} for rank in range(16)]
        values = {**write_round(folder), "ranks": ranks}
        for log in folder.glob("*/rank*.out.log"):  # the last FINISHED counts
            log.write_text(log.read_text() + Event("FINISHED", values, time_ms=1_021_000).line() + "\n")
        write_monitors(folder)
        (tmp_path / "job" / "config.yaml").write_text(yaml.safe_dump(CONFIG))
        there = judged()
        result.write(there, folder)
        for log in folder.glob("*/*_monitor.log"):
            text, stamps = re.subn(r"(?m)^(\d+-\d+-\d+-\d+:\d+:\d+)[-+]\d{4}", r"\1", log.read_text())
            assert stamps >= 6
            if older:
                log.write_text(text)
        monkeypatch.setenv("TZ", "America/Los_Angeles")
        time.tzset()
        assert judged() == there
    finally:
        monkeypatch.undo()
        time.tzset()
    rows = {row.figure: row for row in check(tmp_path) if "node" in row.figure or "energy" in row.figure}
    assert {name: (row.stated, row.recomputed) for name, row in rows.items() if row.answer == "differs"} == {}
    agreeing = {name for name, row in rows.items() if row.answer == "agrees"}
    assert agreeing >= {
        "node0_noderank0 cpu mean",
        "node0_noderank0 cpu coverage",
        "node0_noderank0 pwr energy_j",
        "node1_noderank1 pwr energy_above_idle_j",
        "node0_noderank0 nvidia power energy_j",
        "node0_noderank0 nvidia power max",
        "node1_noderank1 nvidia temperature max",
        "node1_noderank1 nvidia clock mean",
        "energy of devices: energy_j",
        "energy of devices: energy_per_sample_j",
    }
    assert [row.how for name, row in rows.items() if name == "energy of rapl"] == [
        "not measured: node0_noderank0: its monitors do not report it"
    ]


FIVE = {"temperature": 31.0, "power": 57.5, "memory_used": 15.0, "memory_total": 40536.0, "utilisation": 0.0}


@pytest.mark.parametrize(
    ("line", "device"),
    [
        pytest.param("31C 57.5W 15MiB 40536MiB 0%", FIVE, id="five words"),
        pytest.param("31C 57.5W 15MiB 40536MiB 0% 3600J", {**FIVE, "energy": 3600.0}, id="counter"),
        pytest.param("31C 57.5W 15MiB 40536MiB 0% 1410MHz", {**FIVE, "clock": 1410.0}, id="clock"),
        pytest.param("31C N/A N/A N/A N/A", {"temperature": 31.0}, id="not known"),
        pytest.param(
            "31C 65535W 9MiB 8MiB 0%", {"temperature": 31.0, "memory_total": 8.0, "utilisation": 0.0}, id="no figures"
        ),
    ],
)
def test_a_line_of_a_device(tmp_path: Path, line: str, device: dict[str, float]) -> None:
    (tmp_path / "acme_monitor.log").write_text(f"2026-01-01-00:00:00\n{line}\n\n2026-01-01-00:00:05\ntorn 3\n\n")
    assert samples(tmp_path / "acme_monitor.log", 1767225600.0) == [Sample(1767225600.0, (device,))]


# ---------------------------------------------------------------- damaged files


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param(RESULT, "", id="result empty"),
        pytest.param(RESULT, "[1, 2]", id="result a list"),
        pytest.param(RESULT, '{"values": {"p_core": "much"}}', id="figure a text"),
        pytest.param(f"{JOB}/config.yaml", "[]", id="configuration a list"),
        pytest.param(f"{JOB}/config.yaml", "nnodes: many\nnproc: []\n", id="configuration of wrong types"),
        pytest.param(f"{JOB}/changes.yaml", "{a: b}", id="changes"),
        pytest.param(
            f"{JOB}/summary.json", '{"schema": 3, "results": [{}], "statistics": {"p_core": {}}}', id="summary"
        ),
        pytest.param(LOGS.replace("*", "0"), "", id="log empty"),
        pytest.param(LOGS.replace("*", "0"), '[PerfLog] {"event": "FINISHED", "value": {"ranks": 5}}\n', id="no ranks"),
        pytest.param(LOGS.replace("*", "0"), '[PerfLog] {"event": 5, "metadata": {"time_ms": "x"}}\n' * 3, id="events"),
        pytest.param(f"{JOB}/round1/vm_noderank0/cpu_monitor.log", "2026-01-01-00:00:00\tx\n\n\t\t", id="monitor"),
        pytest.param(f"{JOB}/round1/vm_noderank0/sys_info.log", "clock_offset: much\n", id="sys_info"),
    ],
)
def test_damaged_files(run: Path, file: str, text: str) -> None:
    """A damaged file loses its own figures only. The figures of other files stay as they were."""
    before = check(run)
    (run / file).write_text(text)
    after = check(run)
    agreeing = [{row for row in map(_without_rank, rows) if row[2] == "agrees"} for rows in (before, after)]
    assert agreeing[1] <= agreeing[0]
    assert (agreeing[1] == agreeing[0]) == file.endswith("changes.yaml")  # the run has no changes
    if file.startswith(f"{JOB}/round1"):
        assert {row for row in agreeing[0] if row[0] == f"{JOB}/round2"} <= agreeing[1]


def _without_rank(row: Row) -> tuple[str, str, str]:
    """Location, figure and answer of a row, without the number of the rank."""
    return row.location, re.sub("rank [0-9]+", "rank", row.figure), row.answer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            '{"schema": 3, "status": "failed", "values": {}}', "no figures: the status is failed", id="failed"
        ),
        pytest.param(None, "no readable result.json", id="none"),
    ],
)
def test_a_round_without_figures(run: Path, text: str | None, why: str) -> None:
    (run / RESULT).unlink()
    if text is not None:
        (run / RESULT).write_text(text)
    (row,) = [row for row in check(run) if row.location == f"{JOB}/round1"]
    assert (row.figure, row.answer, row.how) == ("FINISHED", "not recomputed", why)
