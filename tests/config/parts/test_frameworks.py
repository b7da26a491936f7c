"""A case on several frameworks: which of its files is composed, and what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import lines, message
from user_folder import TOY, write

from flagperf.config.about_case import frameworks
from flagperf.config.compose import compose, compose_jobs
from flagperf.config.files.search_path import search_path
from flagperf.config.schema.values import JobConfig

MINE = """\
# flagperf model=toy framework=mine
title: Mine, ranks started by themselves
launch: ["{python}", -m, mine, "{config}"]
environment: {MINE_RANK: "{rank}"}
parts: {network: true, task: true}
module: mine
packages: [mine]
install: make mine
failures: {followed: [my peer is gone]}
"""
ON_MINE = """\
# @package _global_
# flagperf model=toy framework=mine
defaults:
  - override /framework: mine
  - _self_

case: toy
title: the same case
unit: numbers
throughput_unit: numbers/s
train_batch_size: 4
eval_batch_size: 4
lr: 0.2
max_steps: 5
network: {_target_: cases.toy.mine.Network}
task: {_target_: cases.toy.mine.Task}
data: {sample: {_target_: cases.toy.write, count: 10}}
"""
VENDOR = """\
# @package _global_
# flagperf vendor=acme hardware=M1
vendor:
  title: Acme
  device: acme
  backend: accl
  plugin: torch_acme
  visible_devices: null
  environment: {ACME: "1"}
  frameworks:
    mine: {device: ACME, plugin: null, environment: {MINE: "2"}}
"""
HARDWARE = """\
# flagperf vendor=acme hardware=M1
title: Acme M1
vendor: acme
memory_gib: 8
power_w: null
peak_flops: {}
"""
FILES = {
    "framework/mine": MINE,
    "model/toy": TOY,
    "model/other": TOY.replace("case: toy", "case: other"),
    "model/mine/toy": ON_MINE,
    "size/tiny/mine/toy": "# @package _global_\n# flagperf model=toy framework=mine\nlr: 0.3\n",
    "vendor/acme": VENDOR,
    "vendor/acme/mine/toy/M1": "# @package _global_\n# flagperf model=toy framework=mine\nlr: 0.4\n",
    "hardware/M1": HARDWARE,
}


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


def summary_of(job: JobConfig) -> tuple[str, str, float, str | None]:
    return job.name, job.config["network"]["_target_"], job.config["lr"], job.tuning


PLAIN = ("toy-pytorch-cpux1x1", "cases.toy.Network", 0.1, None)
REDUCED = ("toy-mine-cpux1x1", "cases.toy.mine.Network", 0.3, None)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param("data_dir=/", PLAIN, id="as its file says"),
        pytest.param("data_dir=/ framework=pytorch", PLAIN, id="the same"),
        pytest.param("framework=mine", REDUCED, id="another, reduced"),
        pytest.param("model=mine/toy", REDUCED, id="by its file"),
        pytest.param(
            "framework=mine vendor=acme hardware=M1 size=full dry_run=true",
            ("toy-mine-M1x1x1", "cases.toy.mine.Network", 0.4, "acme/mine/toy/M1"),
            id="with its own tuning",
        ),
    ],
)
def test_a_case_on_a_framework(bench: Path, overrides: str, expected: tuple[str, str, float, str | None]) -> None:
    assert summary_of(compose(["model=toy", *overrides.split()], [bench])) == expected


def test_a_sweep_over_frameworks(bench: Path) -> None:
    jobs = compose_jobs(["model=toy", "framework=pytorch,mine", "dry_run=true"], multirun=True, config_dirs=[bench])
    assert [job.name for job in jobs] == ["toy-pytorch-cpux1x1", "toy-mine-cpux1x1"]


@pytest.mark.parametrize(
    ("framework", "reached"),
    [
        pytest.param("pytorch", ("acme", "accl", "torch_acme", {"ACME": "1"}), id="the main one"),
        pytest.param("mine", ("ACME", "accl", None, {"ACME": "1", "MINE": "2"}), id="another"),
    ],
)
def test_how_a_framework_reaches_the_devices(bench: Path, framework: str, reached: tuple[object, ...]) -> None:
    job = compose(["model=toy", f"framework={framework}", "vendor=acme", "hardware=M1", "dry_run=true"], [bench])
    vendor = job.vendor
    assert (vendor.device, vendor.backend, vendor.plugin, dict(vendor.environment)) == reached
    assert {key: job.config["vendor"][key] for key in ("device", "plugin")} == {
        "device": reached[0],
        "plugin": reached[2],
    }
    assert job.changes == ()


def test_a_framework_that_the_case_lacks(bench: Path) -> None:
    assert message(["model=other", "framework=mine"], bench) == lines(
        "the case other is not made for this framework",
        where="command line",
        key="framework",
        given="mine",
        allowed="pytorch",
    )
    (bench / "framework/spare.yaml").write_text(MINE)
    assert message(["model=toy", "framework=spare"], bench) == lines(
        "the case toy is not made for this framework",
        where="command line",
        key="framework",
        given="spare",
        allowed="pytorch, mine",
    )


def test_an_unknown_framework(bench: Path) -> None:
    problem = message(["model=toy", "framework=pytroch"], bench)
    assert problem.startswith("no such framework\n") and "pytorch" in problem


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        pytest.param(
            "launch: [",
            "launch: ['{pyhton}', ",
            lines(
                "no such field", where="{bench}/framework/mine.yaml", key="framework.launch", given="{pyhton}",
                allowed="{config}, {master_address}, {master_port}, {nnodes}, {node_rank}, {nproc}, {python}, "
                "{scratch}, {uncached}",
            ),
            id="a launch command",
        ),
        pytest.param(
            '"{rank}"',
            '"{rnk}"',
            lines(
                "no such field", where="{bench}/framework/mine.yaml", key="framework.environment.MINE_RANK",
                given="{rnk}",
                allowed="{address}, {endpoint}, {endpoints}, {endpoints_json}, {local_rank}, {nnodes}, {node_rank}, "
                "{nproc}, {port}, {rank}, {threads}, {world_size}",
            ),
            id="a variable",
        ),
        pytest.param(
            "followed: [",
            "exits: ['rank (\\d+) ended'], followed: [",
            lines(
                "a group of the expression is missing", where="{bench}/framework/mine.yaml",
                key="framework.failures.exits", given="rank (\\d+) ended",
                allowed="an expression with the groups exit_status, and rank or local_rank",
            ),
            id="groups",
        ),
    ],
)  # fmt: skip
def test_what_a_framework_may_say(bench: Path, before: str, after: str, problem: str) -> None:
    (bench / "framework/mine.yaml").write_text(MINE.replace(before, after))
    assert message(["model=toy", "framework=mine"], bench) == problem


def test_the_frameworks_of_a_case_in_lists(bench: Path) -> None:
    assert [frameworks(case, search_path([bench])) for case in ("toy", "other")] == [["pytorch", "mine"], ["pytorch"]]


def test_the_experiment_that_compares_frameworks() -> None:
    jobs = compose_jobs(["+experiment=frameworks", "max_steps=20"], multirun=True)
    assert [(job.name, job.size, job.division) for job in jobs] == [
        ("resnet50-pytorch-cpux1x1", "tiny", "closed"),
        ("resnet50-tensorflow2-cpux1x1", "tiny", "closed"),
        ("resnet50-mindspore-cpux1x1", "tiny", "closed"),
        ("bert-pytorch-cpux1x1", "tiny", "closed"),
        ("bert-paddle-cpux1x1", "tiny", "closed"),
    ]
