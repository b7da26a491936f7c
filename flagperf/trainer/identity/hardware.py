"""The device of a rank: name and memory of a CPU, and peaks of the hardware that the configuration names."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flagperf.contract.hardware import GIB, is_device_of

if TYPE_CHECKING:
    from flagperf.contract.settings import Settings

# Name of a training's precision in the hardware's peak_flops.
PEAK = {"fp32": "fp32", "tf32": "tf32", "amp_fp16": "fp16", "amp_bf16": "bf16"}
FLOAT8 = "fp8"  # … where linear layers multiply in float8, whatever the others do: no share of a lower peak exceeds 1


def peak_name(settings: Settings) -> str:
    """The name in the hardware's peak_flops of the fastest format in which a training multiplies."""
    return PEAK[settings.precision] if settings.float8_modules is None else FLOAT8


def peak_flops(hardware: Mapping[str, Any], device: str, name: str) -> tuple[float | None, str | None]:
    """FLOP/s of one device of the hardware by the name of a peak; or None, and why. `device`: its reported name."""
    if not is_device_of(hardware, device):
        return None, f"the device is {device}, and not hardware {hardware['name']}, whose peaks are known"
    peak = (hardware.get("peak_flops") or {}).get(name)
    if peak is None:
        return None, f"hardware {hardware['name']} gives no peak for {name}"
    return float(peak), None


def cpu_name() -> str:
    """The name of this machine's CPU."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "cpu"


def resident_memory() -> float:
    """GiB of memory that this process held at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
