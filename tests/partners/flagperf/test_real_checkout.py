"""The import, held against a real checkout of FlagPerf, which is no part of this tree: FLAGPERF_CHECKOUT names it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flagperf.cli.main import run_command
from flagperf.config.about_case import frameworks
from flagperf.config.compose import compose_each
from flagperf.config.files.search_path import CONF, options
from flagperf.config.schema.values import JobConfig
from flagperf.partners.flagperf.importing.python_file import read_python
from flagperf.partners.flagperf.importing.words import case_of, hardware_of, words

CHECKOUT = os.environ["FLAGPERF_CHECKOUT"]
FORM = re.compile(r"config_(.+)x(\d+)x(\d+)\.py")


def test_every_vendor_folder_of_the_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file of each vendor's folder becomes a tuning that composes, or is told; each of its names stands there."""
    assert run_command(["import", CHECKOUT, f"into={tmp_path}"]) == 0
    told = capsys.readouterr().out
    ours = {(case, name) for case in options("model", (CONF,)) for name in frameworks(case, (CONF,))}
    folders = [path for path in Path(CHECKOUT).rglob("*-*/config") if path.parents[2].name != "benchmarks"]
    commands, lost = {}, []
    for folder in folders:
        model, _, framework = folder.parent.name.rpartition("-")
        case, vendor = case_of(model), folder.parents[1].name
        if (case, framework) not in ours:
            assert f"{folder.parent}: " in told or f"{folder}: no config_" in told
            continue
        for path in sorted(folder.glob("config_*")):
            found = FORM.fullmatch(path.name)
            if found is None:
                continue
            scale, product = f"{found[2]}x{found[3]}", hardware_of(found[1])
            option = f"{framework}/{case}" if (CONF / f"model/{framework}/{case}.yaml").exists() else case
            text = (tmp_path / f"vendor/{vendor}/{option}/{product}x{scale}.yaml").read_text()
            lost += [f"{path}: {name}" for name in _names(path) if name not in text]
            commands[path] = [f"model={option}", f"vendor={vendor}", f"hardware={product}", f"nnodes={found[2]}"]
            commands[path] += [f"nproc={found[3]}", "size=full", "dry_run=true", "data_dir=/data"]
    assert lost == []
    composed = dict(zip(commands, compose_each(commands.values(), [tmp_path]), strict=True))
    assert {path: str(job) for path, job in composed.items() if isinstance(job, Exception)} == {}
    runs = {path: job for path, job in composed.items() if not isinstance(job, Exception)}
    assert {job.tuning for job in runs.values()} >= {"nvidia/bert/A100x1x8"}
    assert "\n".join(line for path, job in runs.items() for line in _other_values(path, job)) == ""
    print(f"{len(composed)} config files")


def _other_values(path: Path, job: JobConfig) -> Iterator[str]:
    """Values in effect in FlagPerf that are others here, of the names that mean the same in each case."""
    model, _, framework = path.parents[1].name.rpartition("-")
    start = path.parents[3] / "benchmarks" / model / framework / "config/__init__.py"
    said = [read_python(one).values for one in (start, path) if one.is_file()]
    effective = {name: value.value for values in said for name, value in values.items() if value.value is not None}
    of_case = words()["case"].get(str(job.config["case"]), {})
    by_driver = ("deterministic", "cudnn_benchmark")  # which sets them for some vendors alone: vendor.algorithms
    keys = {name: key for name, key in words()["every_case"].items() if isinstance(key, str) and key not in by_driver}
    others = {one["key"] if isinstance(one, dict) else one for one in of_case.values() if not isinstance(one, list)}
    for name in keys.keys() & effective.keys() - of_case.keys():
        key, twice = keys[name], {"learning_rate", "lr"} <= effective.keys() and keys[name] == "lr"
        is_same = key not in job.config or job.config[key] == effective[name]
        if not (is_same or twice or key in others):
            yield f"{path}: {name} = {effective[name]}, here {key}: {job.config[key]}"


def _names(path: Path) -> set[str]:
    """The names that a file sets, and those beside it that it takes in."""
    tree = ast.parse(path.read_bytes())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    beside = [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    return names.union(*(_names(path.with_name(f"{name}.py")) for name in beside))
