"""Prints samples of all NVIDIA GPUs of this machine, read through NVML.

    python -m flagperf.hosts.monitors.nvml SOURCE INTERVAL

The samples are marked for flagperf.hosts.monitors.loop, with one `Device.line` for each GPU. One process for the whole
round costs much less than nvidia-smi, and NVML has the energy counter. Without NVML the program prints one line and
ends with status 1. It ends without a message when nobody reads its output.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import pynvml  # type: ignore[import-untyped]

from flagperf.contract.monitor_log import Device

MIB = 2**20
REASONS = {0x04 | 0x80: 1, 0x20 | 0x40: 2, 0x08: 4}  # bits of NVML: limits of power; of temperature; of the hardware


def sample() -> list[Device]:
    """All GPUs, in NVML's order. A GPU that does not answer is a Device without figures."""
    return [_device(index) for index in range(pynvml.nvmlDeviceGetCount())]


def throttle(reasons: int) -> int:
    """NVML's reasons for a lower clock → flags of THROTTLE. A clock that is low because the GPU is idle has none."""
    return sum(flag for bits, flag in REASONS.items() if reasons & bits)


def _device(index: int) -> Device:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError:  # the GPU is lost
        return Device()

    def read(ask: Callable[[], float]) -> float | None:
        try:
            return float(ask())
        except pynvml.NVMLError:  # this GPU or this driver lacks the figure
            return None

    def memory(name: str) -> float | None:
        return read(lambda: getattr(pynvml.nvmlDeviceGetMemoryInfo(handle), name) / MIB)

    return Device(
        temperature=read(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        power=read(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        memory_used=memory("used"),
        memory_total=memory("total"),
        utilisation=read(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        energy=read(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000),
        clock=read(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        throttle=read(lambda: throttle(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
    )


def main(source: str, interval: float) -> None:
    """Print samples until the process is stopped, the second sample soon after the first."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        sys.exit(f"NVML: {error}")
    pause = min(1.0, interval)
    while True:
        began = int(time.time())
        try:
            lines = [device.line() for device in sample()]
        except pynvml.NVMLError as error:
            sys.exit(f"NVML: {error}")
        text = "\n".join([f"@begin {source} {began}", *lines, "@end 0\n"])
        os.write(1, text.encode())
        time.sleep(pause)
        pause = interval


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1], float(sys.argv[2]))
