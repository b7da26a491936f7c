"""A node of this machine, monitored by a vendor described in the test."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from example import HERE, example_job

from flagperf.config.schema.limits import MonitorIntervals
from flagperf.config.schema.platform import Hardware, MonitorTool, RuntimeSettings, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.plan.values import NodePlan

FAKE_NVML = Path(__file__).with_name("fake_nvml.c")


@pytest.fixture
def make_job() -> Callable[..., JobConfig]:
    def make(
        tool: MonitorTool | None = None, interval: float = 0.1, runtime: Literal["docker", "process"] = "process"
    ) -> JobConfig:
        return example_job(
            vendor=Vendor("acme", "Acme chips", "cpu", "gloo", None, None, monitor=tool),
            hardware=Hardware("A1", "Acme A1", None, None, {}),
            runtime=RuntimeSettings(runtime, runtime),
            nproc=1,
            monitor=MonitorIntervals(interval, interval),
        )

    return make


@pytest.fixture
def node(tmp_path: Path) -> NodePlan:
    log_dir = tmp_path / "log dir with $(spaces) and 'quotes'"
    log_dir.mkdir()
    launch = Command((sys.executable, "-m", "torch.distributed.run"))
    return NodePlan(
        rank=0,
        node=HERE,
        launch=launch,
        ranks=(0,),
        case_dir=str(tmp_path),
        log_dir=str(log_dir),
        monitors=("cpu", "mem", "pwr", "acme"),
    )


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a libnvidia-ml.so.1 whose devices the variable FAKE_NVML says."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc (Debian: gcc libc6-dev)")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, FAKE_NVML], check=True)
    return folder
