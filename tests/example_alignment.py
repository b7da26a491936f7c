"""The run folder of `flagperf align model=glm` on a CPU, made by hand: its logs have the numbers of the curves."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

from flagperf.config.files.search_path import CONF
from flagperf.contract.alignment import CURVES, RECORD, log_of, recomputed
from flagperf.contract.golden import Golden, read
from flagperf.contract.perflog import Event

CURVES_OF_GLM = CONF / "golden/glm.yaml"
ON_A_CPU: dict[str, Any] = {
    "case": "glm",
    "revision": 1,
    "framework": {"name": "pytorch"},
    "vendor": {"name": "cpu"},
    "hardware": {"name": "cpu"},
    "size": "tiny",
    "nnodes": 1,
    "nproc": 1,
    "division": "open",
    "precision": "fp32",
    "throughput_unit": "samples/s",
}


def write_alignment(folder: Path, factor: float = 1.0, **other: Any) -> dict[str, Any]:
    """Write the folder, and return its record.

    Args:
        factor: of the loss of step 7 in the logs, whose curve has a factor of 1.
        other: keys of the configuration that the logs have.
    """
    folder.mkdir(exist_ok=True)
    shutil.copyfile(CURVES_OF_GLM, folder / CURVES)
    for golden in read(CURVES_OF_GLM):
        events = [Event("SUBMIT_INFO", {"config": {**ON_A_CPU, **other}}), *_events(golden, factor)]
        log_of(folder, golden.name).write_text("".join(f"{event.line()}\n" for event in events), encoding="utf-8")
    record = dataclasses.asdict(recomputed(folder))
    (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")
    return record


def _events(golden: Golden, factor: float) -> list[Event]:
    built = {"device_name": "a CPU", "software": {"versions": {"torch": "2.4.0", "apex": None}}}
    numbers = enumerate(zip(golden.curve.loss, golden.curve.grad_norm, strict=True), 1)
    steps = [{"step": n, "loss": loss * (factor if n == 7 else 1), "grad_norm": norm} for n, (loss, norm) in numbers]
    evaluated = {"step": len(steps), "samples": 640, "time": 0.1, **golden.curve.metrics}
    return [Event("BUILT", built), *(Event("STEP_END", step) for step in steps), Event("EVALUATE", evaluated)]
