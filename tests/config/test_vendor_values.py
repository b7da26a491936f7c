"""What FlagPerf sets on a host for a vendor's case, and flagperf in the environment of its ranks."""

from __future__ import annotations

import pytest

from flagperf.config.compose import compose
from flagperf.plan.plan import make_plan


@pytest.mark.parametrize("case", ["faster_rcnn", "mask_rcnn", "retinanet"])
@pytest.mark.parametrize(("vendor", "hardware"), [("nvidia", "A100"), ("iluvatar", "BI-V100")])
def test_threads_of_detection(vendor: str, hardware: str, case: str) -> None:
    """torchrun would set them for several ranks on a node only."""
    overrides = [f"model={case}", f"vendor={vendor}", f"hardware={hardware}", "runtime=process", "data_dir=/data"]
    run = compose([*overrides, "dry_run=true"])
    assert run.scale == "1x1"
    assert make_plan(run, 1).nodes[0].launch.env["OMP_NUM_THREADS"] == "1"


def test_devices_are_numbered_as_monitors_number_them() -> None:
    run = compose(["vendor=nvidia", "hardware=A100", "data_dir=/data", "dry_run=true"])
    assert make_plan(run, 1).nodes[0].launch.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
