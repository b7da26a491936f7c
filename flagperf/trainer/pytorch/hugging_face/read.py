"""Tensors of a network from a folder of published weights, in the form of the network. They are read part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.hugging_face.files import KEY, TYPES, Stored, stored_tensors
from flagperf.trainer.pytorch.hugging_face.names import Match, Names, names_of, tied_names
from flagperf.trainer.pytorch.hugging_face.sources import Joined, Part, Source, Stacked
from flagperf.trainer.start.extension import Rename


def published_weights(
    folder: Path, network: nn.Module, wanted: Mapping[str, Any], rename: Rename = str
) -> dict[str, Source]:
    """The tensors of a folder by the names of a network's tensors, and those that the network does not have.

    Args:
        network: its class and tied parameters decide the names.
        wanted: the case's name of a tensor of the network → a tensor of this shape.
        rename: the network's name of a parameter → the case's name.

    Raises:
        ConfigError: the files cannot be read, or hold quantized numbers.
    """
    reading = _Reading(stored_tensors(folder), names_of(network), wanted)
    tied = {rename(name): [rename(tied_name) for tied_name in same] for name, same in tied_names(network).items()}
    given = {}
    for name in wanted:
        sources = (reading.source(tensor_name) for tensor_name in [name, *tied.get(name, ())])
        source = next((source for source in sources if source is not None), None)
        if source is not None:
            _check_numbers(folder, name, source, wanted[name])
            given[name] = source
    return {**reading.others(), **given}


class _Reading:
    """Finds tensors in files, and remembers which of these were used."""

    def __init__(self, stored: Mapping[str, Stored], names: Names, wanted: Mapping[str, Any]) -> None:
        self.stored, self.names, self.wanted = stored, names, wanted
        self.used: set[str] = set()

    def source(self, name: str) -> Source | None:
        """The tensor of a name in the network; None where the files lack it."""
        stored = self._stored(name)
        if stored is not None:
            return stored
        matches = (rule.match(name) for rule in self.names.read)
        made = (self._made(match, name) for match in matches if match is not None)
        return next((source for source in made if source is not None), None)

    def others(self) -> dict[str, Source]:
        """The tensors that were not used, except those that the network does not need."""
        unused = {name: source for name, source in self.stored.items() if name not in self.used}
        return {name: source for name, source in unused.items() if not self.names.ignores(name)}

    def _made(self, match: Match, name: str) -> Source | None:
        """The tensor in the form of a match; None where the files have another form."""
        sources = [self._stacked(file, name) if "+" in file else self._stored(file) for file in match.files]
        given = [source for source in sources if source is not None]
        if len(given) < len(match.files):
            return None
        joined = given[0] if len(given) == 1 else Joined(given, match.along)
        if len(match.tensors) == 1:
            return joined
        sizes = [self.wanted[tensor].shape[match.along] for tensor in match.tensors if tensor in self.wanted]
        if sum(sizes) != joined.shape[match.along]:
            return joined  # whose shape is refused
        return Part(joined, match.along, sum(sizes[: match.position]), sizes[match.position])

    def _stacked(self, file: str, name: str) -> Source | None:
        names = [file.replace("+", str(number)) for number in range(self.wanted[name].shape[0])]
        if not all(tensor_name in self.stored for tensor_name in names):
            return None
        parts: Sequence[Source] = [self.stored[tensor_name] for tensor_name in names]
        self.used.update(names)
        return Stacked(parts)

    def _stored(self, name: str) -> Source | None:
        """The tensor of this name, with or without the prefix of the network's base."""
        prefix = f"{self.names.prefix}."
        for stored_name in (name, prefix + name, name[len(prefix) :] if name.startswith(prefix) else name):
            if stored_name in self.stored:
                self.used.add(stored_name)
                return self.stored[stored_name]
        return None


def _check_numbers(folder: Path, name: str, source: Source, wanted: Any) -> None:
    if wanted.dtype.is_floating_point and source.dtype == torch.uint8:
        raise ConfigError(
            "the weights are quantized",
            where=str(folder),
            key=KEY,
            given=f"{name}, whose numbers have another type",
            allowed=f"numbers of the types {', '.join(TYPES)}",
            advice="convert the weights to bf16; the publisher of the model has a program for it",
        )
