"""What FlagPerf sets on a host for a vendor's case, and flagperf in the environment of its ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.errors import ConfigError
from flagperf.plan.plan import make_plan


@pytest.mark.parametrize("case", ["faster_rcnn", "mask_rcnn", "retinanet"])
@pytest.mark.parametrize(("vendor", "hardware"), [("nvidia", "A100"), ("iluvatar", "BI-V100")])
def test_threads_of_detection(vendor: str, hardware: str, case: str) -> None:
    """torchrun would set them for several ranks on a node only."""
    overrides = [f"model={case}", f"vendor={vendor}", f"hardware={hardware}", "runtime=process", "data_dir=/data"]
    job = compose([*overrides, "dry_run=true"])
    assert job.scale == "1x1"
    assert make_plan(job, 1).nodes[0].launch.env["OMP_NUM_THREADS"] == "1"


def test_devices_are_numbered_as_monitors_number_them() -> None:
    job = compose(["vendor=nvidia", "hardware=A100", "data_dir=/data", "dry_run=true"])
    assert make_plan(job, 1).nodes[0].launch.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        pytest.param("Max1550", ("xpu", "xccl", None, None, ("/dev/dri",)), id="the vendor's own keys"),
        pytest.param("Gaudi3", ("hpu", "hccl", "habana_frameworks.torch", "habana", ()), id="those of its stack"),
    ],
)
def test_a_product_of_another_stack(hardware: str, expected: tuple[object, ...]) -> None:
    job = compose(["vendor=intel", f"hardware={hardware}", "data_dir=/data", "dry_run=true"])
    vendor = job.vendor
    options = vendor.container
    assert (vendor.device, vendor.backend, vendor.plugin, options.runtime, options.devices) == expected
    assert ("stacks" in job.config["vendor"], vendor.stacks, job.changes) == (False, {}, ())


def test_a_stack_that_the_vendor_lacks_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hardware/Gaudi4.yaml"
    file.parent.mkdir()
    file.write_text((CONF / "hardware/Gaudi3.yaml").read_text().replace("stack: gaudi", "stack: gaudy"))
    with pytest.raises(ConfigError) as caught:
        compose(["vendor=intel", "hardware=Gaudi4", "data_dir=/data", "dry_run=true"], [tmp_path])
    assert str(caught.value) == (
        f"the vendor has no such stack\n  where:   {file}\n  key:     hardware.stack\n  given:   gaudy\n"
        "  allowed: did you mean 'gaudi'?"
    )
