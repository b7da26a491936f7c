"""Writes the trained weights of a checkpoint as a folder in the form of Hugging Face, which init_checkpoint reads, too.

    python -m flagperf.trainer.pytorch.published RUN_DIR/JOB/round1/checkpoint/step000001000.dcp FOLDER

config.yaml of the checkpoint's round says which network it is. Adapters are added to the weights of init_checkpoint.
Tensors are read one after the other, so that no more than a file of the folder is in memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flagperf.contract.components import component, targets
from flagperf.contract.made_here import foreign
from flagperf.contract.regular import read_mapping
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError, FlagperfError
from flagperf.trainer.checkpoints.files import reading
from flagperf.trainer.pytorch.adapter import NAME as ADAPTER
from flagperf.trainer.pytorch.build import initial_weights
from flagperf.trainer.pytorch.by_version import in_place
from flagperf.trainer.pytorch.hugging_face.sources import Held, Places, Source
from flagperf.trainer.pytorch.hugging_face.write import write_folder
from flagperf.trainer.start.extension import parameter_renaming
from flagperf.trainer.start.imports import import_components

CONFIG = "config.yaml"
DEEPEST = 4  # folders between a run and the configuration of an attempt of a round


def main(arguments: list[str] | None = None) -> int:
    """Write the folder. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="step<N>.pt or step<N>.dcp of a round")
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument("--config", type=Path, help="config.yaml of the round, if the checkpoint lies elsewhere")
    parser.add_argument("--trust", action="store_true", help="also import what a config.yaml names that is not yours")
    options = parser.parse_args(arguments)
    config_file = options.config or options.checkpoint.absolute().parents[1] / CONFIG
    try:
        _check_exist(options.checkpoint, config_file)
        if not options.trust:
            check_author(config_file)
        write_trained(options.checkpoint, options.folder, config_file)
    except FlagperfError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(f"{options.folder}: the weights of {options.checkpoint.name}")
    return 0


def check_author(config_file: Path) -> None:
    """Refuse a configuration that this user's flagperf did not write on this machine: its classes are imported.

    Raises:
        ConfigError: with the names of these classes.
    """
    path = config_file.absolute()
    if all(foreign(folder, [path]) for folder in list(path.parents)[:DEEPEST]):
        raise ConfigError(
            "your flagperf did not write this configuration on this machine: its author decides what is imported",
            where=str(path),
            given=", ".join(dict.fromkeys(targets(read_mapping(path)))),
            allowed="that of a run of your own, unchanged",
            advice="if you trust its author: --trust",
        )


def write_trained(checkpoint: Path, folder: Path, config_file: Path) -> None:
    """Write the weights of a checkpoint as a folder. With a moving average, these are the averaged weights.

    Args:
        config_file: of the checkpoint's round.

    Raises:
        ConfigError: the configuration or the checkpoint cannot be read, or the folder exists.
    """
    config = read_mapping(config_file)
    import_components(config)
    with torch.device("meta"):
        network: nn.Module = component(config, "network")
    rename = parameter_renaming(config)
    trained = {rename(name): source for name, source in _trained(checkpoint).items()}
    if Settings.read(config).adapter.modules:
        trained = _merged(network, config, trained)
    names = network.state_dict().keys()
    write_folder(folder, network, {name: trained[name] for name in names})


def _check_exist(checkpoint: Path, config_file: Path) -> None:
    if not checkpoint.exists():
        allowed = "step<N>.pt or step<N>.dcp in the folder `checkpoint` of a round"
        raise ConfigError("no such checkpoint", key="CHECKPOINT", given=checkpoint, allowed=allowed)
    if not config_file.is_file():
        advice = "name the config.yaml of the round with --config"
        problem = "no configuration lies beside the checkpoint"
        raise ConfigError(problem, key="--config", given=config_file, advice=advice)


# ---------------------------------------------------------------- tensors of a checkpoint


def _trained(checkpoint: Path) -> dict[str, Source]:
    """The network's tensors in a checkpoint by name; those of the moving average where there is one."""
    tensors = _of_parts(checkpoint) if checkpoint.is_dir() else _of_file(checkpoint)
    for prefix in ("average.module.", "network."):
        part = {name[len(prefix) :]: source for name, source in tensors.items() if name.startswith(prefix)}
        if part:
            return part
    raise ConfigError("the checkpoint holds no network", key="CHECKPOINT", given=checkpoint)


def _of_file(path: Path) -> dict[str, Source]:
    with reading(path):
        state = torch.load(path, map_location="cpu", weights_only=True, **in_place(str(path)))
        parts = {part: state[part] for part in ("average", "network") if part in state}
    return {f"{part}.{name}": Held(tensor) for part, tensors in parts.items() for name, tensor in tensors.items()}


def _of_parts(path: Path) -> dict[str, Source]:
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    from flagperf.trainer.pytorch.parallel.saved import read_metadata

    entries = read_metadata(path).state_dict_metadata
    return {
        name: _Divided(path, name, entry) for name, entry in entries.items() if isinstance(entry, TensorStorageMetadata)
    }


class _Divided(Source):
    """A tensor of a checkpoint with a part from every rank. It is read as a whole."""

    def __init__(self, path: Path, name: str, entry: Any) -> None:
        self.path, self.name, self.shape, self.dtype = path, name, tuple(entry.size), entry.properties.dtype

    def __getitem__(self, places: Places) -> torch.Tensor:
        from flagperf.trainer.pytorch.parallel.saved import read_tensor

        tensor = read_tensor(self.path, self.name, torch.empty(self.shape, dtype=self.dtype))
        return tensor[places]


# ---------------------------------------------------------------- adapters


class _Adapted(Source):
    """A weight with its adapter added."""

    def __init__(self, weight: Any, up: Source, down: Source, scale: float) -> None:
        self.weight, self.up, self.down, self.scale = weight, up, down, scale
        self.shape, self.dtype = tuple(weight.shape), torch.float32

    def __getitem__(self, places: Places) -> torch.Tensor:
        change = self.scale * self.up.complete()[places[0]] @ self.down.complete()[:, places[1]]
        return self.weight[places].to(self.dtype) + change  # type: ignore[no-any-return]


def _merged(network: nn.Module, config: Mapping[str, Any], adapters: Mapping[str, Source]) -> dict[str, Source]:
    """The frozen weights of init_checkpoint, with the adapters of a checkpoint added."""
    settings = Settings.read(config)
    if settings.init_checkpoint is None:
        raise ConfigError(
            "the checkpoint holds adapters only, and its training began with random weights",
            key="init_checkpoint",
            given=None,
            allowed="a training that starts from published weights",
        )
    task = component(config, "task")
    rename = parameter_renaming(config)
    given = initial_weights(network, network.state_dict(), task, settings.init_checkpoint, rename)
    merged: dict[str, Source] = {}
    for name, tensor in given.items():
        layer = name.rpartition(".")[0]
        source = tensor if isinstance(tensor, Source) else Held(tensor)
        up, down = (adapters.get(f"{layer}.{ADAPTER}.{kind}.weight") for kind in ("up", "down"))
        scale = settings.adapter.alpha / settings.adapter.rank
        merged[name] = _Adapted(source, up, down, scale) if up and down and name.endswith(".weight") else source
    return merged


if __name__ == "__main__":
    sys.exit(main())
