"""What a submission lacks, each hole with the command that fills it; and the rows of FlagPerf's table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from example_results import CHANGES, CONFIG, a_result

from flagperf.config.files.search_path import CONF
from flagperf.contract.digest import sha256_of
from flagperf.contract.records import Change
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.readme import row
from flagperf.partners.flagperf.submission import MeasuredJob, check, submissions, unfit
from flagperf.results.summary import summary_of

VALUES = {
    "e2e_time": 28661.4,
    "p_whole": 4475.0,
    "p_train": 4586.2,
    "p_core": 4659.0,
    "final_acc1": 95.52,
    "peak_memory": 5.83,
    "peak_memory_kind": "device",
    "stop_reason": "target",
}
CLUSTER = {"name": "lab", "nodes": [{"address": "a"}, {"address": "b"}], "container": {}}


def job(
    scale: str, *, config: dict[str, Any] | None = None, changes: tuple[Change, ...] = (), **result: Any
) -> MeasuredJob:
    """A job at a scale, whose round differs from one that reached its target by the keywords."""
    nnodes, nproc = map(int, scale.split("x"))
    changed = {**CONFIG, "nnodes": nnodes, "nproc": nproc, "cluster": CLUSTER, **(config or {})}
    round_ = a_result(nnodes=nnodes, nproc=nproc, values=VALUES | result.pop("values", {}), **result)
    return MeasuredJob(Path("none"), summary_of(f"resnet50-pytorch-A100x{scale}", [round_], changed, changes))


ALL = [job("1x1"), job("1x8"), job("2x8")]
START = "flagperf model=resnet50 vendor=nvidia hardware=A100 size=full"
LAB = "cluster=lab data_dir=/data/imagenet"


def refused(jobs: list[MeasuredJob]) -> str:
    with pytest.raises(ConfigError) as caught:
        check(submissions(jobs))
    return str(caught.value)


@pytest.mark.parametrize(
    ("jobs", "given", "commands"),
    [
        pytest.param(
            [job("1x8")],
            ["resnet50-pytorch-A100: no job at 1x1", "resnet50-pytorch-A100: no job at 2x8"],
            [f"{START} nproc=1 {LAB}", f"{START} nnodes=2 nproc=8 {LAB}"],
            id="one scale alone",
        ),
        pytest.param(
            [*ALL[:2], job("2x8", verdict="INVALID", reasons=("rank 3 died", "no FINISHED"))],
            ["resnet50-pytorch-A100x2x8: INVALID: rank 3 died"],
            [f"{START} nnodes=2 nproc=8 {LAB}"],
            id="invalid",
        ),
        pytest.param(
            [ALL[0], ALL[2], job("1x8", target_reached=None, values={"stop_reason": "max_steps"})],
            ["resnet50-pytorch-A100x1x8: no accuracy, ended by max_steps"],
            [f"{START} nproc=8 {LAB}"],
            id="ended early",
        ),
        pytest.param(
            [ALL[0], ALL[2], job("1x8", values={"final_acc1": None})],
            ["resnet50-pytorch-A100x1x8: no accuracy, ended by target"],
            [f"{START} nproc=8 {LAB}"],
            id="no accuracy",
        ),
        pytest.param(
            [*ALL[:2], job("2x8", values={"p_core": None})],
            ["resnet50-pytorch-A100x2x8: no p_core"],
            [f"{START} nnodes=2 nproc=8 {LAB}"],
            id="no figure",
        ),
        pytest.param(
            [*ALL[1:], job("1x1", sample_data=True, config={"size": "tiny"})],
            ["resnet50-pytorch-A100x1x1: size=tiny is not the case"],
            [f"{START} nproc=1 cluster=lab data_dir=PATH"],
            id="tiny",
        ),
        pytest.param(
            [*ALL[1:], job("1x1", synthetic=True)],
            ["resnet50-pytorch-A100x1x1: trained on synthetic batches"],
            [f"{START} nproc=1 {LAB}"],
            id="synthetic",
        ),
        pytest.param(
            [
                job("1x1", config={"cluster": {"container": {}}}, changes=(Change("precision", "fp32", "bf16", "x"),)),
                job("1x8", config={"framework": {"name": "paddle", "main": False}}),
            ],
            [
                *("resnet50-pytorch-A100: no job at 1x8", "resnet50-pytorch-A100: no job at 2x8"),
                *("resnet50-paddle-A100: no job at 1x1", "resnet50-paddle-A100: no job at 2x8"),
            ],
            [
                f"{START} nproc=8 precision=bf16 data_dir=/data/imagenet",
                f"{START} nnodes=2 nproc=8 cluster=NAME precision=bf16 data_dir=/data/imagenet",
                f"{START.replace(' vendor', ' framework=paddle vendor')} nproc=1 {LAB}",
                f"{START.replace(' vendor', ' framework=paddle vendor')} nnodes=2 nproc=8 {LAB}",
            ],
            id="two frameworks, each without its others",
        ),
    ],
)
def test_holes_are_refused(jobs: list[MeasuredJob], given: list[str], commands: list[str]) -> None:
    below = "\n           "
    assert refused(jobs) == (
        "no submission yet: something is missing\n  where:   command line\n"
        f"  given:   {below.join(given)}\n  do:      {below.join(commands)}"
    )


def test_a_submission_can_require_alignments() -> None:
    aligned, otherwise = (
        {"alignment_record": {"golden": golden}} for golden in (sha256_of(CONF / "golden/resnet50.yaml"), "0" * 64)
    )
    groups = submissions([job("1x1", config=aligned), job("1x8", config=aligned), job("2x8", config=otherwise)])
    check(groups)
    with pytest.raises(ConfigError) as caught:
        check(groups, aligned=True)
    assert (caught.value.given, caught.value.advice) == (
        "resnet50-pytorch-A100x2x8: no alignment with the curves of the case",
        "flagperf align model=resnet50 vendor=nvidia hardware=A100\n"
        f"           {START} nnodes=2 nproc=8 {LAB} alignment=RUN_FOLDER",
    )


def test_a_job_that_is_unfit_is_no_hole_beside_one_that_fits() -> None:
    second = job("1x8", verdict="INVALID", reasons=("rank 3 died",))
    check(submissions([*ALL, second]))
    assert [unfit(one) for one in (*ALL, second)] == ["", "", "", "INVALID: rank 3 died"]


THROUGHPUT = {"p_whole": "4475", "p_train": "4586", "p_core": "4659"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            job("1x8", config={"precision": "fp32"}),
            {"配置": "A100x1x8", "precision": "fp32", "fix_hp": "/", "e2e_time": "28661", **THROUGHPUT}
            | {"final_acc": "95.52%", "mem": "5.83/40"},
            id="to its end",
        ),
        pytest.param(
            job("2x8", changes=CHANGES, target_reached=None, values={"peak_memory": None}),
            {"配置": "A100x2x8", "precision": "amp_bf16", "fix_hp": "bs: 256, lr: 0.8", "e2e_time": "/", **THROUGHPUT}
            | {"final_acc": "/", "mem": "/"},
            id="throughput alone",
        ),
    ],
)
def test_rows(found: MeasuredJob, expected: dict[str, str]) -> None:
    assert row(found) == expected
