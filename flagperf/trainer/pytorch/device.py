"""The accelerator of this process, by torch and the vendor's plug-in module. No chip is named here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from flagperf.contract.hardware import GIB
from flagperf.errors import ConfigError
from flagperf.trainer.identity.hardware import cpu_name, resident_memory
from flagperf.trainer.loop.clock import Clock, DeviceClock
from flagperf.trainer.loop.device import no_such_device
from flagperf.trainer.pytorch.by_version import accelerators, choose_device, module_of
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.start.imports import import_plugin


def open_device(vendor: Mapping[str, Any], world: World) -> torch.device:
    """Make the device of this local rank the current one.

    Raises:
        ConfigError: the plug-in module is missing, there is no such device, or there are too few of them.
    """
    if vendor["plugin"]:
        import_plugin(vendor["plugin"])
    if vendor["device"] == "cpu":
        if world.local_size > 1:  # torchrun leaves one thread to each rank
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // world.local_size))
        return torch.device("cpu")
    kind, count = accelerators(vendor["device"])
    if kind != vendor["device"]:
        raise no_such_device("torch", vendor["device"], kind or "cpu, as torch finds no accelerator at all")
    if world.local_size > count:
        raise ConfigError(
            "more ranks than devices on this node",
            where="config.yaml",
            key="nproc",
            given=world.local_size,
            allowed=f"at most {count}",
        )
    device = torch.device(vendor["device"], world.local_rank)
    choose_device(device)
    return device


def device_name(device: torch.device) -> str:
    """The name that the device reports."""
    return cpu_name() if device.type == "cpu" else str(module_of(device).get_device_name(device))


def peak_memory(device: torch.device) -> tuple[float, str]:
    """GiB held at the peak, and their holder: "device" (its allocator) or "host rss" (this process, on a CPU)."""
    if device.type == "cpu":
        return resident_memory(), "host rss"
    return module_of(device).max_memory_reserved(device) / GIB, "device"


def peak_allocated(device: torch.device) -> float | None:
    """GiB of tensors at the peak, without the allocator's reserve; None: the device cannot tell."""
    module = None if device.type == "cpu" else module_of(device)
    if module is None or not hasattr(module, "max_memory_allocated"):
        return None
    return float(module.max_memory_allocated(device)) / GIB


def forget_peak(device: torch.device) -> None:
    """Restart the peak of the memory from the memory in use now, where the plug-in can do so."""
    if device.type == "cpu":
        return  # the kernel keeps the peak of a process
    module = module_of(device)
    if hasattr(module, "reset_peak_memory_stats") and hasattr(module, "empty_cache"):
        module.empty_cache()
        module.reset_peak_memory_stats(device)


def clock_for(device: torch.device) -> Clock:
    """The finest clock this device has."""
    if device.type == "cpu":
        return Clock()
    return DeviceClock(partial(module_of(device).Event, enable_timing=True))
