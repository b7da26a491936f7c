"""A folder of .safetensors files from the tensors of a network, with an index where there are several files."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, List, Tuple

from torch import nn

from flagperf.contract.regular import beside
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.hugging_face.files import CONFIG, INDEX, SINGLE
from flagperf.trainer.pytorch.hugging_face.names import Match, names_of, tied_names
from flagperf.trainer.pytorch.hugging_face.sources import Joined, Part, Row, Source

LIMIT = 5 * 10**9  # bytes of a file
VIT = "torchvision.models.vision_transformer"

Named = List[Tuple[str, Source]]


def write_folder(folder: Path, network: nn.Module, tensors: Mapping[str, Source], limit: int = LIMIT) -> None:
    """Write the tensors of a network as a folder that transformers reads. The folder has its name when it is complete.

    Args:
        network: its class and its configuration decide names and config.json. Its own tensors are not read.
        tensors: those of the network, by name. They are read file by file.
        limit: bytes of a file. A larger tensor has a file of its own.

    Raises:
        ConfigError: the folder exists.
    """
    if folder.exists():
        raise ConfigError("the folder exists", key="FOLDER", given=folder, allowed="a new folder")
    with beside(folder) as partial:
        partial.mkdir(parents=True)
        _fill(partial, network, tensors, limit)
        partial.rename(folder)


def _fill(partial: Path, network: nn.Module, tensors: Mapping[str, Source], limit: int) -> None:
    """Write the files of the folder."""
    parts = list(_parts(list(_in_files(network, tensors)), limit))
    names = [f"model-{number:05}-of-{len(parts):05}.safetensors" for number in range(1, len(parts) + 1)]
    for name, part in zip(names if len(parts) > 1 else [SINGLE], parts):
        _write(partial / name, part)
    if len(parts) > 1:
        placed = {tensor: name for name, part in zip(names, parts) for tensor, _ in part}
        size = sum(source.nbytes for part in parts for _, source in part)
        index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(placed.items()))}
        (partial / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    config = config_of(network)
    if config is not None:
        (partial / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for file in partial.iterdir():  # safetensors writes for the user alone
        file.chmod(partial.stat().st_mode & 0o666)


def config_of(network: nn.Module) -> dict[str, Any] | None:
    """The content of config.json; None where transformers has no such network."""
    if type(network).__module__ == VIT:
        return _vision_config(network)
    if not names_of(network).config or not hasattr(network, "config"):
        return None
    library = next(kind for kind in type(network).__mro__ if kind.__module__.startswith("transformers."))
    config: Any = copy.copy(network.config)
    config.architectures = [library.__name__]
    return json.loads(config.to_json_string())  # type: ignore[no-any-return]


def _vision_config(network: Any) -> dict[str, Any]:
    """The config.json of a VisionTransformer of torchvision."""
    layers = list(network.encoder.layers)
    return {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "image_size": network.image_size,
        "patch_size": network.patch_size,
        "hidden_size": network.hidden_dim,
        "intermediate_size": network.mlp_dim,
        "num_hidden_layers": len(layers),
        "num_attention_heads": layers[0].num_heads,
        "layer_norm_eps": network.encoder.ln.eps,
        "hidden_act": "gelu",
        "hidden_dropout_prob": network.dropout,
        "attention_probs_dropout_prob": network.attention_dropout,
        "id2label": {str(number): f"LABEL_{number}" for number in range(network.num_classes)},
        "label2id": {f"LABEL_{number}": number for number in range(network.num_classes)},
    }


def _in_files(network: nn.Module, tensors: Mapping[str, Source]) -> Iterator[tuple[str, Source]]:
    """The tensors of the files by name. Of a parameter with several names the first is written."""
    rules, tied = names_of(network).written, tied_names(network)
    for name in tensors:
        if tied.get(name, [name])[0] != name:
            continue
        match = next((match for rule in rules if (match := rule.match(name)) is not None), None)
        yield from _of_match(match, tensors) if match is not None else [(name, tensors[name])]


def _of_match(match: Match, tensors: Mapping[str, Source]) -> Iterator[tuple[str, Source]]:
    """The tensors of files in the form of a match."""
    sources = [tensors[name] for name in match.tensors]
    if match.position > 0:
        return  # written with the first one
    joined = sources[0] if len(sources) == 1 else Joined(sources, match.along)
    size = joined.shape[match.along] // len(match.files)
    for number, file in enumerate(match.files):
        part = joined if len(match.files) == 1 else Part(joined, match.along, number * size, size)
        if "+" not in file:
            yield file, part
            continue
        yield from ((file.replace("+", str(row)), Row(part, row)) for row in range(part.shape[0]))


def _parts(named: Sequence[tuple[str, Source]], limit: int) -> Iterator[Named]:
    """The tensors of each file."""
    part: Named = []
    size = 0
    for name, source in named:
        if part and size + source.nbytes > limit:
            yield part
            part, size = [], 0
        part.append((name, source))
        size += source.nbytes
    yield part


def _write(path: Path, part: Named) -> None:
    from safetensors.torch import save_file

    save_file({name: source.complete().contiguous() for name, source in part}, str(path), metadata={"format": "pt"})
