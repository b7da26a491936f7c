"""The device of this process, by mindspore.set_device. No chip is named here."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import mindspore
from mindspore import device_context, runtime
from typing_extensions import override

from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.loop.device import Device, no_such_device
from flagperf.trainer.ranks import Ranks


class MindSporeDevice(Device):
    """A device of MindSpore: a CPU or Ascend."""

    @override
    def open(self, settings: Settings, ranks: Ranks) -> None:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        if settings.deterministic:
            mindspore.set_deterministic(True)
        if self.is_cpu:
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
            return
        try:
            mindspore.set_device(self.kind, ranks.local_rank)
        except (RuntimeError, ValueError) as error:
            message = str(error).strip().splitlines()[0]
            raise no_such_device("MindSpore", f"{self.kind}:{ranks.local_rank}", message=message) from error
        if self.kind == "Ascend":
            # HF32 is Huawei's TF32, and MindSpore's default of convolutions: fp32 means fp32 here.
            precision = device_context.ascend.op_precision
            precision.conv_allow_hf32(settings.precision == "tf32")
            precision.matmul_allow_hf32(settings.precision == "tf32")

    @override
    def accelerator_name(self) -> str:
        return str(mindspore.hal.get_device_name(mindspore.get_current_device().device_id))

    @override
    def peak_reserved(self) -> int | None:
        return int(runtime.max_memory_reserved())

    @override
    def event(self) -> Callable[[], Any] | None:
        return partial(runtime.Event, enable_timing=True)
