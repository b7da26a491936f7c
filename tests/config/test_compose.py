"""Overrides → JobConfig: layers, tunings, changes with their sources, sweeps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
import yaml
from user_folder import SAMPLE, TOY, write

from flagperf.config.compose import compose, compose_jobs
from flagperf.config.files.search_path import CONF
from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.platform import Hardware, Vendor
from flagperf.contract.records import Change
from flagperf.contract.target import Target
from flagperf.errors import ConfigError

A100 = ("model=resnet50", "vendor=nvidia", "hardware=A100", "data_dir=/data")
TUNINGS = CONF / "vendor/nvidia/resnet50"


def changed(key: str, before: Any, after: Any, source: str) -> Change:
    return Change(key=key, before=before, after=after, source=source)


def test_typed_parts() -> None:
    job = compose(["model=resnet50", "size=full", "nproc=2", "data_dir=/data"])
    assert job.vendor == Vendor(
        name="cpu",
        title="the CPU of any machine",
        device="cpu",
        backend="gloo",
        plugin=None,
        visible_devices=None,
        container=job.vendor.container,
        image=job.vendor.image,
        environment={"OMP_WAIT_POLICY": "PASSIVE"},
    )
    assert job.hardware == Hardware(
        name="cpu", title="any CPU", memory_gib=None, power_w=None, peak_flops={}, vendor="cpu"
    )
    assert job.cluster == Cluster(
        name="local",
        title="this machine, without ssh",
        nodes=(Node(name=gethostname(), address="127.0.0.1", local=True),),
    )
    assert job.target == Target(metric="acc1", value=75.5, direction="higher", unit="%")
    assert (job.case, job.framework.name, job.size, job.division) == ("resnet50", "pytorch", "full", "closed")
    assert (job.nnodes, job.nproc, job.repeat, job.world_size) == (1, 2, 1, 2)
    assert job.name == "resnet50-pytorch-cpux1x2"


def test_config_is_plain_resolved_and_named() -> None:
    config = compose(["model=resnet50", "size=full", "data_dir=/data", "lr=0.2"]).config
    assert yaml.safe_load(yaml.safe_dump(dict(config))) == config
    assert "${" not in str(config)
    assert config["optimizer"] == {"_target_": "torch.optim.SGD", "lr": 0.2, "momentum": 0.9, "weight_decay": 1e-4}
    assert config["train_data"]["root"] == "/data/train"
    assert config["data"]["require"] == {"train/*/*": 1, "val/*/*": 1}
    assert {part: config[part]["name"] for part in ("vendor", "hardware", "cluster", "runtime", "framework")} == {
        "vendor": "cpu",
        "hardware": "cpu",
        "cluster": "local",
        "runtime": "process",
        "framework": "pytorch",
    }
    assert {"lr", "momentum", "precision"} <= set(config["mutable"])


@pytest.mark.parametrize(
    ("overrides", "required"),
    [
        pytest.param([], {"blocklm-large-blank/200000/mp_rank_00_model_states.pt": 1}, id="the case's own"),
        pytest.param(["init_checkpoint='/data/[1].pt'"], {"[[]1].pt": 1}, id="another in data_dir"),
        pytest.param(["init_checkpoint=/weights/1.pt"], {}, id="elsewhere"),
        pytest.param(["init_checkpoint=null"], {}, id="none"),
        pytest.param(["size=tiny"], {}, id="a size without"),
    ],
)
def test_weights_to_start_from_belong_to_the_data(overrides: list[str], required: dict[str, int]) -> None:
    config = compose(["model=glm", "size=full", "division=open", "data_dir=/data", *overrides]).config
    paths = {config["train_path"], config["eval_path"]}
    assert {pattern: least for pattern, least in config["data"]["require"].items() if pattern not in paths} == required


@pytest.mark.parametrize(
    ("overrides", "runtime", "size"),
    [
        pytest.param(["data_dir=/data"], "process", "tiny", id="cpu"),
        pytest.param([*A100], "docker", "full", id="an accelerator defaults to docker and full"),
        pytest.param([*A100, "runtime=process", "size=tiny"], "process", "tiny", id="the command line decides"),
    ],
)
def test_runtime_and_size(overrides: list[str], runtime: str, size: str) -> None:
    job = compose(overrides)
    assert (job.runtime.name, job.size, job.config["size"]) == (runtime, size, size)


BATCH_256 = [
    ("train_batch_size", 32, 256),
    ("eval_batch_size", 32, 256),
    ("lr", 0.1, 0.8),
    ("precision", "fp32", "tf32"),
]


@pytest.mark.parametrize(
    ("overrides", "tuning", "expected"),
    [
        pytest.param(["nproc=1"], "A100x1x1", BATCH_256, id="1x1"),
        pytest.param(["nproc=8"], "A100x1x8", [("precision", "fp32", "tf32")], id="1x8"),
        pytest.param(["nnodes=2", "nproc=8"], "A100x2x8", BATCH_256, id="2x8"),
        pytest.param(["nproc=4"], "A100", [("precision", "fp32", "tf32")], id="no file for the scale: the hardware's"),
    ],
)
def test_tuning_of_the_scale(overrides: list[str], tuning: str, expected: list[tuple[str, Any, Any]]) -> None:
    job = compose([*A100, *overrides])
    assert job.tuning == f"nvidia/resnet50/{tuning}"
    files = {"precision": "A100"}  # the file for the scale lies over it, and says all else
    assert job.changes == tuple(
        changed(*change, f"tuning nvidia/resnet50/{files.get(change[0], tuning)}") for change in expected
    )
    assert job.notes == (f"tuning: {TUNINGS / tuning}.yaml",)


def test_no_tuning_says_which_exist() -> None:
    job = compose(["model=resnet50", "vendor=nvidia", "hardware=H100", "data_dir=/data"])
    assert (job.tuning, job.changes) == (None, ())
    assert job.notes == (
        "no tuning in vendor/nvidia/resnet50 for H100x1x1 (there: A100, A100x1x1, A100x1x8, A100x2x8, B200x1x8, "
        "H100x1x8, H200x1x8); the case's own values are used",
    )


def test_a_tiny_case_has_no_tuning() -> None:
    job = compose([*A100, "size=tiny"])
    assert (job.tuning, job.notes) == (None, ())


def test_precedence_and_sources(tmp_path: Path) -> None:
    """case < tuning < experiment < command line; each change names what won."""
    experiment = "# @package _global_\nnnodes: 2\nnproc: 8\neval_batch_size: 64\nlr: 0.4\nmax_steps: 9\n"
    bench = write(tmp_path, {"experiment/a": experiment})
    job = compose([*A100, "+experiment=a", "lr=0.3"], [bench])
    assert (job.scale, job.tuning) == ("2x8", "nvidia/resnet50/A100x2x8")
    assert sorted(job.changes, key=lambda change: change.key) == [
        changed("eval_batch_size", 32, 64, "experiment a"),
        changed("lr", 0.1, 0.3, "command line"),
        changed("max_steps", None, 9, "experiment a"),
        changed("precision", "fp32", "tf32", "tuning nvidia/resnet50/A100"),
        changed("train_batch_size", 32, 256, "tuning nvidia/resnet50/A100x2x8"),
    ]


SWEPT = """# @package _global_
lr: 0.4
hydra:
  sweeper:
    params: {train_batch_size: "8,16", max_steps: 9, scale: 1x2}
"""


def test_the_sweep_of_an_experiment_is_its_source(tmp_path: Path) -> None:
    """In the changes, and in messages. The command line wins, and is named then."""
    bench = write(tmp_path, {"experiment/a": SWEPT})
    jobs = compose_jobs(["+experiment=a", "max_steps=7"], multirun=True, config_dirs=[bench])
    assert [sorted(job.changes, key=lambda change: change.key) for job in jobs] == [
        [
            changed("lr", 0.01, 0.4, "experiment a"),
            changed("max_steps", None, 7, "command line"),
            changed("train_batch_size", 32, size, "experiment a"),
        ]
        for size in (8, 16)
    ]
    for wrong, key in (
        (SWEPT.replace("scale", "nosuch: 1, scale"), "nosuch"),
        (SWEPT.replace(": 9", ": -9"), "max_steps"),
    ):
        bench = write(tmp_path, {"experiment/a": wrong})
        with pytest.raises(ConfigError) as caught:
            compose_jobs(["+experiment=a"], multirun=True, config_dirs=[bench])
        assert (caught.value.key, caught.value.where) == (key, str(bench / "experiment/a.yaml"))


def test_a_tuning_over_another_one(tmp_path: Path) -> None:
    """Each change names the file that says it: that for the scale, or the one for the hardware below it."""
    files = {
        "vendor/nvidia/resnet50/A100": "# @package _global_\ntrain_batch_size: 64\nlr: 0.2\n",
        "vendor/nvidia/resnet50/A100x2x1": "# @package _global_\ndefaults: [A100, _self_]\nlr: 0.4\n",
    }
    job = compose([*A100, "nnodes=2", "nproc=1"], [write(tmp_path, files)])
    assert (job.tuning, job.changes) == (
        "nvidia/resnet50/A100x2x1",
        (
            changed("train_batch_size", 32, 64, "tuning nvidia/resnet50/A100"),
            changed("lr", 0.1, 0.4, "tuning nvidia/resnet50/A100x2x1"),
        ),
    )


ILUVATAR, OWN = ("vendor=iluvatar", "hardware=BI-V100"), "# @package _global_\ndeterministic: true\n"


@pytest.mark.parametrize(
    ("overrides", "deterministic", "benchmark", "changes"),
    [
        pytest.param(["vendor=nvidia", "hardware=A100"], True, False, [], id="a vendor without: the case's"),
        pytest.param([*ILUVATAR], False, True, [], id="the vendor's, and no change"),
        pytest.param(["vendor=kunlunxin", "hardware=R300", "model=waveglow"], False, False, [], id="both off"),
        pytest.param(
            [*ILUVATAR, "deterministic=true"],
            True,
            True,
            [changed("deterministic", False, True, "command line")],
            id="the command line's",
        ),
        pytest.param(
            [*ILUVATAR, "+experiment=a"],
            True,
            True,
            [changed("deterministic", False, True, "experiment a")],
            id="an experiment's, though it says what the case says",
        ),
        pytest.param(
            [*ILUVATAR, "vendor.algorithms.cudnn_benchmark=false", "division=open"],
            False,
            False,
            [changed("vendor.algorithms.cudnn_benchmark", True, False, "command line")],
            id="open: what the vendor says is changed itself",
        ),
    ],
)
def test_algorithms_of_the_vendor(
    tmp_path: Path, overrides: list[str], deterministic: bool, benchmark: bool, changes: list[Change]
) -> None:
    """case < vendor < tuning < experiment < command line."""
    job = compose([*overrides, "data_dir=/data"], [write(tmp_path, {"experiment/a": OWN})])
    assert (job.config["deterministic"], job.config["cudnn_benchmark"]) == (deterministic, benchmark)
    of_a_tuning = [change for change in job.changes if change.source.startswith("tuning")]
    assert [change for change in job.changes if change not in of_a_tuning] == changes


@pytest.mark.parametrize(
    ("overrides", "revision"),
    [
        pytest.param(["model=resnet50"], 2, id="as the case says"),
        pytest.param(["model=toy"], 1, id="a case of one's own that says none"),
    ],
)
def test_revision(tmp_path: Path, overrides: list[str], revision: int) -> None:
    bench = write(tmp_path, {"model/toy": TOY})
    assert compose([*overrides, "data_dir=/data"], [bench]).config["revision"] == revision


def test_an_experiment_chooses_and_its_tuning_is_found(tmp_path: Path) -> None:
    experiment = (
        "# @package _global_\n"
        "defaults:\n  - override /vendor: nvidia\n  - override /hardware: A100\n  - override /size: full\n"
        "data_dir: /data\n"
    )
    job = compose(["experiment=a", "nproc=8"], [write(tmp_path, {"experiment/a": experiment})])
    assert (job.name, job.tuning, job.config["data_dir"]) == (
        "resnet50-pytorch-A100x1x8",
        "nvidia/resnet50/A100x1x8",
        "/data",
    )


def test_several_experiments_the_last_wins(tmp_path: Path) -> None:
    bench = write(
        tmp_path,
        {"experiment/a": "# @package _global_\nlr: 1.0\nseed: 1\n", "experiment/b": "# @package _global_\nlr: 2.0\n"},
    )
    job = compose(["experiment=[a,b]", "data_dir=/data"], [bench])
    assert {(change.key, change.after, change.source) for change in job.changes} == {
        ("lr", 2.0, "experiment a, b"),
        ("seed", 1, "experiment a, b"),
    }


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param(["nproc=2", "repeat=3", "deadlines.stop=5", "log_level=debug"], (), id="the platform's own keys"),
        pytest.param(["lr=0.1", "train_batch_size=32"], (), id="the case's own value"),
        pytest.param(
            ["+optimizer.fused=true"], (changed("optimizer.fused", None, True, "command line"),), id="a new mutable key"
        ),
        pytest.param(
            ["vendor.environment.OMP_NUM_THREADS='1'"],
            (changed("vendor.environment.OMP_NUM_THREADS", None, "1", "command line"),),
            id="below a mutable key",
        ),
        pytest.param(
            ["runtime.container.memory=64g"],
            (changed("runtime.container.memory", None, "64g", "command line"),),
            id="what the runtime's file leaves out",
        ),
        pytest.param(
            ["division=open", "vendor.device_files=/dev/acme*"],
            (changed("vendor.device_files", None, "/dev/acme*", "command line"),),
            id="open: what the vendor's file leaves out",
        ),
        pytest.param(
            ["division=open", "hardware.peak_flops.bf16=1.0e+12"],
            (changed("hardware.peak_flops.bf16", None, 1e12, "command line"),),
            id="open: a name in a mapping of the product's file",
        ),
        pytest.param(
            ["division=open", "target.value=70", "network._target_=my.Net"],
            (
                changed("target.value", 75.5, 70, "command line"),
                changed("network._target_", "torchvision.models.resnet50", "my.Net", "command line"),
            ),
            id="open: anything, recorded",
        ),
    ],
)
def test_changes_of_the_command_line(overrides: list[str], expected: tuple[Change, ...]) -> None:
    assert compose(["model=resnet50", "size=full", "data_dir=/data", *overrides]).changes == expected


@pytest.mark.parametrize(
    ("overrides", "names", "sweeps"),
    [
        pytest.param(
            ["lr=0.1,0.2", "nproc=1,2"],
            ["cpux1x1,lr=0.1", "cpux1x2,lr=0.1", "cpux1x1,lr=0.2", "cpux1x2,lr=0.2"],
            [{"lr": "0.1"}, {"lr": "0.1"}, {"lr": "0.2"}, {"lr": "0.2"}],
            id="product, the last override fastest",
        ),
        pytest.param(
            ["train_batch_size=choice(8,16)"],
            ["cpux1x1,train_batch_size=8", "cpux1x1,train_batch_size=16"],
            [{"train_batch_size": "8"}, {"train_batch_size": "16"}],
            id="choice",
        ),
        pytest.param(["nproc=range(1,4)"], ["cpux1x1", "cpux1x2", "cpux1x3"], [{}, {}, {}], id="range"),
        pytest.param(["runtime=glob(proc*)"], ["cpux1x1,runtime=process"], [{"runtime": "process"}], id="glob"),
        pytest.param(
            ["init_checkpoint='a/b','c d'", "division=open"],
            ["cpux1x1,init_checkpoint=a%2Fb", "cpux1x1,init_checkpoint=c d"],
            [{"init_checkpoint": "a/b"}, {"init_checkpoint": "c d"}],
            id="a slash does not make a folder",
        ),
        pytest.param(["lr=0.3"], ["cpux1x1"], [{}], id="nothing swept"),
    ],
)
def test_sweeps(overrides: list[str], names: list[str], sweeps: list[dict[str, str]]) -> None:
    runs = compose_jobs(["data_dir=/data", *overrides], multirun=True)
    assert [job.name for job in runs] == [f"resnet50-pytorch-{name}" for name in names]
    assert [job.sweep for job in runs] == sweeps


SWEEP = "# @package _global_\nhydra: {sweeper: {params: {lr: '0.1,0.2', seed: 1}}}\nmax_steps: 3\n"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param(["+experiment=a"], [(0.1, 1), (0.2, 1)], id="as the file says"),
        pytest.param(["+experiment=a", "lr=0.3"], [(0.3, 1)], id="an override replaces it"),
        pytest.param(["+experiment=a", "seed=2,3", "lr=1"], [(1, 2), (1, 3)], id="a sweep replaces it"),
    ],
)
def test_an_experiment_that_holds_a_sweep(
    tmp_path: Path, overrides: list[str], expected: list[tuple[float, int]]
) -> None:
    runs = compose_jobs(
        [*overrides, "data_dir=/data"], config_dirs=[write(tmp_path, {"experiment/a": SWEEP})], multirun=True
    )
    assert [(job.config["lr"], job.config["seed"]) for job in runs] == expected
    assert {job.config["max_steps"] for job in runs} == {3}


@pytest.mark.parametrize(
    ("overrides", "scales", "notes"),
    [
        pytest.param(
            ["+experiment=scales"],
            ["1x1", "1x8"],
            ["scale 2x8 is left out: the cluster has too few hosts for nnodes=2; allowed: 1 to 1"],
            id="of one host",
        ),
        pytest.param(["+experiment=scales", "cluster=example"], ["1x1", "1x8", "2x8"], [], id="of two hosts"),
        pytest.param(
            ["scale=1x8,1x16", "vendor=nvidia", "hardware=A100"],
            ["1x8"],
            ["scale 1x16 is left out: more ranks than devices; allowed: at most 8, the devices of a node with A100"],
            id="more than a host has",
        ),
        pytest.param(["scale=2x8"], ["2x8"], [], id="one scale"),
    ],
)
def test_scales(overrides: list[str], scales: list[str], notes: list[str]) -> None:
    runs = compose_jobs([*overrides, "dry_run=true"], multirun=True)
    assert [(job.scale, dict(job.sweep)) for job in runs] == [(scale, {}) for scale in scales]
    assert list(runs[0].notes[: len(notes)]) == notes
    assert not any("left out" in note for job in runs[1:] for note in job.notes)


SUITE = """\
# @package _global_
suite:
  - {model: resnet50, scale: 1x1, repeat: 3, data_dir: "/data/it's, here"}
  - {model: resnet50, scale: 1x1, lr: 0.2, repeat: 2}
  - {model: paddle/bert, scale: 1x2, data_dir: /data/bert, vendor.environment: {A: "1"}, framework.version: "2.6"}
max_steps: 3
"""
HERE = "resnet50-pytorch-cpux1x1"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param(
            [],
            [
                (f"{HERE},repeat=3,data_dir=%2Fdata%2Fit's, here", 3, "/data/it's, here", 0.1),
                (f"{HERE},lr=0.2,repeat=2", 2, "<data_dir>", 0.2),
                ("bert-paddle-cpux1x2", 1, "/data/bert", 4.0e-5),
            ],
            id="as it is",
        ),
        pytest.param(
            ["repeat=1", "data_dir=/d", "scale=1x1"],
            [(HERE, 1, "/d", 0.1), (f"{HERE},lr=0.2", 1, "/d", 0.2), ("bert-paddle-cpux1x1", 1, "/d", 4.0e-5)],
            id="the command line takes the place of what jobs say",
        ),
    ],
)
def test_a_suite(tmp_path: Path, overrides: list[str], expected: list[tuple[str, int, str, float]]) -> None:
    words = ["+experiment=mine", "size=full", "dry_run=true", *overrides]
    jobs = compose_jobs(words, config_dirs=[write(tmp_path, {"experiment/mine": SUITE})], multirun=True)
    assert [(job.name, job.repeat, job.data_dir, job.config["lr"]) for job in jobs] == expected
    assert {job.limits.max_steps for job in jobs} == {3}
    assert {change.source for job in jobs for change in job.changes} == {"experiment mine"}
    assert (jobs[2].vendor.environment["A"], jobs[2].framework.version) == ("1", "2.6")


def test_a_sweep_over_experiments_and_cases(tmp_path: Path) -> None:
    bench = write(
        tmp_path,
        {
            "model/toy": TOY,
            "experiment/a": "# @package _global_\nlr: 1.0\n",
            "experiment/b": "# @package _global_\nlr: 2.0\n",
        },
    )
    runs = compose_jobs(["+experiment=a,b", "model=toy,resnet50", "data_dir=/data"], config_dirs=[bench], multirun=True)
    assert [(job.name, job.config["lr"]) for job in runs] == [
        ("toy-pytorch-cpux1x1,experiment=a", 1.0),
        ("resnet50-pytorch-cpux1x1,experiment=a", 1.0),
        ("toy-pytorch-cpux1x1,experiment=b", 2.0),
        ("resnet50-pytorch-cpux1x1,experiment=b", 2.0),
    ]


def test_a_batch_size_that_is_to_be_found() -> None:
    """Until it is, the case's own stands for it; then all that follows from it does so."""
    job = compose(["model=swin_transformer", "train_batch_size=auto", "nproc=2"])
    assert job.sized is not None
    note = "train_batch_size=auto: a run first looks for the largest that fits; until then it is 16"
    assert (job.train_batch_size, job.notes[-1]) == (16, note)
    assert job.changes == (Change("train_batch_size", 16, "auto", "command line"),)
    expected = job.sized(24)
    assert (expected.sized, expected.config["lr_scheduler"]["step_samples"]) == (None, [24, 1, 1, 2])
    assert expected.changes == (Change("train_batch_size", 16, 24, "found by train_batch_size=auto"),)
    assert (expected.name, expected.config["lr"]) == (job.name, job.config["lr"])


@pytest.mark.parametrize(
    ("words", "size", "sizes"),
    [
        pytest.param(["nproc=2"], 8, (1, 2, 4, 8), id="the case's own gives whole steps"),
        pytest.param(["nproc=8"], 2, (1, 2), id="a smaller one than the case's"),
        pytest.param(["nproc=4", "parallel.mesh.tp=2"], 8, (1, 2, 4, 8), id="two data ranks of four"),
        pytest.param(["nproc=2", "gradient_accumulation_steps=2"], 4, (4,), id="so many micro steps"),
    ],
)
def test_a_batch_size_that_gives_the_samples_of_a_step(words: list[str], size: int, sizes: tuple[int, ...]) -> None:
    """llama3_8b asks for sixteen samples a step at its tiny size."""
    job = compose(["model=llama3_8b", "train_batch_size=auto", *words])
    assert (job.train_batch_size, job.sizes) == (size, sizes)
    assert job.sized is not None
    for expected in map(job.sized, sizes):
        assert expected.train_batch_size * expected.gradient_accumulation_steps * expected.mesh.data_ranks == 16


def test_no_batch_size_gives_the_samples_of_a_step() -> None:
    with pytest.raises(ConfigError, match="no number of micro steps gives the required samples of a step"):
        compose(["model=llama3_8b", "train_batch_size=auto", "nproc=3"])


def test_one_bad_job_refuses_the_command() -> None:
    with pytest.raises(ConfigError) as caught:
        compose_jobs(["nproc=1,2", "train_batch_size=8,-1", "data_dir=/data"], multirun=True)
    assert str(caught.value) == (
        "job 2 of 4 (nproc=1 train_batch_size=-1): value out of range\n"
        "  where:   command line\n"
        "  key:     train_batch_size\n"
        "  given:   -1\n"
        "  allowed: auto (but not in a case), or a whole number, at least 1"
    )


def test_sample_data_of_a_case(tmp_path: Path) -> None:
    bench = write(tmp_path, {"model/toy": TOY + SAMPLE})
    job = compose(["model=toy", "sample_dir=/samples"], [bench])
    folder = job.config["data_dir"]
    assert folder.startswith("/samples/toy-")
    assert job.notes == (f"sample data: {folder}",)
    other = write(tmp_path / "other", {"model/toy": TOY + SAMPLE.replace("10", "11")})
    assert compose(["model=toy", "sample_dir=/samples"], [other]).config["data_dir"] != folder
    assert compose(["model=toy", "data_dir=data"], [bench]).config["data_dir"] == str(Path("data").absolute())


def test_a_synthetic_training_of_a_full_case_needs_no_data(tmp_path: Path) -> None:
    """Its shapes are those of the sample data that the full size asks for."""
    bench = write(tmp_path, {"model/toy": TOY + SAMPLE})
    overrides = ["model=toy", "size=full", "sample_dir=/samples", "synthetic=true"]
    job = compose([*overrides, "division=open"], [bench])
    assert job.config["data_dir"].startswith("/samples/toy-")
    assert [(change.key, change.after) for change in job.changes] == [("synthetic", True)]
    for refused, problem in (
        (overrides, "a closed run may not change this key"),
        (overrides[:3], "the case needs its data"),
    ):
        with pytest.raises(ConfigError, match=problem):
            compose(refused, [bench])


def test_a_dry_run_needs_no_data(tmp_path: Path) -> None:
    job = compose(["model=toy", "dry_run=true"], [write(tmp_path, {"model/toy": TOY})])
    assert (job.config["data_dir"], job.notes) == ("<data_dir>", ("no data_dir is given: <data_dir> stands for it",))


def test_a_size_reduces_a_case(tmp_path: Path) -> None:
    tiny = "# @package _global_\n# flagperf model=toy size=tiny\ndepth: 1\nnetwork: {width: 3}\n"
    bench = write(tmp_path, {"model/toy": TOY, "size/tiny/toy": tiny})
    small, full = (compose(["model=toy", f"size={size}", "data_dir=/data"], [bench]) for size in ("tiny", "full"))
    assert small.config["network"] == {"_target_": "cases.toy.Network", "depth": 1, "width": 3}
    assert full.config["network"] == {"_target_": "cases.toy.Network", "depth": 2}
    assert (small.changes, full.changes) == ((), ())


@pytest.mark.parametrize("name", ["a b", "it's", "a,b", "12", "实验", "a.b", "$(x)"])
def test_any_file_and_folder_name(tmp_path: Path, name: str) -> None:
    bench = write(tmp_path / f"{name} {{folder}}", {f"experiment/{name}": "# @package _global_\nseed: 7\n"})
    quoted = name.replace("'", "\\'")
    job = compose([f"experiment='{quoted}'", "data_dir=/data"], [bench])
    assert job.changes == (changed("seed", 0, 7, f"experiment {name}"),)


@pytest.mark.parametrize(
    ("override", "folder"),
    [
        pytest.param("data_dir=/数据/图片", "/数据/图片", id="no quotes needed"),
        pytest.param("data_dir='/d/$(ls) \"x\", {y}'", '/d/$(ls) "x", {y}', id="quoted"),
        pytest.param("data_dir=/a/b=c", "/a/b=c", id="equals sign"),
        pytest.param("data_dir=/a b/c\nd", "/a b/c\nd", id="space and line end"),
    ],
)
def test_any_text_as_value(override: str, folder: str) -> None:
    assert compose([override]).config["data_dir"] == folder


def test_composition_leaves_torch_alone() -> None:
    code = (
        "import sys; from flagperf.config.compose import compose; compose(['data_dir=/data']);"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'torch', 'numpy', 'docker', 'asyncssh', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_jobs_in_order() -> None:
    runs = compose_jobs(["data_dir=/data"], multirun=True)
    assert [job.name for job in runs] == ["resnet50-pytorch-cpux1x1"]
