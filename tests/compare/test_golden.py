"""Golden curves: the verdict on a training, and that each shipped curve is of the case as it is now."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from shipped import FAMILIES

from cases.golden_bands import OTHER_SPLIT
from flagperf.compare.golden import golden_file, identity_of
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF, VENDORS, options
from flagperf.contract.golden import Check, Curve, Golden, read
from flagperf.errors import ConfigError

METRICS = {"accuracy": 0.5, "loss": 7.0}
CURVE = Curve([2.0, 1.5, 1.0], [3.0, 2.0, 1.0], METRICS)
BAND = Curve([0.1, 0.1, 0.2], [0.3, 0.3, 0.3], {"accuracy": 0.01, "loss": 0.05})
GOLDEN = Golden("toy", 1, "plain", (), "0" * 16, CURVE, {"fp32": BAND})
VERDICTS = {
    "the same": (CURVE, "inside the band of fp32: 3 steps, at most 0 times the band (loss, step 1)"),
    "a little apart": (
        Curve([2.05, 1.5, 1.0], [3.0, 2.0, 1.0], METRICS),
        "inside the band of fp32: 3 steps, at most 0.866 times the band (loss of all steps, step 3)",
    ),
    "outside from a step on": (
        Curve([2.0, 1.7, 2.0], [3.0, 2.0, 1.0], METRICS),
        "outside the band of fp32 from step 2 on: loss is the first outside, by 2 times the band; "
        "at most 9.33 times the band (loss of all steps, step 3)",
    ),
    "a small error of each step": (
        Curve([2.0, 1.5, 1.0], [2.88, 1.88, 0.88], METRICS),
        "outside the band of fp32 from step 3 on: grad_norm of all steps is the first outside, by 1.2 times the band; "
        "at most 1.2 times the band (grad_norm of all steps, step 3)",
    ),
    "another metric, and no norms": (
        Curve([2.0, 1.5, 1.0], [], {**METRICS, "accuracy": 0.48}),
        "outside the band of fp32 from step 3 on: accuracy is the first outside, by 2 times the band; "
        "at most 2 times the band (accuracy, step 3)",
    ),
    "a metric with the name of the loss": (
        Curve([2.0, 1.5, 1.0], [3.0, 2.0, 1.0], {"accuracy": 0.5, "loss": 7.1}),
        "outside the band of fp32 from step 3 on: loss of the evaluation is the first outside, by 2 times the band; "
        "at most 2 times the band (loss of the evaluation, step 3)",
    ),
    "no number": (
        Curve([2.0, math.nan], [3.0, 2.0], {}),
        "outside the band of fp32 from step 2 on: loss is the first outside, by inf times the band; "
        "at most inf times the band (loss, step 2)",
    ),
}


@pytest.mark.parametrize(("measured", "verdict"), [pytest.param(*row, id=name) for name, row in VERDICTS.items()])
def test_a_training_is_checked_against_a_curve(measured: Curve, verdict: str) -> None:
    check = Check(GOLDEN, "fp32", measured)
    assert (check.verdict, check.inside) == (verdict, verdict.startswith("inside"))


@pytest.mark.long
def test_each_curve_is_of_the_case_as_it_is_now() -> None:
    """Of each family of cases of PyTorch. Where this fails, `python -m cases.golden CASE` writes the curves again."""
    curves = [golden for case in FAMILIES for golden in read(golden_file(case, [CONF]))]
    configs = [compose([f"model={golden.case}", *golden.overrides]).config for golden in curves]
    stated = [(golden.case, golden.name, golden.revision, golden.identity) for golden in curves]
    assert stated == [
        (golden.case, golden.name, config["revision"], identity_of(config))
        for golden, config in zip(curves, configs, strict=True)
    ]
    lengths = [{len(curve.loss) for curve in (golden.curve, *golden.bands.values())} for golden in curves]
    assert lengths == [{config["max_steps"]} for config in configs]


def test_each_training_of_a_curve_ended() -> None:
    """An error in place of a deviation makes a band too narrow. `python -m cases.golden CASE` writes it again."""
    runs = {
        f"{path.stem}, {name}: {way}": run
        for path in sorted((CONF / "golden").glob("*.yaml"))
        for name, curve in yaml.safe_load(path.read_text(encoding="utf-8"))["curves"].items()
        for way, run in curve["runs"].items()
    }
    failed = {way: run for way, run in runs.items() if run != OTHER_SPLIT and not isinstance(run, dict)}
    assert failed == {}


@pytest.mark.parametrize("content", ["", "case: toy\n", "curves: [1]\n", ": :\n"])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "curves.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="this is no file of golden curves"):
        read(path)


def a_file(**other: Any) -> dict[str, Any]:
    """A file of one curve, with other values of the curve."""
    numbers = {"loss": [2.0, 1.0], "grad_norm": [3.0, 2.0], "metrics": {"accuracy": 0.5}}
    curve = {"overrides": ["lr=1"], "identity": "x", **numbers, "bands": {"fp32": numbers}, **other}
    return {"case": "toy", "revision": 1, "curves": {"plain": curve}}


TYPE, NO_CURVES = "wrong type of value", "this is no file of golden curves: ValueError: "
OTHER_NUMBERS = f"{NO_CURVES}the curve plain has no loss, or a band of other numbers"
VALUES = {
    "the case is no text": ({**a_file(), "case": 3}, TYPE),
    "the revision is text": ({**a_file(), "revision": "x"}, TYPE),
    "no curves": ({**a_file(), "curves": {}}, f"{NO_CURVES}no curve"),
    "overrides are text": (a_file(overrides="lr=1"), TYPE),
    "the identity is a list": (a_file(identity=[]), TYPE),
    "the loss is a number": (a_file(loss=3), TYPE),
    "a loss is text": (a_file(loss=["x", 1.0]), TYPE),
    "metrics are a list": (a_file(metrics=[]), TYPE),
    "no loss": (a_file(loss=[]), OTHER_NUMBERS),
    "a step more than the band": (a_file(loss=[3.0, 2.0, 1.0]), OTHER_NUMBERS),
    "another metric than the band": (a_file(metrics={"loss": 1.0}), OTHER_NUMBERS),
    "a band is text": (a_file(bands={"fp32": {**a_file()["curves"]["plain"], "loss": ["x"]}}), TYPE),
}


@pytest.mark.parametrize(("content", "problem"), VALUES.values(), ids=VALUES.keys())
def test_other_values_are_refused_before_a_training(tmp_path: Path, content: dict[str, Any], problem: str) -> None:
    """A file may come from anyone: `align golden=FILE`."""
    path = tmp_path / "curves.yaml"
    path.write_text(json.dumps(a_file()), encoding="utf-8")
    assert [golden.name for golden in read(path)] == ["plain"]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert (caught.value.problem, caught.value.where) == (problem, str(path))


def test_each_vendor_has_a_page_with_the_command_that_checks_a_chip() -> None:
    pages = {vendor: VENDORS / vendor / "README.md" for vendor in options("vendor", (CONF,))}
    missing = [vendor for vendor, page in pages.items() if not page.is_file()]
    assert missing == []
    texts = {vendor: page.read_text(encoding="utf-8") for vendor, page in pages.items()}
    commands = {vendor: re.findall(r"^flagperf align (.+)$", text, re.MULTILINE) for vendor, text in texts.items()}
    assert {vendor: len(listed) for vendor, listed in commands.items()} == dict.fromkeys(commands, 1)
    for vendor, (words,) in commands.items():
        assert compose([*words.split(), "dry_run=true"]).vendor.name == vendor
