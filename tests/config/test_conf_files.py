"""Every shipped configuration file, found by itself: its form, and that it composes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from shipped import CASES

from flagperf.config.compose import compose, compose_each, compose_jobs
from flagperf.config.files.search_path import CONF, chain
from flagperf.config.schema.keys import is_under
from flagperf.config.schema.values import JobConfig
from flagperf.contract.leaves import leaves
from flagperf.contract.sample_data import is_sample_folder

FILES = sorted(path.relative_to(CONF).with_suffix("").as_posix() for path in CONF.rglob("*.yaml"))
ON_FRAMEWORKS = sorted(path.relative_to(CONF / "model").with_suffix("") for path in (CONF / "model").glob("*/*.yaml"))

PAGE = Path(__file__).parents[2] / "docs/configuration.md"

SCALES = ("1x1", "1x8", "2x8")  # at which FlagPerf asks for every case

# What no closed run may change, whatever a list says.
NEVER = ("network", "optimizer._target_", "train_data", "eval_data", "data", "target", "init_checkpoint", "case")


def of(group: str) -> list[str]:
    """The options of a group, its sub-folders left out."""
    return [name.split("/")[1] for name in FILES if re.fullmatch(f"{group}/[^/]+", name)]


def text(name: str) -> str:
    return (CONF / f"{name}.yaml").read_text(encoding="utf-8")


def begins_with_its_command(name: str) -> bool:
    """Hydra wants its package line first; the command comes next."""
    lines = text(name).removeprefix("# @package _global_\n").splitlines()
    group, _, option = name.partition("/")
    framework, _, _ = option.rpartition("/")
    python = f".venv-{framework}/bin/python" if framework else "python"
    writers = {group: f"# {python} -m cases.{group} {option}" for group in ("fingerprint", "golden", "convergence")}
    named = f"{group}={option}" if group in ("model", "hardware", "vendor") and option in of(group) else ""
    return lines[0].startswith(writers.get(group, "# flagperf")) and named in lines[0]


def has_its_package_line(name: str) -> bool:
    rooted = re.match(r"(model|size|experiment|vendor)/", name)
    return not rooted or text(name).startswith("# @package _global_\n")


def is_yaml_without_tabs_or_long_lines(name: str) -> bool:
    """A command is one line, however long. The files of cases are composed by `test_case`; their tables are wider."""
    if name.startswith(("model/", "mutable/")):
        return True
    try:
        yaml.safe_load(text(name))
    except yaml.YAMLError:
        return False
    return "\t" not in text(name) and all(
        len(line) <= 120 or line.startswith("# flagperf ") for line in text(name).splitlines()
    )


RULES = [begins_with_its_command, has_its_package_line, is_yaml_without_tabs_or_long_lines]


def test_who_uses_the_settings_that_no_shipped_case_sets() -> None:
    """The page names a user for each of them, and for no other setting."""
    declared = leaves(yaml.safe_load(text("training")))
    of_cases = [name for name in FILES if name.startswith(("dataset/", "model/", "size/", "vendor/"))]
    values = [item for name in of_cases for item in leaves(yaml.safe_load(text(name)) or {}).items()]
    changed = {
        key for key in declared if any(is_under(name, (key,)) and value != declared[key] for name, value in values)
    }
    section = PAGE.read_text(encoding="utf-8").partition("### Settings that no shipped case sets")[2].partition("##")[0]
    first_cells = "".join(re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE))
    named = re.findall(r"`(.*?)`", first_cells)
    assert [key for key in declared if key not in changed and not is_under(key, named)] == []
    assert [key for key in changed if is_under(key, named)] == []


@pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_each_file(rule: Callable[[str], bool]) -> None:
    assert [name for name in FILES if not rule(name)] == []


@pytest.mark.parametrize("path", [*map(Path, CASES), *ON_FRAMEWORKS], ids=str)
def test_case(path: Path) -> None:
    """In every size it composes, and its list lets nothing change that makes results comparable."""
    case, framework = path.as_posix(), path.parent.name or "pytorch"
    common = (f"model={path.name}", f"framework={framework}", "dry_run=true")
    runs = compose_each([*common, f"size={size}"] for size in of("size"))
    for job in runs:
        assert isinstance(job, JobConfig), job
        assert (job.changes, job.config["title"] != "", job.config["unit"] != "") == ((), True, True)
        assert [key for key in job.config["mutable"] if any(is_under(key, [never]) for never in NEVER)] == []
        assert is_sample_folder(job.config) == (job.size != "full")
        assert (job.extent is not None) == (job.size == "full")
        if job.size == "full":
            assert [key for key in job.config["mutable"] if not _is_there(key, job.config)] == []
    assert any("override /mutable: " in text(name) for name in chain(f"model/{case}", (CONF,)))
    assert re.search(r"^revision: \d+ ", text(f"model/{case}"), re.MULTILINE)


def _is_there(key: str, config: Mapping[str, Any]) -> bool:
    """Whether a mutable key can be set: it has a value, is a part of the configuration, or may be added."""
    group, _, rest = key.partition(".")
    added = ("optimizer.fused", "optimizer.foreach", "vendor.extension")
    return (
        key in (*leaves(config), *added) or key in config or (group == "vendor" and rest.split(".")[0] in config[group])
    )


@pytest.mark.parametrize("hardware", of("hardware"))
def test_hardware(hardware: str) -> None:
    """`flagperf check` composes all hardware of a shipped vendor (tests/cli/test_check_vendor.py)."""
    assert yaml.safe_load(text(f"hardware/{hardware}"))["vendor"] in of("vendor")
    figures = re.findall(r"^ *(?:memory_bandwidth|bandwidth|latency|fp8):.*", text(f"hardware/{hardware}"), re.M)
    assert [line for line in figures if not re.search(r": +\S+ +# \S", line)] == []  # each with its source
    assert len(figures) >= 5


@pytest.mark.parametrize("group", ["cluster", "runtime", "framework"])
def test_other_groups(group: str) -> None:
    for option in of(group):
        overrides = [f"{group}={option}"] if group != "framework" else []
        overrides += ["cluster=slurm"] if option == "pyxis" else []
        assert compose(["model=resnet50", "dry_run=true", *overrides]).config[group]["title"]


@pytest.mark.long
@pytest.mark.parametrize("experiment", of("experiment"))
def test_experiment(experiment: str) -> None:
    """Composed as a sweep where its command says -m, over the cases that it names. Each job has the file's values."""
    multirun = f"flagperf -m +experiment={experiment}\n" in text(f"experiment/{experiment}")
    jobs = compose_jobs([f"+experiment={experiment}", "dry_run=true"], multirun=multirun)
    file = yaml.safe_load(text(f"experiment/{experiment}"))
    values = leaves({key: value for key, value in file.items() if key not in ("defaults", "hydra", "suite")})
    choices = {
        key.removeprefix("override /"): option for entry in file.get("defaults", []) for key, option in entry.items()
    }
    if "suite" in file:
        assert [job.case for job in jobs] == [row["model"] for row in file["suite"]]
    swept = file["hydra"]["sweeper"]["params"] if "hydra" in file else {}
    named = [model.rpartition("/")[2] for model in swept.get("model", "resnet50").split(",")]
    cases = CASES if named == ["glob(*)"] else named if "model" in swept else named * len(jobs)
    assert "suite" in file or [job.case for job in jobs] == cases
    for job in jobs:
        assert {key: leaves(job.config).get(key) for key in values} == values
        assert {group: job.config[group] for group in choices} == choices
        assert {change.source for change in job.changes} <= {f"experiment {experiment}"}


def test_what_the_scales_of_a_product_share_stands_in_its_file() -> None:
    """All of FlagPerf's scales; where one has no file, the product's file is the one that is used there."""
    tunings = {name: leaves(yaml.safe_load(text(name)) or {}) for name in FILES if re.match("vendor/.+/", name)}
    shared = {}
    for product in tunings:
        scales = [tunings[f"{product}x{scale}"].items() for scale in SCALES if f"{product}x{scale}" in tunings]
        if len(scales) == len(SCALES):
            shared[product] = [key for key, value in scales[0] if all((key, value) in scale for scale in scales)]
    assert len(shared) > 5
    assert {product: keys for product, keys in shared.items() if [key for key in keys if key != "defaults"]} == {}


def test_there_are_files() -> None:
    assert {"config", "training", "model/resnet50", "vendor/nvidia", "hardware/H200"} <= set(FILES)
    assert Path(CONF, "size/tiny").is_dir()
