"""What a step holds: each storage from its first tensor to its end, by kind."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Dict, Tuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from flagperf.contract.trace import KINDS

SETUP = "setup"  # the phase before the step

Location = Tuple[str, str]  # phase and module
Bytes = Dict[str, float]  # by kind


@dataclass(eq=False)
class Held:
    """A storage. `kind` may change after its end: a temporary tensor of forward that lives on was an activation."""

    kind: str
    size: int
    alive: bool = True


class Memory:
    """A log of storages that come and go. `peaks` reads the log when all kinds are known.

    Attributes:
        phase, module: where the step is now; the caller sets them.
    """

    def __init__(self) -> None:
        self.phase: Any = SETUP  # or a Phase
        self.module = ""
        self._held: dict[int, Held] = {}  # by the address of the storage
        self._log: list[tuple[int, Held, Location]] = []
        self._late: list[Held] = []  # what see_late got: the log gets them with the next operator

    def see(self, tree: Any) -> None:
        """Take note of the storages of all tensors of a tree that are new."""
        self._log_late()
        for tensor in plain_tensors(tree):
            self.held(tensor)

    def see_late(self, tree: Any) -> None:
        """The same for a result that takes the place of operands: they end before it counts."""
        self._log_late()
        for tensor in plain_tensors(tree):
            self.held(tensor, late=True)

    def held(self, tensor: Tensor, *, late: bool = False) -> Held:
        """The storage of a tensor."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._held:
            held = self._held[key] = Held("temporary", storage.nbytes())
            weakref.finalize(storage, self._end, key)
            if late:
                self._late.append(held)
            else:
                self._add(held.size, held)
        return self._held[key]

    def mark(self, tree: Any, kind: str, *, unless: tuple[str, ...] = ()) -> None:
        """Give the tensors of a tree a kind. A tensor that has a kind of `unless` keeps its kind."""
        for tensor in plain_tensors(tree):
            held = self.held(tensor)
            if held.kind not in unless:
                held.kind = kind

    def mark_living(self, before: str, after: str) -> None:
        """Change the kind of all storages of a kind that live."""
        for held in self._held.values():
            if held.kind == before:
                held.kind = after

    @contextmanager
    def following_resizes(self) -> Iterator[None]:
        """A block in which storages may change their size, as FSDP2 does to give memory back."""
        original = torch.UntypedStorage.resize_

        def resize(storage: torch.UntypedStorage, size: int) -> Any:
            held = self._held.get(storage._cdata)
            if held is not None and held.size != size:
                self._add(size - held.size, held)
                held.size = size
            return original(storage, size)

        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            torch.UntypedStorage.resize_ = original  # type: ignore[method-assign]

    def peaks(self) -> dict[Location, Bytes]:
        """Bytes by kind at the moment when each module holds most in each phase."""
        now: Bytes = dict.fromkeys(KINDS, 0)
        total, largest, peaks = 0, dict[Location, int](), dict[Location, Bytes]()
        for change, held, location in self._log:
            now[held.kind] += change
            total += change
            if location[0] != SETUP and total > largest.get(location, -1):
                largest[location], peaks[location] = total, dict(now)
        return peaks

    def _end(self, key: int) -> None:
        held = self._held.pop(key)
        held.alive = False
        if held in self._late:
            self._log_late()
        self._add(-held.size, held)

    def _log_late(self) -> None:
        for held in self._late:
            self._add(held.size, held)
        self._late = []

    def _add(self, change: int, held: Held) -> None:
        self._log.append((change, held, (self.phase, self.module)))


def plain_tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors of a tree that have storage on this rank."""
    leaves: Iterable[Any] = tree_leaves(tree)
    for leaf in leaves:
        local = getattr(leaf, "_local_tensor", leaf)
        if isinstance(local, Tensor) and local.layout == torch.strided:
            yield local
