"""The device of this process, by paddle.device. No chip is named here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import paddle

from flagperf.contract.hardware import GIB
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.identity.hardware import cpu_name, resident_memory
from flagperf.trainer.loop.clock import Clock, DeviceClock
from flagperf.trainer.ranks import Ranks
from flagperf.trainer.start.imports import import_plugin


def open_device(vendor: Mapping[str, Any], settings: Settings, ranks: Ranks) -> str:
    """Make the device of this local rank the current one. Returns its type, as Paddle calls it: cpu, gpu, xpu, npu …

    Raises:
        ConfigError: the plug-in is missing, there is no such device, or it cannot do what the settings ask for.
    """
    if vendor["plugin"]:
        import_plugin(vendor["plugin"])
    kind: str = vendor["device"]
    if kind == "cpu":
        if settings.precision != "fp32":
            raise ConfigError(
                "PaddlePaddle has mixed precision on accelerators only",
                where="config.yaml",
                key="precision",
                given=settings.precision,
                allowed="fp32 on a CPU",
            )
        paddle.set_device("cpu")
        return kind
    found = {name.partition(":")[0] for name in paddle.device.get_available_device()} - {"cpu"}
    if kind not in found:
        raise ConfigError(
            "PaddlePaddle finds no such device",
            where="config.yaml",
            key="vendor.device",
            given=kind,
            allowed=", ".join(sorted(found)) or "cpu, as PaddlePaddle finds no accelerator at all",
            advice="check the driver, the PaddlePaddle build, and that the container is given the devices",
        )
    os.environ[f"FLAGS_selected_{kind}s"] = str(ranks.local_rank)  # paddle.distributed asks for it
    if kind == "gpu":
        # Matrices are multiplied in TF32 unless NVIDIA's libraries are told: fp32 means fp32 here.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0" if settings.precision == "fp32" else "1"
        paddle.set_flags(
            {
                "FLAGS_cudnn_deterministic": settings.deterministic,
                "FLAGS_embedding_deterministic": int(settings.deterministic),
                "FLAGS_cudnn_exhaustive_search": settings.cudnn_benchmark,
            }
        )
    paddle.set_device(f"{kind}:{ranks.local_rank}")
    return kind


def device_name(kind: str) -> str:
    """What the device calls itself; its type where it has no name."""
    if kind == "cpu":
        return cpu_name()
    return str(paddle.device.cuda.get_device_name()) if kind == "gpu" else kind


def peak_memory(kind: str) -> tuple[float, str]:
    """GiB held at the peak, and who held them: the device's allocator, or this process."""
    if kind == "gpu":
        return paddle.device.cuda.max_memory_reserved() / GIB, "device"
    return resident_memory(), "host rss"


def clock_for(kind: str) -> Clock:
    """The finest clock this device has."""
    return DeviceClock(partial(paddle.device.Event, enable_timing=True)) if kind == "gpu" else Clock()
