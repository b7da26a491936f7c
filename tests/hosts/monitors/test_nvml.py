"""The NVML program against a library that stands in for the driver's, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

from flagperf.hosts.monitors.loop import Samples


def start(library: Path, devices: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "flagperf.hosts.monitors.nvml", "3", "0.1"]
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": devices}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)


def test_devices_with_all_with_some_and_without_figures(fake_nvml: Path) -> None:
    with start(fake_nvml, "ggpl") as process:
        assert process.stdout is not None
        output = b"".join(process.stdout.readline() for _ in range(3 * 6))
        assert process.poll() is None
        process.terminate()
    samples = list(Samples().feed(output))
    assert len(samples) == 3
    assert {(sample.source, sample.status, sample.text) for sample in samples} == {
        (
            3,
            0,
            "31C 57.2W 15MiB 40536MiB 0% 3600J 1410MHz\n"
            "32C 58.2W 15MiB 40536MiB 10% 3600J 1410MHz\n"
            "33C N/A 15MiB 40536MiB 20%\n"
            "N/A N/A N/A N/A N/A",
        )
    }


@pytest.mark.parametrize(
    ("library", "message"),
    [
        pytest.param(
            "none",
            b"NVML: NVML Shared Library Not Found\n",
            id="no library",
            marks=pytest.mark.skipif(bool(find_library("nvidia-ml")), reason="this machine has NVML"),
        ),
        pytest.param("fake", b"NVML: Driver Not Loaded\n", id="no driver"),
    ],
)
def test_without_nvml_one_line_says_so(fake_nvml: Path, tmp_path: Path, library: str, message: bytes) -> None:
    process = start(fake_nvml if library == "fake" else tmp_path, "")
    assert (*process.communicate(timeout=30), process.returncode) == (b"", message, 1)
