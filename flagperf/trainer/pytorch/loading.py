"""Loading: batches from the data set to the device, in processes of their own."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import islice
from typing import Any, Iterable

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from flagperf.errors import FlagperfError
from flagperf.trainer.data.batches import Numbered
from flagperf.trainer.data.samples import unreadable
from flagperf.trainer.pytorch.by_version import streams
from flagperf.trainer.pytorch.randomness import seed_host

PR_SET_PDEATHSIG = 1  # of linux/prctl.h


class Seeded(Dataset[Any]):
    """A data set for the loader: it gives whole batches, each with random numbers of its own.

    A FlagperfError replaces the batch, because the loader would hide its message in a traceback. Any other error of the
    data set becomes one that names the sample.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._reading: list[int] = []  # the numbers of the samples that an error is about
        self._collate = getattr(dataset, "collate_fn", None) or default_collate

    def __getitems__(self, batch: Numbered) -> Any:
        seed, indices = batch
        if get_worker_info() is not None:
            seed_host(seed)
        return self._or_error(self._read, indices)

    def _read(self, indices: list[int]) -> Any:
        self._reading = indices
        read_batch = getattr(self.dataset, "__getitems__", None)
        if read_batch is not None:
            return read_batch(indices)
        samples = []
        for index in indices:
            self._reading = [index]
            samples.append(self.dataset[index])
        self._reading = indices
        return samples

    def collate(self, items: Any) -> Any:
        """The batch of some samples; a FlagperfError passes through."""
        return items if isinstance(items, FlagperfError) else self._or_error(self._collate, items)

    def _or_error(self, function: Callable[[Any], Any], given: Any) -> Any:
        try:
            return function(given)
        except FlagperfError as error:
            return error
        except MemoryError:
            raise  # no fault of the sample
        except Exception as error:
            return unreadable(self.dataset, self._reading, error)


class _Gate(Iterable[Numbered]):
    """Gives no batches until it is open, then all or the first `limit` batches."""

    def __init__(self, batches: Iterable[Numbered], limit: int | None) -> None:
        self.batches, self.limit = batches, limit
        self.open = False

    def __iter__(self) -> Iterator[Numbered]:
        return islice(self.batches, self.limit) if self.open else iter(())


class Loader:
    """Loads batches, or the first `limit` of them, into pinned memory where there is a device to copy them to.

    Its processes start here, work while the loader is iterated over, and stay for the next iteration. They are forks of
    this process. With CPython 3.11 a process may hang that is forked while gloo's threads end a collective, so make
    every loader before the process group.
    """

    def __init__(
        self, dataset: Any, batches: Iterable[Numbered], workers: int, device: torch.device, limit: int | None = None
    ) -> None:
        seeded, gate = Seeded(dataset), _Gate(batches, limit)
        self._loader: DataLoader[Any] | None = DataLoader(
            seeded,
            batch_sampler=gate,  # type: ignore[arg-type]
            num_workers=workers,
            collate_fn=seeded.collate,
            pin_memory=device.type != "cpu",
            persistent_workers=workers > 0,
            worker_init_fn=partial(_end_with, os.getpid()),
            generator=torch.Generator(),  # the loader draws a number, which must not come from the rank's generator
        )
        next(iter(self._loader), None)  # starts the processes
        gate.open = True

    def __iter__(self) -> Iterator[Any]:
        assert self._loader is not None, "the loader is closed"
        return iter(self._loader)

    def close(self) -> None:
        """End the processes. No iterator over the loader may be in use any more."""
        self._loader = None


def _end_with(rank: int, _: int) -> None:
    """In a process of the loader: end when the rank dies, for any reason."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != rank:  # the rank died before
        os._exit(1)


def on_device(batches: Iterable[Any], move: Callable[[Any], Any], device: torch.device) -> Generator[Any]:
    """Move batches to the device, each while the device still computes on the one before.

    The copy runs on a stream of its own. It may reuse memory of older batches, so it waits until the computation
    before the current one is done; `moved` keeps the current batch alive that long.
    """
    if device.type == "cpu":
        for batch in batches:
            yield move(_checked(batch))
        return
    main, copies, copying = streams(device)
    begun = main.record_event()
    for batch in batches:
        copies.wait_event(begun)
        with copying():
            moved = move(_checked(batch))
        main.wait_stream(copies)
        begun = main.record_event()
        yield moved


def _checked(batch: Any) -> Any:
    if isinstance(batch, FlagperfError):
        raise batch
    return batch
