"""Every shipped configuration file, found by itself: its form, and that it composes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from flagperf.config.changes import leaves
from flagperf.config.compose import compose, compose_jobs
from flagperf.config.keys import is_under
from flagperf.config.search_path import CONF
from flagperf.config.values import RunConfig

FILES = sorted(path.relative_to(CONF).with_suffix("").as_posix() for path in CONF.rglob("*.yaml"))
CASES = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
TUNINGS = [name for name in FILES if re.fullmatch(r"vendor/[^/]+/[^/]+/[^/]+", name)]
ROOTED = [name for name in FILES if re.match(r"(model|size|experiment|vendor)/", name)]

# What no closed run may change, whatever a list says.
NEVER = ("network", "optimizer._target_", "train_data", "eval_data", "data", "target", "init_checkpoint", "case")


def of(group: str) -> list[str]:
    """The options of a group, its sub-folders left out."""
    return [name.split("/")[1] for name in FILES if re.fullmatch(f"{group}/[^/]+", name)]


def text(name: str) -> str:
    return (CONF / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_begins_with_its_command(name: str) -> None:
    """Hydra wants its package line first; the command comes next."""
    lines = text(name).removeprefix("# @package _global_\n").splitlines()
    assert lines[0].startswith("# flagperf")
    group, _, option = name.partition("/")
    if group in ("model", "hardware", "vendor") and option in of(group):
        assert f"{group}={option}" in lines[0]


@pytest.mark.parametrize("name", ROOTED)
def test_package_line(name: str) -> None:
    assert text(name).startswith("# @package _global_\n")


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith(("model/", "mutable/"))])
def test_is_yaml_without_tabs_or_long_lines(name: str) -> None:
    assert "\t" not in text(name)
    assert max(map(len, text(name).splitlines())) <= 120
    yaml.safe_load(text(name))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", of("size"))
def test_case(case: str, size: str) -> None:
    run = compose([f"model={case}", f"size={size}", "dry_run=true"])
    assert (run.changes, run.config["title"] != "", run.config["unit"] != "") == ((), True, True)
    assert [key for key in run.config["mutable"] if any(is_under(key, [never]) for never in NEVER)] == []
    assert f"override /mutable: {case}" in text(f"model/{case}")


@pytest.mark.parametrize("case", CASES)
def test_every_mutable_key_is_there(case: str) -> None:
    config = compose([f"model={case}", "size=full", "dry_run=true"]).config
    known = leaves(config)
    added = ("optimizer.fused", "optimizer.foreach")
    parts = {key for key in config["mutable"] if "." not in key and key in config} | {
        key for key in config["mutable"] if key.split(".")[0] == "vendor" and key.split(".")[1] in config["vendor"]
    }
    assert [key for key in config["mutable"] if key not in {*known, *added, *parts}] == []


@pytest.mark.parametrize("vendor", of("vendor"))
def test_vendor(vendor: str) -> None:
    run = compose([f"vendor={vendor}", f"hardware={any_hardware(vendor)}", "model=resnet50", "dry_run=true"])
    assert (run.vendor.name, run.vendor.title != "") == (vendor, True)


@pytest.mark.parametrize("hardware", of("hardware"))
def test_hardware(hardware: str) -> None:
    vendor = yaml.safe_load(text(f"hardware/{hardware}"))["vendor"]
    run = compose([f"vendor={vendor}", f"hardware={hardware}", "model=resnet50", "dry_run=true"])
    assert set(run.hardware.peak_flops) <= {"fp32", "tf32", "fp16", "bf16"}


@pytest.mark.parametrize("group", ["cluster", "runtime", "framework"])
def test_other_groups(group: str) -> None:
    for option in of(group):
        words = [f"{group}={option}"] if group != "framework" else []
        assert compose(["model=resnet50", "dry_run=true", *words]).config[group]["title"]


@pytest.mark.parametrize("experiment", of("experiment"))
def test_experiment(experiment: str) -> None:
    """Composed as a sweep where it is one: every file says so in its command."""
    multirun = f"flagperf -m +experiment={experiment}" in text(f"experiment/{experiment}")
    compose_jobs([f"+experiment={experiment}", "dry_run=true"], multirun=multirun)


@pytest.mark.parametrize("experiment", ["all_cases", "tiny_targets"])
def test_a_suite_has_every_case(experiment: str) -> None:
    jobs = compose_jobs([f"+experiment={experiment}", "dry_run=true"], multirun=True)
    assert [job.case for job in jobs] == CASES


@pytest.mark.parametrize("name", TUNINGS)
def test_tuning(name: str) -> None:
    """Composed for the scale in its name, and for some other scale where it has none."""
    _, vendor, case, tuning = name.split("/")
    match = re.fullmatch(r"(.+)x(\d+)x(\d+)", tuning)
    hardware, nnodes, nproc = match.groups() if match else (tuning, "1", "3")
    run = _tuned(vendor, case, hardware, nnodes, nproc)
    assert run.tuning == f"{vendor}/{case}/{tuning}"
    assert {change.source for change in run.changes} <= {f"tuning {run.tuning}"}


def _tuned(vendor: str, case: str, hardware: str, nnodes: str, nproc: str) -> RunConfig:
    words = [f"vendor={vendor}", f"model={case}", f"hardware={hardware}", f"nnodes={nnodes}", f"nproc={nproc}"]
    return compose([*words, "size=full", "dry_run=true"])


def any_hardware(vendor: str) -> str:
    """A product of the vendor."""
    return next(name for name in of("hardware") if f"\nvendor: {vendor}\n" in text(f"hardware/{name}"))


def test_there_are_files() -> None:
    assert {"config", "training", "model/resnet50", "vendor/nvidia", "hardware/H200"} <= set(FILES)
    assert Path(CONF, "size/tiny").is_dir()
