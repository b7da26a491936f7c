"""The device of this process, by paddle.device. No chip is named here."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import paddle
from typing_extensions import override

from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.loop.device import Device, no_such_device
from flagperf.trainer.ranks import Ranks


class PaddleDevice(Device):
    """A device of Paddle: cpu, gpu, xpu, npu …"""

    @override
    def open(self, settings: Settings, ranks: Ranks) -> None:
        if self.is_cpu:
            if settings.precision != "fp32":
                raise ConfigError(
                    "PaddlePaddle has mixed precision on accelerators only",
                    where="config.yaml",
                    key="precision",
                    given=settings.precision,
                    allowed="fp32 on a CPU",
                )
            paddle.set_device("cpu")
            return
        available = {name.partition(":")[0] for name in paddle.device.get_available_device()} - {"cpu"}
        if self.kind not in available:
            allowed = ", ".join(sorted(available)) or "cpu, as PaddlePaddle finds no accelerator at all"
            raise no_such_device("PaddlePaddle", self.kind, allowed)
        os.environ[f"FLAGS_selected_{self.kind}s"] = str(ranks.local_rank)  # paddle.distributed reads it
        if self.kind == "gpu":
            # NVIDIA's libraries multiply matrices in TF32 by default: fp32 means fp32 here.
            os.environ["NVIDIA_TF32_OVERRIDE"] = "0" if settings.precision == "fp32" else "1"
            paddle.set_flags(
                {
                    "FLAGS_cudnn_deterministic": settings.deterministic,
                    "FLAGS_embedding_deterministic": int(settings.deterministic),
                    "FLAGS_cudnn_exhaustive_search": settings.cudnn_benchmark,
                }
            )
        paddle.set_device(f"{self.kind}:{ranks.local_rank}")

    @override
    def accelerator_name(self) -> str:
        return str(paddle.device.cuda.get_device_name()) if self.kind == "gpu" else self.kind

    @override
    def peak_reserved(self) -> int | None:
        return int(paddle.device.cuda.max_memory_reserved()) if self.kind == "gpu" else None

    @override
    def event(self) -> Callable[[], Any] | None:
        return partial(paddle.device.Event, enable_timing=True) if self.kind == "gpu" else None
