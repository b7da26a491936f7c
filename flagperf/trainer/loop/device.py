"""The device of a rank, for the standard engine: its type, name, memory and clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flagperf.contract.hardware import GIB
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.identity.hardware import cpu_name, resident_memory
from flagperf.trainer.loop.clock import Clock, DeviceClock
from flagperf.trainer.ranks import Ranks
from flagperf.trainer.start.imports import import_plugin


class Device:
    """The device of this local rank. A framework implements the methods that raise NotImplementedError.

    Attributes:
        kind: type of the device, by the framework's name.
        is_cpu: whether the device is a CPU.
    """

    def __init__(self, vendor: Mapping[str, Any], settings: Settings, ranks: Ranks) -> None:
        """Import the vendor's plug-in, and make the device of this local rank the current one.

        Raises:
            ConfigError: the plug-in or the device is missing, or the device lacks a feature that the settings need.
        """
        if vendor["plugin"]:
            import_plugin(vendor["plugin"])
        self.kind: str = vendor["device"]
        self.is_cpu = self.kind == "cpu"
        self.open(settings, ranks)

    def open(self, settings: Settings, ranks: Ranks) -> None:
        """Make the device the current one. Raises ConfigError where that is impossible."""
        raise NotImplementedError

    def name(self) -> str:
        """The name that the device reports; its type where it has no name."""
        return cpu_name() if self.is_cpu else self.accelerator_name()

    def accelerator_name(self) -> str:
        """The name of an accelerator; its type where it has no name."""
        return self.kind

    def peak_memory(self) -> tuple[float, str]:
        """GiB held at the peak, and their holder: "device" (its allocator) or "host rss" (this process)."""
        reserved = None if self.is_cpu else self.peak_reserved()
        return (resident_memory(), "host rss") if reserved is None else (reserved / GIB, "device")

    def peak_reserved(self) -> int | None:
        """Bytes that the allocator of an accelerator held at the peak; None where it does not count them."""
        raise NotImplementedError

    def clock(self) -> Clock:
        """The finest clock of the device."""
        event = None if self.is_cpu else self.event()
        return Clock() if event is None else DeviceClock(event)

    def event(self) -> Callable[[], Any] | None:
        """A function that makes a timing event on an accelerator; None where the framework has no such events."""
        return None


def no_such_device(title: str, given: str, allowed: str | None = None, message: str = "") -> ConfigError:
    """The error for a device that a framework does not find. `title`, `message`: of the framework."""
    return ConfigError(
        f"{title} finds no such device",
        where="config.yaml",
        key="vendor.device",
        given=given,
        allowed=allowed,
        advice=f"check the driver, the {title} build, and that the container is given the devices"
        + (message and f": {message}"),
    )
