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
import yaml
from torch import nn

from flagperf.contract.components import component
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


def main(arguments: list[str] | None = None) -> int:
    """Write the folder. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="step<N>.pt or step<N>.dcp of a round")
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument("--config", type=Path, help="config.yaml of the round, if the checkpoint lies elsewhere")
    options = parser.parse_args(arguments)
    try:
        write_trained(options.checkpoint, options.folder, options.config)
    except FlagperfError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(f"{options.folder}: the weights of {options.checkpoint.name}")
    return 0


def write_trained(checkpoint: Path, folder: Path, config_file: Path | None = None) -> None:
    """Write the weights of a checkpoint as a folder. With a moving average, these are the averaged weights.

    Args:
        config_file: of the checkpoint's round. None: the one that lies beside the folder of the checkpoint.

    Raises:
        ConfigError: there is no such checkpoint or configuration, or the folder exists.
    """
    config = _configuration(checkpoint, config_file or checkpoint.absolute().parents[1] / "config.yaml")
    import_components(config)
    with torch.device("meta"):
        network: nn.Module = component(config, "network")
    rename = parameter_renaming(config)
    trained = {rename(name): source for name, source in _trained(checkpoint).items()}
    if Settings.read(config).adapter.modules:
        trained = _merged(network, config, trained)
    names = network.state_dict().keys()
    write_folder(folder, network, {name: trained[name] for name in names})


def _configuration(checkpoint: Path, path: Path) -> dict[str, Any]:
    if not checkpoint.exists():
        allowed = "step<N>.pt or step<N>.dcp in the folder `checkpoint` of a round"
        raise ConfigError("no such checkpoint", key="CHECKPOINT", given=checkpoint, allowed=allowed)
    if not path.is_file():
        advice = "name the config.yaml of the round with --config"
        raise ConfigError("no configuration lies beside the checkpoint", key="--config", given=path, advice=advice)
    config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return config


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
