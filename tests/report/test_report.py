"""The report of a run: read from files alone, and told."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_results import CHANGES, CONFIG, a_result, make_run
from rich.console import Console

from flagperf import report
from flagperf.contract.monitor_log import stamp
from flagperf.contract.outcome import Failure, Outage
from flagperf.contract.perflog import Event, encode
from flagperf.contract.records import Result, Statistics, Summary
from flagperf.contract.target import Target
from flagperf.errors import ConfigError
from flagperf.report import cells, remarks, tables
from flagperf.report.charts import job_charts, read_logs
from flagperf.report.machine import host_rows, machine, read_hosts, software
from flagperf.report.markdown import markdown, table
from flagperf.report.monitor_curves import curves
from flagperf.report.page import page
from flagperf.report.plots import thin
from flagperf.report.round_charts import PHASES, round_charts
from flagperf.report.run_charts import job_names, overlays, sweep_charts
from flagperf.report.scaling import scales, scaling_charts, scaling_rows
from flagperf.results import result, summary
from flagperf.results.summary import summary_of
from flagperf.run.folder import held

RUNS = Path(__file__).parents[1] / "data" / "runs"  # real runs, without what no test reads
VALUES: dict[str, Any] = {
    "e2e_time": 1234.5,
    "p_whole": 10576.0,
    "p_train": 11085.0,
    "p_core": 11874.0,
    "mfu": 0.1234,
    "peak_memory": 27.93,
    "peak_memory_kind": "device",
    "final_acc1": 95.5,
    "stop_reason": "target",
    "global_steps": 5004,
    "num_trained_samples": 20496384,
    "final_loss": 1.2345,
    "step_time_p50": 0.35,
    "step_time_p90": 0.4,
    "step_time_p99": 0.5,
    "init_time": 12.0,
    "eval_time": 40.0,
    "data_wait": 3.0,
    "device_name": "NVIDIA A100-SXM4-40GB",
    "versions": {"torch": "2.14.1", "python": "3.11.7", "nccl": None},
    "ranks": [{"rank": 0, "host": "a"}, {"rank": 1, "host": "a"}, {"rank": 8, "host": "b"}],
}


def a_summary(*results: Result, name: str = "resnet50-pytorch-A100x2x8", **config: Any) -> Summary:
    return summary_of(name, results or (a_result(values=VALUES),), {**CONFIG, **config}, CHANGES)


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, "–", id="absent"),
        pytest.param(0, "0", id="zero"),
        pytest.param(0.000123456, "0.0001235", id="small"),
        pytest.param(41.256, "41.26", id="four digits"),
        pytest.param(12345.6, "12,346", id="large"),
        pytest.param(float("nan"), "nan", id="nan"),
        pytest.param(float("inf"), "inf", id="infinite"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert cells.number(value) == text


@pytest.mark.parametrize(
    ("mean", "stdev", "text"),
    [
        pytest.param(41.256, None, "41.26", id="one round"),
        pytest.param(41.0, 0.52, "41.00 ± 0.52", id="decimals of the deviation"),
        pytest.param(12345.6, 78.9, "12,346 ± 79", id="large"),
        pytest.param(0.61, 0.0, "0.6100", id="no deviation"),
        pytest.param(99.0, 1e-9, "99.00", id="a deviation of rounding errors"),
    ],
)
def test_spread(mean: float, stdev: float | None, text: str) -> None:
    assert cells.spread(Statistics(2, mean, stdev, mean, mean, None)) == text


def test_row() -> None:
    assert cells.row(a_summary()) == {
        "case": "resnet50",
        "verdict": "VALID",
        "target": "reached (acc1 ≥ 95 %)",
        "config": "A100x2x8",
        "precision": "amp_bf16",
        "fix_hp": "bs: 256, lr: 0.8",
        "e2e_time [s]": "1,234",
        "p_whole": "10,576",
        "p_train": "11,085",
        "p_core": "11,874",
        "unit": "images/s",
        "accuracy": "95.50 % acc1",
        "mem [GiB]": "27.9/40",
        "MFU": "12.3 %",
        "energy [Wh]": "–",
        "notes": "–",
    }


@pytest.mark.parametrize(
    ("summary", "column", "text"),
    [
        pytest.param(
            a_summary(size="tiny", framework={"name": "paddle", "main": False}),
            "case",
            "resnet50 (tiny, paddle)",
            id="case",
        ),
        pytest.param(a_summary(revision=2, size="tiny"), "case", "resnet50 (tiny, revision 2)", id="revised case"),
        pytest.param(
            a_summary(a_result(values={"peak_memory": 0.61, "peak_memory_kind": "host rss"})),
            "mem [GiB]",
            "0.61 (host)",
            id="host memory",
        ),
        pytest.param(
            a_summary(
                a_result(monitors={"energy": {"devices": {"energy_wh": 30.0}, "node": {"energy_wh": 42.0}}}),
                a_result(round=2, monitors={"energy": {"devices": {"energy_wh": 31.0}, "node": {"energy_wh": 44.0}}}),
                a_result(round=3, monitors={"energy": {"node": {"not_available": "a: no meter", "coverage": 0.0}}}),
            ),
            "energy [Wh]",
            "43.0 ± 1.4 (nodes)",
            id="energy of whole nodes",
        ),
        pytest.param(
            a_summary(a_result(monitors={"energy": {"rapl": {"energy_wh": 30.0}}})),
            "energy [Wh]",
            "30.00 (cpus)",
            id="energy of processors",
        ),
        pytest.param(a_summary(a_result(values={})), "p_core", "–", id="no figure"),
        pytest.param(a_summary(a_result(target_reached=False)), "target", "missed (acc1 ≥ 95 %)", id="missed"),
        pytest.param(
            a_summary(a_result(), a_result(round=2, target_reached=False)),
            "target",
            "reached in 1 of 2 (acc1 ≥ 95 %)",
            id="reached once",
        ),
        pytest.param(
            a_summary(*(a_result(round=n, values={"global_steps": 100 * n}) for n in (1, 2, 3))),
            "target",
            "reached (acc1 ≥ 95 %) after 100 to 300 steps",
            id="reached after different numbers of steps",
        ),
        pytest.param(
            a_summary(a_result(target=Target("map_bbox", 0.38, "higher", "", {"map_segm": 0.34}))),
            "target",
            "reached (map_bbox ≥ 0.38 and map_segm ≥ 0.34)",
            id="two metrics",
        ),
        pytest.param(
            a_summary(a_result(size="tiny", sample_data=True)),
            "target",
            "reached on sample data (acc1 ≥ 95 %)",
            id="tiny on sample data",
        ),
        pytest.param(
            a_summary(a_result(sample_data=True, target_reached=None)),
            "target",
            "does not apply: sample data",
            id="full on sample data",
        ),
        pytest.param(
            a_summary(a_result(synthetic=True, sample_data=True, target_reached=None)),
            "target",
            "does not apply: synthetic",
            id="synthetic",
        ),
        pytest.param(
            a_summary(a_result(target_reached=None, values={"stop_reason": "max_steps"})),
            "target",
            "not shown: ended by max_steps",
            id="ended early",
        ),
        pytest.param(
            a_summary(a_result(target=None, target_reached=None)), "target", "the case has none", id="no target"
        ),
        pytest.param(a_summary(a_result(status="failed", verdict="INVALID")), "target", "–", id="failed"),
        pytest.param(
            a_summary(a_result(sample_data=True), division="open"), "notes", "sample data; open division", id="notes"
        ),
        pytest.param(
            a_summary(
                a_result(
                    clocks={"a_noderank0": 0.01, "b_noderank1": -120.0},
                    outages=(Outage("b", datetime(2026, 1, 2, 3, 4, 5).timestamp(), 6.78),),
                )
            ),
            "notes",
            "the clock of b_noderank1 was -120.00 s from the launcher's; times are corrected by that; "
            "round 1: b out of reach from 03:04:05 on for 6.8 s",
            id="clocks and outages",
        ),
        pytest.param(
            a_summary(a_result(synthetic=True, sample_data=True), division="open"),
            "notes",
            "synthetic; open division",
            id="notes of a synthetic run",
        ),
        pytest.param(
            a_summary(a_result(), a_result(round=2, status="failed", verdict="INVALID")),
            "notes",
            "left out of the figures: round 2",
            id="a round left out",
        ),
    ],
)
def test_cells(summary: Summary, column: str, text: str) -> None:
    assert cells.row(summary)[column] == text


@pytest.mark.parametrize(
    ("summaries", "text"),
    [
        pytest.param([a_summary()], "1 job: 1 VALID; target reached in 1 of 1 rounds.", id="one job"),
        pytest.param(
            [
                a_summary(),
                a_summary(a_result(verdict="SUSPECT"), a_result(target_reached=False)),
                a_summary(a_result(status="failed", verdict="INVALID")),
            ],
            "3 jobs: 1 VALID, 1 SUSPECT, 1 INVALID; target reached in 2 of 3 rounds.",
            id="all kinds",
        ),
        pytest.param(
            [a_summary(a_result(), a_result(target_reached=None)), a_summary(a_result(target_reached=None))],
            "2 jobs: 2 VALID; target reached in 1 of 2 rounds.",
            id="a limit ended a round",
        ),
        pytest.param([a_summary(a_result(target_reached=None))], "1 job: 1 VALID.", id="no target applies"),
    ],
)
def test_headline(summaries: list[Summary], text: str) -> None:
    assert remarks.headline(summaries) == text


def test_machine() -> None:
    assert machine(a_result(values=VALUES)) == "NVIDIA A100-SXM4-40GB; a, b; torch 2.14.1, python 3.11.7"


# ---------------------------------------------------------------- report.md


def test_markdown(tmp_path: Path) -> None:
    failed = a_result(
        round=2,
        status="failed",
        verdict="INVALID",
        reasons=("failed: rank 3 on b (node rank 1): exit code 1, during training",),
        failure=Failure("exit code 1", "b", 1, 3, "training", 1, last_lines=("boom",)),
        values={},
    )
    job = a_summary(a_result(values=VALUES, seed=7), failed)
    assert markdown(tmp_path / "run1", [job]) == (Path(__file__).parents[1] / "data" / "report.md").read_text("utf-8")


def test_a_table_cannot_be_broken_by_its_text() -> None:
    assert table([{"key": "a|b", "value": "one\ntwo"}]) == "| key | value |\n| --- | --- |\n| a\\|b | one two |"


def test_numbers_stand_at_the_right() -> None:
    """Also where some are absent, or have a unit or a deviation."""
    rows = [
        {"text": "4x", "whole": "1,234", "share": "12.3 %", "spread": "1.20 ± 0.05 (nodes)", "none": "–"},
        {"text": "5", "whole": "–", "share": "4 % acc1", "spread": "nan", "none": "–"},
    ]
    assert table(rows).splitlines()[1] == "| --- | ---: | ---: | ---: | --- |"


def test_hosts_of_a_kind_share_a_line(tmp_path: Path) -> None:
    facts = "host: h{}\nos: Debian 12\nkernel: Linux 6.1\ncpu: EPYC\ncores: {}\nmemory_kib: 33554432\n"
    driver = "driver: NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\n"
    for number in range(6):
        log = tmp_path / "round1" / f"h{number}_noderank{number}" / "sys_info.log"
        log.parent.mkdir(parents=True)
        some = "devices: /dev/a0 /dev/a1\n" + driver if number < 5 else "devices: none\ndriver: unknown\n"
        log.write_text(facts.format(number, 64 if number < 4 else 32) + some)
    (tmp_path / "round1" / "h6_noderank6").mkdir()
    rows = [tuple(row.values()) for row in host_rows(read_hosts(tmp_path))]
    assert rows == [
        ("h0 … h3 (4 hosts)", "EPYC", "64", "32", "2", "535.129.03", "Debian 12, Linux 6.1"),
        ("h4", "EPYC", "32", "32", "2", "535.129.03", "Debian 12, Linux 6.1"),
        ("h5", "EPYC", "32", "32", "–", "–", "Debian 12, Linux 6.1"),
    ]
    assert read_hosts(tmp_path / "round1") == {}


def test_phases_are_those_of_the_node_that_took_longest() -> None:
    first = a_result(phases={"a_noderank0": {"compose": 0.4, "start": 1.0}, "b_noderank1": {"start": 2.345}})
    later = a_result(round=2, phases={"a_noderank0": {"start": 1.0, "launch": 3.0}})
    assert tables.phase_rows([first, later, a_result(round=3)]) == [
        {"round": "1", "compose": "0.40", "start": "2.35", "launch": "–"},
        {"round": "2", "compose": "–", "start": "1.00", "launch": "3.00"},
    ]


def test_sweep(tmp_path: Path) -> None:
    jobs = [
        a_summary(
            a_result(sweep={"train_batch_size": size, "lr": "0.1"}, values=VALUES), name=f"job,train_batch_size={size}"
        )
        for size in ("8", "16")
    ]
    text = markdown(tmp_path, jobs)
    assert "## Sweep\n\n| train_batch_size | lr | p_whole |" in text
    assert "\n| [resnet50, train_batch_size=16, lr=0.1](#job2) | VALID |" in text
    figures = "10,576 | 11,085 | 11,874 | images/s | 1,234 | 95.50 % acc1 | 27.9/40 | 12.3 % | VALID"
    assert f"\n| [16](#job2) | 0.1 | {figures} |\n" in text


def test_a_sweep_of_scales_names_each() -> None:
    jobs = [
        a_summary(a_result(sweep={"lr": lr}, values={"p_train": 10.0 * nproc}), name=f"x{nproc},lr={lr}", nproc=nproc)
        for lr in ("0.1", "0.2")
        for nproc in (1, 2)
    ]
    assert [tuple(row.values())[:2] for row in cells.sweep_rows(jobs)] == [
        ("A100x2x1", "0.1"),
        ("A100x2x2", "0.1"),
        ("A100x2x1", "0.2"),
        ("A100x2x2", "0.2"),
    ]
    assert [chart["series"] for chart in sweep_charts(jobs)] == [
        [{"name": f"A100x2x{nproc}", "points": [[0, 10 * nproc], [1, 10 * nproc]]} for nproc in (1, 2)]
    ]


def test_scaling(tmp_path: Path) -> None:
    def job(nnodes: int, nproc: int, speed: float, case: str = "resnet50") -> Summary:
        result = a_result(case=case, nnodes=nnodes, nproc=nproc, values={"p_train": speed})
        return a_summary(result, name=f"{nnodes}x{nproc}", case=case, nnodes=nnodes, nproc=nproc, train_batch_size=32)

    jobs = [job(2, 8, 1200.0), job(1, 1, 100.0), job(1, 8, 720.0), job(1, 1, 5.0, case="glm")]
    groups = scales(jobs)
    assert [tuple(row.values()) for row in scaling_rows(groups)] == [
        ("resnet50", "1x1", "1", "32", "100.0", "images/s", "1.00", "100 %", "VALID"),
        ("resnet50", "1x8", "8", "32", "720.0", "images/s", "7.20", "90 %", "VALID"),
        ("resnet50", "2x8", "16", "32", "1,200", "images/s", "12.00", "75 %", "VALID"),
    ]
    more = {"labels": [[1.0, "×1"], [8.0, "×8"], [16.0, "×16"]], "zero": True, "dots": True}
    assert scaling_charts(groups) == [
        {
            "kind": "lines",
            "title": "Speed-up",
            "x": "devices, over those of the smallest scale",
            "y": "p_train, over that of the smallest",
            "series": [{"name": "resnet50", "points": [[1.0, 1.0], [8.0, 7.2], [16.0, 12.0]]}],
            "ideal": [1.0, 16.0],
            **more,
        },
        {
            "kind": "lines",
            "title": "Efficiency",
            "x": "devices, over those of the smallest scale",
            "y": "% of the ideal speed-up",
            "series": [{"name": "resnet50", "points": [[1.0, 100.0], [8.0, 90.0], [16.0, 75.0]]}],
            "marks": [{"at": 100.0, "label": ""}],
            **more,
        },
    ]
    assert scales(jobs[1:2]) == scales([jobs[1], jobs[1]]) == {} and scaling_charts({}) == []
    assert "\n## Scaling\n\n| case | scale | devices |" in markdown(tmp_path, jobs)
    assert "<h2>Scaling</h2>" in page(tmp_path, jobs)
    assert "## Scaling" not in markdown(tmp_path, jobs[:1]) and "<h2>Scaling</h2>" not in page(tmp_path, jobs[:1])


def test_sample_data_and_open_division_are_said(tmp_path: Path) -> None:
    text = markdown(tmp_path, [a_summary(a_result(sample_data=True, division="open"), division="open")])
    assert [line for line in text.splitlines() if line.startswith("> ")] == [
        f"> {remarks.SAMPLE_DATA_NOTE}",
        f"> {remarks.OPEN_NOTE}",
    ]


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        pytest.param({}, remarks.SAMPLE_DATA_NOTE, id="trained"),
        pytest.param({"verdict": "INVALID"}, remarks.SAMPLE_DATA_FAILED_NOTE, id="diverged, or never started"),
    ],
)
def test_sample_data_shows_no_training_where_there_was_none(changed: dict[str, Any], note: str) -> None:
    assert remarks.warnings([a_summary(a_result(sample_data=True, **changed))]) == [note]


def test_ranks_that_share_cores_are_a_note(tmp_path: Path) -> None:
    job = make_run(tmp_path / "run")
    config = yaml.safe_load((job / "config.yaml").read_text())
    (job / "config.yaml").write_text(yaml.safe_dump(config | {"vendor": {"name": "cpu", "device": "cpu"}}))
    (job / "round1/node0_noderank0/sys_info.log").write_text("host: a\ncores: 2\n")
    (found,) = report.read_run(tmp_path / "run")
    assert "8 ranks share 2 cores" in cells.notes(found)
    small = a_summary(nnodes=1, nproc=1)
    (_, row) = scaling_rows(scales([small, found]))
    assert row["notes"] == "8 ranks share 2 cores"


def test_synthetic_is_said() -> None:
    """Where the held batches came from counts for nothing then."""
    summaries = [a_summary(a_result(synthetic=True, sample_data=True)), a_summary()]
    assert remarks.warnings(summaries) == [remarks.SYNTHETIC_NOTE]


def test_revisions_that_differ_are_said() -> None:
    """Jobs of several runs, put into one folder: their rows stand side by side."""
    revised, other = a_summary(a_result(revision=2), revision=2), a_summary(a_result(case="glm"), case="glm")
    on_another = a_summary(a_result(framework="tensorflow2", revision=2))  # a case of its own
    assert remarks.warnings([a_summary(), other, on_another]) == []
    assert remarks.warnings([a_summary(), revised, other]) == [
        "resnet50 is here in revisions 1 and 2: the case was changed between them, and their results do not compare."
    ]


def test_rounds_that_differ_make_the_job_suspect(tmp_path: Path) -> None:
    job = a_summary(*(a_result(round=n, values={**VALUES, "p_core": value}) for n, value in ((1, 90.0), (2, 110.0))))
    reason = (
        "the throughput of its rounds varies by 14.1 % (coefficient of variation of p_core), over max_cv=0.05. "
        "Was the machine busy with something else?"
    )
    assert (cells.row(job)["verdict"], remarks.headline([job])) == (
        "SUSPECT",
        "1 job: 1 SUSPECT; target reached in 2 of 2 rounds.",
    )
    said = f"{job.name}, all rounds: {reason}"
    assert said in " ".join(shown([job], 200))
    assert f"**{job.name}, all rounds: SUSPECT**\n\n- {reason}\n" in markdown(tmp_path, [job])
    html = page(tmp_path, [job])
    assert "<h4>All rounds: SUSPECT</h4>\n<ul>\n<li>the throughput of its rounds varies by 14.1 %" in html
    assert cells.row(a_summary(*job.results, max_cv=0.2))["verdict"] == "VALID"


@pytest.mark.parametrize(
    ("has_code", "proof", "said"),
    [
        pytest.param(False, None, "", id="a script alone"),
        pytest.param(True, None, "; nothing shows that it does what the case does; a proof: unread", id="no proof"),
        pytest.param(
            True,
            {"differences": {"loss": 1.25e-7, "weights": 0.0}},
            "; shown to do what the case does, with a largest difference of 1.2e-07",
            id="a proof",
        ),
    ],
)
def test_code_of_the_vendors_own_is_said(has_code: bool, proof: dict[str, Any] | None, said: str) -> None:
    replaced = {"environment_script": "env.sh", "optimizer": "acme.FusedSGD"}
    extension = {"replaced": replaced, "files": {}, "has_code": has_code, "proof": proof, "no_proof": "unread"}
    job = a_summary(extension=extension)
    assert cells.row(job)["notes"] == f"ext: environment_script env.sh, optimizer acme.FusedSGD{said}"


def test_the_users_own_parts_are_said(tmp_path: Path) -> None:
    own = {"hardware/A100": "/bench/hardware/A100.yaml, in place of the shipped file", "cluster/lab": "/bench/lab.yaml"}
    job = a_summary(own=own)
    unknown = "the user's own: hardware/A100; the device was not checked: its own file states no device_names"
    assert cells.row(job)["notes"] == unknown
    known = a_summary(own=own, hardware={**job.config["hardware"], "device_names": ["A100"]})
    assert cells.row(known)["notes"] == "the user's own: hardware/A100"
    table_of_own = (
        "The user's own, beside what flagperf ships:\n\n| what | which |\n| --- | --- |\n"
        "| hardware/A100 | /bench/hardware/A100.yaml, in place of the shipped file |\n"
        "| cluster/lab | /bench/lab.yaml |\n"
    )
    assert table_of_own in markdown(tmp_path, [job])
    assert ">cluster/lab</td>" in page(tmp_path, [job])


# ---------------------------------------------------------------- terminal


def shown(summaries: list[Summary], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(report.terminal_table(summaries))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_one_job_is_shown_upright() -> None:
    suspect = a_result(values=VALUES, verdict="SUSPECT", reasons=("rank 1 is slow",), sample_data=True)
    assert shown([a_summary(suspect)], 60) == [
        "              resnet50-pytorch-A100x2x8",
        "case          resnet50",
        "verdict       SUSPECT",
        "target        reached on sample data (acc1 ≥ 95 %)",
        "config        A100x2x8",
        "precision     amp_bf16",
        "fix_hp        bs: 256, lr: 0.8",
        "e2e_time [s]  1,234",
        "p_whole       10,576",
        "p_train       11,085",
        "p_core        11,874",
        "unit          images/s",
        "accuracy      95.50 % acc1",
        "mem [GiB]     27.9/40",
        "MFU           12.3 %",
        "notes         sample data",
        "On sample data: a small generated data set. It shows that",
        "the case trains and what the machine does; it does not show",
        "that the case's own target is reached.",
        "resnet50-pytorch-A100x2x8, round 1: rank 1 is slow",
    ]


def test_many_jobs_are_shown_in_lines() -> None:
    jobs = [a_summary(name=f"job{n}") for n in range(4)]
    assert shown(jobs, 80) == [
        "job  verdict p_whole p_train p_core unit     accuracy",
        *(f"job{n} VALID   10,576  11,085  11,874 images/s 95.50 % acc1" for n in range(4)),
    ]


# ---------------------------------------------------------------- files → report


def test_a_run_is_read_back(tmp_path: Path) -> None:
    make_run(tmp_path)
    (found,) = report.read_run(tmp_path)
    assert (found.name, found.config, found.changes) == ("resnet50-pytorch-A100x2x8", {**CONFIG, "repeat": 2}, CHANGES)
    assert [(round_.round, round_.verdict, round_.status) for round_ in found.results] == [
        (1, "VALID", "finished"),
        (2, "VALID", "finished"),
    ]
    assert found.statistics["p_core"] == Statistics(2, 200.0, 0.0, 200.0, 200.0, 0.0)


def test_jobs_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for size in (16, 8, 128):
        make_run(tmp_path, rounds=0, repeat=1, name=f"case,train_batch_size={size}")
    found = report.read_run(tmp_path)
    assert [dict(job.results[0].sweep) for job in found] == [{"train_batch_size": str(n)} for n in (8, 16, 128)]


def test_a_round_of_another_revision(tmp_path: Path) -> None:
    job = make_run(tmp_path)
    path = job / "round2" / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "revision": 2}))
    with pytest.raises(ConfigError) as refused:
        report.read_run(tmp_path)
    assert str(refused.value) == (
        "this round is of another revision of the case than its job\n"
        f"  where:   {path}\n"
        "  key:     revision\n"
        "  given:   2\n"
        "  allowed: 1\n"
        "  do:      take the round out of the job's folder: rounds of different revisions make no statistics"
    )


def test_swept_values_are_read_from_the_name_of_the_folder(tmp_path: Path) -> None:
    make_run(tmp_path, rounds=0, repeat=1, name="case,data_dir=%2Fdata%2Fa%20b,betas=[0.9,0.95]")
    (found,) = report.read_run(tmp_path)
    assert found.results[0].sweep == {"data_dir": "/data/a b", "betas": "[0.9,0.95]"}


def broken_off(job: Path) -> None:
    (job / "round2" / "result.json").unlink()
    log = job / "round2" / "node1_noderank1" / "rank9.out.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:8]))


def no_logs(job: Path) -> None:
    shutil.rmtree(job / "round2" / "node1_noderank1")
    (job / "round2" / "result.json").unlink()


def no_round(job: Path) -> None:
    shutil.rmtree(job / "round2")


def test_a_run_in_progress_says_what_is_known(tmp_path: Path) -> None:
    """The launcher holds the run folder: in round 2 the ranks train, round 3 and the next job have not begun."""
    job = make_run(tmp_path, repeat=3)
    broken_off(job)
    (job / "round2" / "node0_noderank0" / "rank0.out.log").write_text(first_lines(job, 12))
    make_run(tmp_path, rounds=0, repeat=1, name="resnet50-pytorch-A100x2x8,lr=0.2")
    with held(tmp_path):
        found = report.read_run(tmp_path)
    assert [[(one.status, one.verdict, one.reasons) for one in job.results] for job in found] == [
        [
            ("finished", "VALID", ()),
            ("running", "RUNNING", ("running: step 80, loss 0.625",)),
            ("waiting", "RUNNING", ("waiting: its turn has not come",)),
        ],
        [("waiting", "RUNNING", ("waiting: its turn has not come",))],
    ]
    assert remarks.headline(found) == "2 jobs: 2 RUNNING; target reached in 1 of 1 rounds."
    assert [path.name for path in report.write(tmp_path, found)] == ["report.md", "report.html"]
    text = (tmp_path / "report.md").read_text()
    assert "**resnet50-pytorch-A100x2x8, round 2: RUNNING**\n\n- running: step 80, loss 0.625\n" in text
    ended = report.read_run(tmp_path)
    assert [one.status for one in ended[0].results] == ["finished", "unfinished", "not started"]


def first_lines(job: Path, number: int) -> str:
    log = job / "round2" / "node0_noderank0" / "rank0.out.log"
    return "".join(log.read_text().splitlines(keepends=True)[:number])


def torn_result(job: Path) -> None:
    (job / "round2" / "result.json").write_text('{"schema": 2, "case')


DIED = "no result.json that can be read: how the processes ended is not known"


@pytest.mark.parametrize(
    ("damage", "status", "reasons"),
    [
        pytest.param(broken_off, "unfinished", ("no FINISHED from rank 9", DIED), id="the launcher was killed"),
        pytest.param(
            no_logs, "unfinished", ("no log of ranks 8, 9, 10, 11, 12, 13, 14, 15", DIED), id="a node's logs are gone"
        ),
        pytest.param(no_round, "not started", ("not started",), id="a round never began"),
        pytest.param(torn_result, "unfinished", (DIED,), id="result.json is torn"),
    ],
)
def test_a_broken_run_says_what_is_missing(tmp_path: Path, damage: Any, status: str, reasons: tuple[str, ...]) -> None:
    damage(make_run(tmp_path))
    (found,) = report.read_run(tmp_path)
    assert [(round_.status, round_.reasons) for round_ in found.results] == [("finished", ()), (status, reasons)]
    assert [path.name for path in report.write(tmp_path, [found])] == ["report.md", "report.html"]


@pytest.mark.parametrize("there", [True, False], ids=["empty folder", "no folder"])
def test_no_run(tmp_path: Path, there: bool) -> None:
    folder = tmp_path if there else tmp_path / "gone"
    with pytest.raises(ConfigError, match="no run in this folder"):
        report.read_run(folder)


@pytest.mark.parametrize("text", ["nnodes: 1\nnpr", "", "a: [", "- 1"], ids=["torn", "empty", "not YAML", "a list"])
def test_a_configuration_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    config = make_run(tmp_path) / "config.yaml"
    config.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml or changes\.yaml of this job cannot be read") as caught:
        report.read_run(tmp_path)
    assert caught.value.where == str(config.parent)


# ---------------------------------------------------------------- charts


def test_charts(tmp_path: Path) -> None:
    job = make_run(tmp_path)
    (done,) = report.read_run(tmp_path)
    found = {chart["title"]: chart for chart in job_charts(done, read_logs(job, done), {})}
    assert list(found) == ["Loss", "Metric of the evaluations", "Throughput of the job", "Step time"]
    assert found["Metric of the evaluations"] == {
        "kind": "lines",
        "title": "Metric of the evaluations",
        "x": "step",
        "y": "acc1 [%]",
        "series": [{"name": f"round {n}", "points": [[50, 80.0], [100, 95.5]]} for n in (1, 2)],
        "marks": [{"at": 95.0, "label": "target acc1 ≥ 95 %"}],
        "dots": True,
    }
    assert found["Loss"]["series"][0]["points"][:2] == [[10, 5.0], [20, 2.5]]


def test_percentiles_are_those_that_each_round_measured() -> None:
    """Over its steps after the warm-up, which the plots over steps mark; nothing is averaged over rounds."""
    later = Event("STEP_END", {"step": 20, "loss": 0.5, "throughput": 6.0, "step_time": 0.4}, time_ms=102_000, rank=3)
    logs = {2: [*STEPS, later]}
    slow = {**VALUES, "step_time_p50": 0.7, "step_time_p90": None, "warmup_steps": 20}
    found = {chart["title"]: chart for chart in job_charts(a_summary(a_result(round=2, values=slow)), logs, {})}
    assert found["Percentiles of the step time"] == {
        "kind": "dots",
        "title": "Percentiles of the step time",
        "x": "ms, over all steps after the warm-up",
        "names": ["p50", "p90", "p99"],
        "rows": [
            {
                "name": "round 2",
                "points": [
                    {"series": 0, "x": 700.0, "tip": "p50 700 ms"},
                    {"series": 2, "x": 500.0, "tip": "p99 500 ms"},
                ],
            }
        ],
    }
    assert {title: chart.get("shade") for title, chart in found.items() if chart["kind"] == "lines"} == {
        "Loss": None,
        "Throughput of the job": {"to": 20, "label": "warm-up"},
        "Step time": {"to": 20, "label": "warm-up"},
    }


STEPS = [
    Event("SUBMIT_INFO", time_ms=99_000, rank=3),
    Event("INIT_START", time_ms=100_500, rank=3),
    Event("STEP_END", {"step": 10, "loss": 1.0, "throughput": 5.0, "step_time": 0.5}, time_ms=101_000, rank=3),
    Event("TRAIN_END", time_ms=103_000, rank=3),
]


def test_a_phase_has_one_colour_in_all_plots(tmp_path: Path) -> None:
    """By its place among all phases, whichever of them a round had."""
    some = a_result(phases={"a_noderank0": {"image": 1.0, "first_step": 2.0, "stop": 0.5}}, started=100.0, seconds=5.0)
    (chart,) = round_charts(tmp_path, some, STEPS)
    assert chart == {
        "kind": "spans",
        "title": "Where the time went",
        "x": "time [s], since round 1 began",
        "names": list(PHASES),
        "rows": [
            {
                "name": "a · node rank 0",
                "spans": [[0.0, 1.0, "image"], [1.0, 3.0, "first step"], [3.0, 4.5, "train"], [4.5, 5.0, "stop"]],
            },
            {"name": "rank 3", "spans": [[0.0, 0.5, "imports"], [1.0, 3.0, "train"]]},
        ],
    }


@pytest.mark.parametrize(
    ("started", "seconds"),
    [
        pytest.param(98.5, [1.5, 6.5], id="by the start of the round"),
        pytest.param(100.4, [0.0, 5.0], id="a sample of the same second"),
    ],
)
def test_monitors_count_from_the_start_of_the_round(tmp_path: Path, started: float, seconds: list[float]) -> None:
    node = tmp_path / "a_noderank0"
    node.mkdir()
    (node / "sys_info.log").write_text("clock_offset: 2.0\n")
    (node / "cpu_monitor.log").write_text(f"{stamp(102)}\t0.25\n{stamp(107)}\t0.5\n")
    chart = round_charts(tmp_path, a_result(round=2, started=started), STEPS)[1]
    assert (chart["title"], chart["x"]) == ("CPU busy, %", "time [s], since round 2 began")
    assert chart["series"] == [{"name": "a · node rank 0", "points": [[seconds[0], 25.0], [seconds[1], 50.0]]}]


SWEPT = {  # values of a sweep → what a job came to
    ("64", "0.1"): {"p_train": 100.0, "final_acc1": 90.0},
    ("8", "0.1"): {"p_train": 50.0, "final_acc1": 91.0},
    ("8", "auto"): {"p_train": 51.0, "final_acc1": math.nan},
}


def swept_jobs() -> list[Summary]:
    return [
        a_summary(a_result(sweep={"batch": batch, "lr": lr}, values=found), name=f"resnet50-A100,batch={batch},lr={lr}")
        for (batch, lr), found in SWEPT.items()
    ]


def test_a_sweep_is_drawn_over_each_of_its_keys() -> None:
    shown = [(chart["title"], chart["y"], chart["labels"], chart["series"]) for chart in sweep_charts(swept_jobs())]
    sizes, rates = [[0, "8"], [1, "64"]], [[0, "0.1"], [1, "auto"]]
    assert shown == [
        (
            "p_train over batch",
            "images/s",
            sizes,
            [{"name": "lr=0.1", "points": [[0, 50], [1, 100]]}, {"name": "lr=auto", "points": [[0, 51]]}],
        ),
        ("final_acc1 over batch", "acc1 [%]", sizes, [{"name": "lr=0.1", "points": [[0, 91], [1, 90]]}]),
        (
            "p_train over lr",
            "images/s",
            rates,
            [{"name": "batch=64", "points": [[0, 100]]}, {"name": "batch=8", "points": [[0, 50], [1, 51]]}],
        ),
        (
            "final_acc1 over lr",
            "acc1 [%]",
            rates,
            [{"name": "batch=64", "points": [[0, 90]]}, {"name": "batch=8", "points": [[0, 91]]}],
        ),
    ]


def test_jobs_of_a_case_are_drawn_over_each_other() -> None:
    """Each by its first round that counts; a job of another case, or without a log, has no part in it."""
    first, second, third = swept_jobs()
    failed = a_summary(a_result(verdict="INVALID"), a_result(round=2), name="resnet50-A100,batch=32,lr=0.1")
    other = a_summary(name="glm-A100", case="glm")
    loss = [Event("STEP_END", {"step": step, "loss": 4.0 / step}, time_ms=0) for step in (1, 2, 4)]
    jobs = [(first, {1: loss[:2]}), (failed, {1: loss[:1], 2: loss[1:]}), (second, {}), (other, {1: loss})]
    (chart,) = overlays(jobs)
    assert (chart["title"], chart["series"]) == (
        "resnet50: loss of each job",
        [{"name": "batch=64", "points": [[1, 4.0], [2, 2.0]]}, {"name": "batch=32", "points": [[2, 2.0], [4, 1.0]]}],
    )
    assert overlays([(third, {1: loss})]) == []


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        pytest.param(["a-pytorch-cpux1x1", "a-pytorch-cpux1x8"], ["cpux1x1", "cpux1x8"], id="scales"),
        pytest.param(["a-b,lr=1e-3,bs=8", "a-b,lr=1e-4,bs=8"], ["lr=1e-3", "lr=1e-4"], id="swept"),
        pytest.param(["a-b", "a-b,lr=1"], ["a-b", "lr=1"], id="one with no more than the other"),
    ],
)
def test_job_names(names: list[str], shown: list[str]) -> None:
    assert job_names([a_summary(name=name) for name in names]) == shown


def test_thin_keeps_extremes() -> None:
    points = [[float(x), 0.0] for x in range(10_000)]
    points[4321][1], points[8765][1] = 50.0, -50.0
    kept = thin(points, 100)
    assert len(kept) <= 100 and [4321.0, 50.0] in kept and [8765.0, -50.0] in kept
    assert kept == sorted(kept) and thin(points[:100], 100) == points[:100]


ACCELERATORS = {
    "Accelerators busy, %": [20.0],
    "Accelerator memory, GiB": [2.0],
    "Power of an accelerator, W": [50.0],
    "Accelerator temperature, °C": [35.0],
}


@pytest.mark.parametrize(
    ("monitors", "accelerators"),
    [
        pytest.param({}, ACCELERATORS, id="devices of the job unknown"),
        pytest.param({"nvidia": {"indices": [1, 0]}}, ACCELERATORS, id="both devices"),
        pytest.param(
            {"nvidia": {"indices": [1]}},
            {
                "Accelerators busy, %": [30.0],
                "Accelerator memory, GiB": [3.0],
                "Accelerator temperature, °C": [40.0],
            },
            id="one of the devices",
        ),
    ],
)
def test_curves(tmp_path: Path, monitors: dict[str, Any], accelerators: dict[str, list[float]]) -> None:
    (tmp_path / "cpu_monitor.log").write_text("1970-01-02-00:00:00\t0.25\n1970-01-02-00:00:05\t0.5\ntorn\n")
    (tmp_path / "mem_monitor.log").write_text("")
    (tmp_path / "pwr_monitor.log").write_text("1970-01-02-00:00:00\tnot available: no sensor\n")
    (tmp_path / "nvidia_monitor.log").write_text(
        "1970-01-02-00:00:00\n30C 50W 1024MiB 40960MiB 10%\n40C N/A 3072MiB 40960MiB 30%\n\n1970-01-02-00:00:05\n30C 5"
    )
    found = curves(tmp_path, monitors)
    assert {title: [value for _, value in points] for title, points in found.items()} == {
        "CPU busy, %": [25.0, 50.0],
        **accelerators,
    }
    (first, _), (second, _) = found["CPU busy, %"]
    assert second - first == 5


def test_figures_of_some_devices_say_of_how_many() -> None:
    node = {
        "cpu": {"mean": 0.5, "max": 0.9, "coverage": 0.98},
        "nvidia": {
            "devices": 2,
            "indices": [2, 3],
            "temperature": {"mean": 60.0, "max": 70.0, "coverage": 1.0, "devices": 2},
            "power": {"mean": 300.0, "max": 310.0, "coverage": 0.95, "devices": 1},
        },
    }
    result = a_result(monitors={"nodes": {"node0_noderank0": node}, "energy": {}})
    assert [(row["figure"], row["coverage"]) for row in tables.monitor_rows(result)] == [
        ("CPU busy", "98 %"),
        ("accelerator temperature", "100 %"),
        ("power of the accelerators", "95 %, 1 of 2 devices"),
    ]
    assert tables.missing_monitors([result]) == [
        "Not available on node0_noderank0: energy of the accelerators (the power of 1 of 2 is known)"
    ]


def test_figures_that_were_left_out_are_named() -> None:
    node = {
        "cpu": {"mean": 0.5, "max": 0.9, "coverage": 0.98, "impossible": 2},
        "nvidia": {"devices": 1, "indices": [0], "impossible": {"power": 3, "energy": 1}},
    }
    assert tables.missing_monitors([a_result(monitors={"nodes": {"h1_noderank0": node}, "energy": {}})]) == [
        "Left out on h1_noderank0: 2 impossible values of CPU busy",
        "Left out on h1_noderank0: 3 impossible values of power of the accelerators",
        "Left out on h1_noderank0: 1 impossible value of energy",
    ]


# ---------------------------------------------------------------- recorded runs


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Monitor logs hold local time; the runs were recorded in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", ["two-rounds", "sweep"])
def test_a_recorded_run_is_read_as_its_launcher_did(name: str) -> None:
    """All that read_run finds is what summary.json says."""
    folder = RUNS / name
    written = [summary.read(path.parent) for path in sorted(folder.glob("*/summary.json"))]
    assert [as_text(job) for job in report.read_run(folder)] == [as_text(job) for job in written]


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("path", sorted(RUNS.glob("*/*/round*")), ids=lambda path: path.name)
def test_a_recorded_round_is_judged_as_its_launcher_did(path: Path) -> None:
    """Its logs, and how the round ended, give what the launcher wrote."""
    (job,) = (job for job in report.read_run(path.parents[1]) if job.name == path.parent.name)
    known = result.read(path, job.config)
    read = result.result_of_logs(job.config, job.changes, known.round, path, result.Ending.of(known), known.sweep)
    assert as_text(read) == as_text(known)


def as_text(found: Result | Summary) -> str:
    """As result.json holds it, without the fields that are newer than the recorded runs. NaN is text."""
    text = dataclasses.asdict(found)
    for round_ in text.get("results", [text]):
        del round_["achievable"], round_["cost"]
    return json.dumps(encode(text), indent=1)


def test_a_failed_job_of_a_sweep_is_explained(tmp_path: Path) -> None:
    folder = shutil.copytree(RUNS / "sweep", tmp_path / "sweep")
    text = report.write(folder, report.read_run(folder))[0].read_text()
    assert "**2 jobs: 1 VALID, 1 INVALID.**" in text
    assert "- the loss is not finite (final_loss nan)" in text
    assert "TrainingError: training diverged: the loss was nan at step 5\n~~~~" in text


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        pytest.param({}, "", id="a result from before it was known"),
        pytest.param(
            {
                "versions": {"torch": "2.14.1", "mine": None},
                "code": {"flagperf": "f1", "cases": "c1"},
                "modules": {
                    "/a/mine/__init__.py": {"module": "mine", "sha256": "01"},
                    "/a/mine/part.py": {"module": "mine.part", "sha256": "02"},
                },
                "image": {"reference": "acme:1", "id": "sha256:ab", "digest": "none"},
            },
            "torch 2.14.1; code of flagperf f1, code of cases c1; modules from elsewhere: mine; image acme:1 sha256:ab",
            id="all of it",
        ),
    ],
)
def test_software(known: dict[str, Any], shown: str) -> None:
    assert software(a_result(built={"software": known})) == shown
