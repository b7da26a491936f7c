"""Times calls on all ranks of a job together, on the work of the device and not only of the host."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Callable, TypeVar

import torch

from flagperf.trainer.pytorch.by_version import module_of
from flagperf.trainer.pytorch.ranks import World

log = logging.getLogger(__name__)

T = TypeVar("T")


class Timing:
    """Calls of one rank, at the same time as those of the other ranks."""

    def __init__(self, device: torch.device, world: World) -> None:
        self.device, self.world = device, world
        self.reason = ""  # why the last action failed on this rank

    def together(self, action: Callable[[], T]) -> T | None:
        """The result of an action; None on every rank where it fails on one."""
        try:
            result = action()
            self.reason = ""
        except (RuntimeError, ValueError) as error:  # out of memory, or device or backend lack the operation
            log.warning("not measured: %s", error)
            result, self.reason = None, (str(error).splitlines() or [type(error).__name__])[0]
        return None if self.world.largest(float(bool(self.reason))) else result

    def seconds(self, call: Callable[[], object], calls: int) -> float:
        """Seconds of some calls on this rank, until the device has done all its work."""
        began = perf_counter()
        for _ in range(calls):
            call()
        self.wait()
        return perf_counter() - began

    def wait(self) -> None:
        """Wait until the device has done all its work."""
        if self.device.type != "cpu":
            module_of(self.device).synchronize(self.device)  # every plug-in has it
