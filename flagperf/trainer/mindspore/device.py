"""The device of this process, by mindspore.set_device. No chip is named here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import mindspore
from mindspore import device_context, runtime

from flagperf.contract.hardware import GIB
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.identity.hardware import cpu_name, resident_memory
from flagperf.trainer.loop.clock import Clock, DeviceClock
from flagperf.trainer.ranks import Ranks
from flagperf.trainer.start.imports import import_plugin


def open_device(vendor: Mapping[str, Any], settings: Settings, ranks: Ranks) -> str:
    """Make the device of this local rank the current one. Returns its type, as MindSpore calls it: CPU or Ascend.

    Raises:
        ConfigError: the plug-in is missing, there is no such device, or it cannot do what the settings ask for.
    """
    if vendor["plugin"]:
        import_plugin(vendor["plugin"])
    kind: str = "CPU" if vendor["device"] == "cpu" else vendor["device"]
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    if settings.deterministic:
        mindspore.set_deterministic(True)
    if kind == "CPU":
        if settings.precision in ("amp_bf16", "tf32"):
            raise ConfigError(
                "MindSpore's convolutions on a CPU have no such precision",
                where="config.yaml",
                key="precision",
                given=settings.precision,
                allowed="fp32, amp_fp16",
            )
        mindspore.set_device("CPU")
        runtime.dispatch_threads_num(int(os.environ.get("OMP_NUM_THREADS", "1")))
        return kind
    try:
        mindspore.set_device(kind, ranks.local_rank)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            "MindSpore finds no such device",
            where="config.yaml",
            key="vendor.device",
            given=f"{kind}:{ranks.local_rank}",
            advice="check the driver, the MindSpore build, and that the container is given the devices: "
            + str(error).strip().splitlines()[0],
        ) from error
    if kind == "Ascend":  # HF32 is Huawei's TF32, and MindSpore's default of convolutions: fp32 means fp32 here
        precision = device_context.ascend.op_precision
        precision.conv_allow_hf32(settings.precision == "tf32")
        precision.matmul_allow_hf32(settings.precision == "tf32")
    return kind


def device_name(kind: str) -> str:
    """What the device calls itself."""
    if kind == "CPU":
        return cpu_name()
    return str(mindspore.hal.get_device_name(mindspore.get_current_device().device_id))


def peak_memory(kind: str) -> tuple[float, str]:
    """GiB held at the peak, and who held them: the device's allocator, or this process."""
    if kind == "CPU":
        return resident_memory(), "host rss"
    return runtime.max_memory_reserved() / GIB, "device"


def clock_for(kind: str) -> Clock:
    """The finest clock this device has."""
    return Clock() if kind == "CPU" else DeviceClock(partial(runtime.Event, enable_timing=True))
