"""The device of this process, by tf.config. No chip is named here."""

from __future__ import annotations

import tensorflow as tf
from typing_extensions import override

from flagperf.contract.settings import Settings
from flagperf.trainer.loop.device import Device, no_such_device
from flagperf.trainer.ranks import Ranks


class TensorFlowDevice(Device):
    """A device of TensorFlow: CPU, GPU … This process sees no other device than this one and the CPU."""

    @override
    def open(self, settings: Settings, ranks: Ranks) -> None:
        self.kind = self.kind.upper()
        present = tf.config.list_physical_devices()
        devices = [device for device in present if device.device_type == self.kind]
        if not self.is_cpu and len(devices) <= ranks.local_rank:
            allowed = ", ".join(device.name.replace("/physical_device:", "") for device in present)
            raise no_such_device("TensorFlow", f"{self.kind}:{ranks.local_rank}", allowed)
        for other in {device.device_type for device in present} - {"CPU", self.kind}:
            tf.config.set_visible_devices([], other)
        if not self.is_cpu:
            device = devices[ranks.local_rank]
            tf.config.set_visible_devices(device, self.kind)
            tf.config.experimental.set_memory_growth(device, True)
        tf.config.experimental.enable_tensor_float_32_execution(settings.precision != "fp32")
        if settings.deterministic:
            tf.config.experimental.enable_op_determinism()

    @override
    def accelerator_name(self) -> str:
        details = tf.config.experimental.get_device_details(tf.config.get_visible_devices(self.kind)[0])
        return str(details.get("device_name", self.kind))

    @override
    def peak_reserved(self) -> int | None:
        return int(tf.config.experimental.get_memory_info(f"{self.kind}:0")["peak"])
