"""What one device can do at most: peaks and memory bandwidth, of a data sheet or of a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from flagperf.contract.records import ProbedDevice

FORMATS = {  # number format of an operator, as torch names it → its name in peak_flops
    "float64": "fp32",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}
FASTER = {"fp32": "tf32", "tf32": "bf16", "bf16": "fp16", "fp16": "fp8"}  # no format is slower than the one before it


@dataclass(frozen=True)
class Speeds:
    """The figures of one device."""

    peaks: Mapping[str, float]  # FLOP/s by number format
    memory: float | None  # bytes/s; reading and writing share it
    source: str  # "the data sheet of A100", "the probe of this job"
    tf32: bool = False  # whether float32 is multiplied in TF32

    def peak(self, dtype: str) -> float | None:
        """FLOP/s for operators on this number format; that of the next faster format where there is none of its own.

        The result stays a bound: a device is no slower in a format with fewer bits.
        """
        name: str | None = FORMATS.get(dtype, "fp32")
        if name == "fp32" and self.tf32:
            name = "tf32"
        while name is not None and name not in self.peaks:
            name = FASTER.get(name)
        return None if name is None else self.peaks[name]

    @property
    def missing(self) -> tuple[str, ...]:
        """Figures without which there are no times."""
        known = {"peak_flops": bool(self.peaks), "memory_bandwidth": self.memory is not None}
        return tuple(name for name, is_known in known.items() if not is_known)


def of_data_sheet(hardware: Mapping[str, Any], precision: str) -> Speeds:
    """What the file of a product says, of one device.

    Args:
        hardware: the part of the configuration.
        precision: of the training.
    """
    peaks, memory = hardware.get("peak_flops") or {}, hardware.get("memory_bandwidth")
    return Speeds(peaks, memory, f"the data sheet of {hardware['name']}", precision == "tf32")


def of_probe(devices: Sequence[ProbedDevice], precision: str) -> Speeds | None:
    """What a probe measured, the mean of the devices; None without a probe."""
    names = dict.fromkeys(name for device in devices for name in device.figures)
    mean = {name: fmean(device.figures[name] for device in devices if name in device.figures) for name in names}
    peaks = {name: figure for name, figure in mean.items() if name in FASTER or name == "fp8"}
    if not devices:
        return None
    return Speeds(peaks, mean.get("memory"), "the probe of this job", precision == "tf32")
