"""Published weights in several .safetensors files → one such file, with layers joined where the network joins them."""

from __future__ import annotations

import json
import logging
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Tuple

from cases.conversion import reported
from flagperf.errors import ConfigError

log = logging.getLogger(__name__)

SIZES = {"F32": 4, "F16": 2, "BF16": 2}  # bytes of a number

Part = Tuple[Any, str]  # an open file, and the name of a tensor in it


def join(source: Path, file: Path, joined: Mapping[str, Sequence[str]]) -> None:
    """Write the tensors of all .safetensors files of a folder into one file. One tensor is in memory at a time.

    Args:
        joined: end of a layer's name → ends of the names of the layers whose rows it has, in their order.

    Raises:
        ConfigError: the folder has no such file, or lacks a layer.
    """
    import torch
    from safetensors import safe_open

    paths = sorted(source.glob("*.safetensors"))
    if not paths:
        raise ConfigError("the source has no weights", key="source", given=source, allowed="*.safetensors")
    files = [safe_open(str(path), framework="pt") for path in paths]
    matrices = _matrices({name: opened for opened in files for name in list(opened.keys())}, joined)
    header = json.dumps(_header(matrices)).encode()
    with file.open("wb") as output:
        output.write(struct.pack("<Q", len(header)) + header)
        for parts in reported(matrices.values(), log, "%s: %d tensors", file.name):
            for opened, name in parts:
                output.write(opened.get_tensor(name).flatten().view(torch.uint8).numpy())


def _matrices(files: Mapping[str, Any], joined: Mapping[str, Sequence[str]]) -> dict[str, list[Part]]:
    """Name of each tensor in the network → its parts, from the file of each published tensor."""
    whole_of = {part: whole for whole, parts in joined.items() for part in parts}
    matrices: dict[str, list[Part]] = {}
    for name in files:
        end = next((part for part in whole_of if name.endswith(f".{part}.weight")), None)
        if end is None:
            matrices[name] = [(files[name], name)]
            continue
        whole, before = whole_of[end], name[: -len(f"{end}.weight")]
        names = [f"{before}{part}.weight" for part in joined[whole]]
        if missing := [part for part in names if part not in files]:
            raise ConfigError("the weights lack a tensor", key="source", given=name, allowed=missing[0])
        matrices[f"{before}{whole}.weight"] = [(files[part], part) for part in names]
    return matrices


def _header(matrices: Mapping[str, Sequence[Part]]) -> dict[str, Any]:
    """Type, shape and place of each tensor, as safetensors' format describes them."""
    header, begin = {}, 0
    for name, parts in matrices.items():
        slices = [opened.get_slice(part) for opened, part in parts]
        kind, (_, *width) = slices[0].get_dtype(), slices[0].get_shape()
        shape = [sum(part.get_shape()[0] for part in slices), *width]
        end = begin + math.prod(shape) * SIZES[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return header
