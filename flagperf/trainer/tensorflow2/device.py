"""The device of this process, by tf.config. No chip is named here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from flagperf.contract.hardware import GIB
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.identity.hardware import cpu_name, resident_memory
from flagperf.trainer.ranks import Ranks
from flagperf.trainer.start.imports import import_plugin


def open_device(vendor: Mapping[str, Any], settings: Settings, ranks: Ranks) -> str:
    """Let this process see the device of its local rank only. Returns its type, as TensorFlow calls it.

    Raises:
        ConfigError: the plug-in is missing, or there is no such device.
    """
    if vendor["plugin"]:
        import_plugin(vendor["plugin"])
    kind: str = vendor["device"].upper()
    found = tf.config.list_physical_devices()
    devices = [device for device in found if device.device_type == kind]
    if kind != "CPU" and len(devices) <= ranks.local_rank:
        raise ConfigError(
            "TensorFlow finds no such device",
            where="config.yaml",
            key="vendor.device",
            given=f"{kind}:{ranks.local_rank}",
            allowed=", ".join(device.name.replace("/physical_device:", "") for device in found),
            advice="check the driver, the TensorFlow build, and that the container is given the devices",
        )
    for other in {device.device_type for device in found} - {"CPU", kind}:
        tf.config.set_visible_devices([], other)
    if kind != "CPU":
        device = devices[ranks.local_rank]
        tf.config.set_visible_devices(device, kind)
        tf.config.experimental.set_memory_growth(device, True)
    tf.config.experimental.enable_tensor_float_32_execution(settings.precision != "fp32")
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    return kind


def device_name(kind: str) -> str:
    """What the device calls itself; its type where it has no name."""
    if kind == "CPU":
        return cpu_name()
    details = tf.config.experimental.get_device_details(tf.config.get_visible_devices(kind)[0])
    return str(details.get("device_name", kind))


def peak_memory(kind: str) -> tuple[float, str]:
    """GiB held at the peak, and who held them: the device's allocator, or this process."""
    if kind == "CPU":
        return resident_memory(), "host rss"
    return tf.config.experimental.get_memory_info(f"{kind}:0")["peak"] / GIB, "device"
