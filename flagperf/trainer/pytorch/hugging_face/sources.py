"""Tensors that are read when they are needed, as a whole or in parts: of files, or made of other such tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Tuple

import torch
from torch import Tensor

Places = Tuple[slice, ...]


class Source:
    """A tensor with a shape and a type, whose parts are read by slices with a begin and an end."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __getitem__(self, places: Places) -> Tensor:
        raise NotImplementedError

    def complete(self) -> Tensor:
        """All its numbers."""
        return self[tuple(slice(0, size) for size in self.shape)]

    @property
    def nbytes(self) -> int:
        """The bytes of all its numbers."""
        return int(torch.Size(self.shape).numel() * torch.empty((), dtype=self.dtype).element_size())


class Held(Source):
    """A tensor in memory, or in a file that the system maps into memory."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.shape, self.dtype = tensor, tuple(tensor.shape), tensor.dtype

    def __getitem__(self, places: Places) -> Tensor:
        return self.tensor[places]


class Joined(Source):
    """Tensors that follow each other along a dimension."""

    def __init__(self, parts: Sequence[Source], along: int) -> None:
        self.parts, self.along, self.dtype = parts, along, parts[0].dtype
        shape = list(parts[0].shape)
        shape[along] = sum(part.shape[along] for part in parts)
        self.shape = tuple(shape)

    def __getitem__(self, places: Places) -> Tensor:
        wanted, begin, read = places[self.along], 0, []
        for part in self.parts:
            end = begin + part.shape[self.along]
            first, last = max(wanted.start, begin), min(wanted.stop, end)
            if first < last:
                read.append(part[_with(places, self.along, slice(first - begin, last - begin))])
            begin = end
        return torch.cat(read, self.along) if read else self.parts[0][_with(places, self.along, slice(0, 0))]


class Stacked(Source):
    """Tensors of one shape along a new first dimension."""

    def __init__(self, parts: Sequence[Source]) -> None:
        self.parts, self.dtype = parts, parts[0].dtype
        self.shape = (len(parts), *parts[0].shape)

    def __getitem__(self, places: Places) -> Tensor:
        first, *others = places
        read = [part[tuple(others)] for part in self.parts[first]]
        return torch.stack(read) if read else self.parts[0][tuple(others)][None][:0]


class Part(Source):
    """A range of a tensor along a dimension."""

    def __init__(self, source: Source, along: int, begin: int, size: int) -> None:
        self.source, self.along, self.begin, self.dtype = source, along, begin, source.dtype
        shape = list(source.shape)
        shape[along] = size
        self.shape = tuple(shape)

    def __getitem__(self, places: Places) -> Tensor:
        wanted = places[self.along]
        return self.source[_with(places, self.along, slice(self.begin + wanted.start, self.begin + wanted.stop))]


class Row(Source):
    """A tensor of those that are stacked along the first dimension."""

    def __init__(self, source: Source, number: int) -> None:
        self.source, self.number, self.shape, self.dtype = source, number, source.shape[1:], source.dtype

    def __getitem__(self, places: Places) -> Tensor:
        return self.source[(slice(self.number, self.number + 1), *places)][0]


def _with(places: Places, dimension: int, piece: slice) -> Places:
    changed: list[Any] = list(places)
    changed[dimension] = piece
    return tuple(changed)
