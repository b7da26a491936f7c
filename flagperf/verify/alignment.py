"""Recomputes the record of an alignment that a job names, from the curves and the logs beside the record."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.verify.logs import Rank, read_json, read_log, read_yaml
from flagperf.verify.values import Row, UnknownError, compare

FOLDER = "alignment"  # of a job
PLATFORM = ("framework", "vendor", "hardware")  # parts of a configuration that have a name
SETTINGS = ("case", "revision", "precision")
STEPS = ("loss", "grad_norm")  # numbers of each step
OF_ALL = 3.0  # the root mean square of the shares of all steps counts so many times


def alignment_rows(job: Path, config: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of a job; none where it names no alignment."""
    record = config.get("alignment_record")
    if record is None:
        return
    folder = job / FOLDER
    yield compare(job.name, "alignment_record", record, dict(read_json(folder / "align.json")), "align.json")
    curves = (folder / "golden.yaml").read_bytes()
    yield compare(job.name, "alignment golden", record["golden"], hashlib.sha256(curves).hexdigest(), "golden.yaml")
    golden = read_yaml(folder / "golden.yaml")["curves"]
    sides = {}
    for name, curve in golden.items():
        log = read_log(folder / f"{name}.log")
        sides[name] = side(curve, curve["bands"][record["precision"]], log)
        stated = str(record["curves"].get(name)).partition(" ")[0]
        yield compare(job.name, f"alignment {name}", stated, sides[name], f"{name}.log")
        made_on = {key: record[key] for key in (*SETTINGS, *PLATFORM, "device", "software")}
        yield compare(job.name, f"alignment {name}: device", made_on, platform(log), f"{name}.log")
    yield compare(job.name, "alignment curves", sorted(record["curves"]), sorted(golden), "golden.yaml")
    inside = set(sides.values()) == {"inside"}
    yield compare(job.name, "alignment inside", record["inside"], inside, "the logs of the curves")


def side(curve: Mapping[str, Any], band: Mapping[str, Any], log: Rank) -> str:
    """ "inside", where each number of a training, and all steps together, lie inside the band, else "outside"."""
    steps = [event.value for event in log.all("STEP_END")]
    evaluations = log.all("EVALUATE")
    metrics = evaluations[-1].value if evaluations else {}
    measured = {name: [step.get(name) for step in steps] for name in STEPS}
    ratios = [share(expected, band["metrics"][name], metrics.get(name)) for name, expected in curve["metrics"].items()]
    for name, values in measured.items():
        if name == "loss" or any(value is not None for value in values):  # some frameworks log no norms
            every = (values + [None] * len(curve[name]))[: len(curve[name])]
            of_steps = [share(*numbers) for numbers in zip(curve[name], band[name], every, strict=True)]
            ratios += [*of_steps, OF_ALL * math.sqrt(statistics.fmean(ratio**2 for ratio in of_steps))]
    return "inside" if all(ratio <= 1 for ratio in ratios) else "outside"


def share(expected: float, width: float, value: Any) -> float:
    """How far a number lies from the curve, as a share of the band; no number lies infinitely far."""
    if not isinstance(value, (int, float)) or math.isnan(value):
        return math.inf
    deviation = abs(value - expected)
    return deviation / width if width else (math.inf if deviation else 0.0)


def platform(log: Rank) -> dict[str, Any]:
    """What a training ran on, by its log."""
    config, built = log.last("SUBMIT_INFO").value["config"], log.last("BUILT").value
    if not isinstance(config, dict):
        raise UnknownError("SUBMIT_INFO has no configuration")
    versions = {name: version for name, version in built["software"]["versions"].items() if version is not None}
    return {
        **{name: config[name] for name in SETTINGS},
        **{name: config[name]["name"] for name in PLATFORM},
        "device": built["device_name"],
        "software": versions,
    }
