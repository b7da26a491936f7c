"""probe.json, which `flagperf predict probe=FILE` reads: it may be of anyone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flagperf.contract.fabric import Curve
from flagperf.contract.records import ProbedDevice
from flagperf.errors import ConfigError
from flagperf.results.fabric import read_probe

DEVICE = {"rank": 0, "host": "a", "device": "X", "figures": {"bf16": 1e12, "memory": 1e11}}
CURVE = {"kind": "all_reduce", "group": "node", "ranks": 2, "per_node": 2, "sizes": [8, 32], "seconds": [1.0, 2.0]}
BUSY = {**CURVE, "reason": "", "line": None, "bus_bandwidths": [8.0, 16.0]}  # as the probe writes a curve
TYPE, FIGURES = "wrong type of value", "not the file of a probe"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "the file has no figures of a probe"),
    "devices are a number": ({"devices": 3}, TYPE),
    "a device is text": ({"devices": ["x"]}, TYPE),
    "a device without figures": ({"devices": [{"rank": 0, "host": "a", "device": "X"}]}, "a required key is missing"),
    "a figure is text": ({"devices": [{**DEVICE, "figures": {"bf16": "x"}}]}, TYPE),
    "a figure is infinite": ({"devices": [{**DEVICE, "figures": {"bf16": "inf"}}]}, TYPE),
    "a figure is 0": ({"devices": [{**DEVICE, "figures": {"bf16": 0}}]}, FIGURES),
    "curves are a number": ({"curves": 3}, TYPE),
    "a curve is a list": ({"curves": [[]]}, TYPE),
    "a curve is empty": ({"curves": [{}]}, FIGURES),
    "a size is text": ({"curves": [{**BUSY, "sizes": ["x"]}]}, FIGURES),
    "a time is 0": ({"curves": [{**BUSY, "seconds": [0, 1]}]}, FIGURES),
    "the kind is a list": ({"curves": [{**BUSY, "kind": []}]}, FIGURES),
}


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "probe.json"
    path.write_text(json.dumps({"schema": 3, **content}))
    return path


def test_read(tmp_path: Path) -> None:
    devices, curves = read_probe(write(tmp_path, {"devices": [DEVICE], "curves": [BUSY], "job": "x"}))
    assert devices == (ProbedDevice(**DEVICE),)  # type: ignore[arg-type]
    assert curves == (Curve("all_reduce", "node", 2, 2, (8, 32), (1.0, 2.0)),)


@pytest.mark.parametrize(("content", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(content: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        read_probe(path)
    assert (caught.value.problem, caught.value.where) == (problem, str(path))
