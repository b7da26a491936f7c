"""Jobs for the tests of comparisons, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from example_results import CHANGES, CONFIG, a_result

from flagperf.compare.jobs import NamedJob
from flagperf.results.summary import summary_of

JOB = "resnet50-pytorch-A100x2x8"


def job(
    run: str,
    speeds: Sequence[float] = (100.0,),
    *,
    name: str = JOB,
    config: dict[str, Any] | None = None,
    **changed: Any,
) -> NamedJob:
    """A job with a round for each speed, in images/s; keywords change its rounds."""
    built = {"software": {"versions": {"torch": "2.14"}, "code": {"flagperf": "aa"}}}
    results = [
        a_result(round=number, **{"values": {"p_train": speed, "final_acc1": 76.0}, "built": built, **changed})
        for number, speed in enumerate(speeds, start=1)
    ]
    settings = {**CONFIG, "mutable": ["lr", "train_batch_size"], "lr": 0.1, "train_batch_size": 32, **(config or {})}
    return NamedJob(run, summary_of(name, results, settings, CHANGES))
