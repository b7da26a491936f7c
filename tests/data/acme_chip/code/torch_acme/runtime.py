"""torch.acme: what torch.cuda offers, by the same names. All work is done when a call returns.

Before torch.accelerator, this was all that a trainer had to reach a device; and a trainer for both asks for it still.
"""

from __future__ import annotations

import resource
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import torch

_refuses_waits = False

amp = SimpleNamespace()  # a vendor's own gradient scaler, before that of torch 2.3 was for all devices
if hasattr(torch.amp, "GradScaler"):
    amp.GradScaler = partial(torch.amp.GradScaler, "acme")


class Event:
    """A point in time on the one stream of the chip, reached as soon as it is recorded."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._reached: float | None = None
        self._timed = enable_timing

    def record(self, _stream: Any = None) -> None:
        """The stream is here now."""
        self._reached = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until the stream got here; an event that is not recorded has nothing to wait for."""

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        if not (self._timed and end._timed) or self._reached is None or end._reached is None:
            raise RuntimeError("both events must be recorded, and made with enable_timing=True")
        return (end._reached - self._reached) * 1000


class Stream:
    """The one stream of the chip."""

    def __init__(self, device: Any = None) -> None:
        self.device = device

    def wait_stream(self, other: Stream) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for."""

    def record_event(self) -> Event:
        """An event that the stream has reached."""
        event = Event()
        event.record()
        return event

    def synchronize(self) -> None:
        """Wait for all work of the stream."""
        host_waits("synchronize")


def current_stream(device: Any = None) -> Stream:
    """The one that is used."""
    return Stream(device)


def stream(_stream: Stream) -> AbstractContextManager[None]:
    """A block whose work goes to a stream."""
    return nullcontext()


def set_device(_device: Any) -> None:
    """Nothing to choose."""


def device_count() -> int:
    """One chip a process."""
    return 1


def is_available() -> bool:
    """The chip is always there."""
    return True


def current_device() -> int:
    """Number of the chip."""
    return 0


def get_device_name(_device: Any = None) -> str:
    """What the chip calls itself."""
    return "Acme A1"


memory = {"kept": 2**40, "peak": 2**40}  # bytes, beside the process: as if what was there before had filled the chip


def max_memory_reserved(_device: Any = None) -> int:
    """Bytes at the peak, of the process: the chip's memory is the host's."""
    return memory["peak"] + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def max_memory_allocated(_device: Any = None) -> int:
    """Bytes of tensors at the peak: half of what is reserved."""
    return max_memory_reserved() // 2


def empty_cache() -> None:
    """Give back what nobody uses."""
    memory["kept"] = 0


def reset_peak_memory_stats(_device: Any = None) -> None:
    """The peak counts from now on, with what is kept."""
    memory["peak"] = memory["kept"]


def synchronize(_device: Any = None) -> None:
    """Wait for all work of the chip."""
    host_waits("synchronize")


def manual_seed_all(seed: int) -> None:
    """Nothing to do: the chip draws from the host's generator, which torch seeds itself."""


def get_rng_state(_device: Any = None) -> torch.Tensor:
    """State of the generator."""
    return torch.default_generator.get_state()


def set_rng_state(state: torch.Tensor, _device: Any = None) -> None:
    """Go on from a state."""
    torch.default_generator.set_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast may compute in."""
    return [torch.bfloat16, torch.float16]


def set_sync_debug_mode(mode: Literal["default", "error"]) -> None:
    """As torch.cuda's: "error" refuses operators for which the host would wait for the chip."""
    global _refuses_waits
    _refuses_waits = mode == "error"


def host_waits(operator: str) -> None:
    """Called for each operator whose caller must wait for the chip."""
    if _refuses_waits:
        raise RuntimeError(f"called a synchronizing operation: {operator}")


def _is_in_bad_fork() -> bool:
    return False
