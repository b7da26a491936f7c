"""Checkpoints to which every rank writes its part, by torch.distributed.checkpoint; read by ranks in any mesh."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from flagperf.trainer.checkpoints.files import reading, save_folder
from flagperf.trainer.pytorch.adapter import is_adapted
from flagperf.trainer.pytorch.by_version import numbers_only
from flagperf.trainer.pytorch.ranks import World

VALUES_FILE = "own.pt"  # from rank 0: all values that are not divided over ranks
GROUPS = "optimizer_groups"
DIVIDED = ("network", "average", "optimizer")
# Module → the names that the index of a checkpoint may have from it.
DESCRIBING = {
    metadata.__name__: (
        *("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties", "_MEM_FORMAT_ENCODING"),
        *("TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata"),
    ),
    filesystem.__name__: ("_StorageInfo", "_StoragePrefix"),
    "torch": ("Size",),
    "torch.serialization": ("_get_layout",),
}


def state_of(
    world: World, stateful: Mapping[str, Any], values: Mapping[str, Any], *, in_stages: bool = False
) -> dict[str, dict[str, Any]]:
    """The state of a training: this rank's parts of the `tensors`, and the `undivided` values. All ranks call this.

    Args:
        in_stages: whether ranks hold different parameters, and not only parts of the same ones.
    """
    tensors, groups = _divided(stateful)
    if in_stages:
        groups = _together(world.gather(groups))
    others = {name: part.state_dict() for name, part in stateful.items() if name not in DIVIDED}
    return {"tensors": tensors, "undivided": {**others, **values, GROUPS: groups}}


def save_parts(folder: Path, step: int, world: World, state: Mapping[str, dict[str, Any]]) -> None:
    """Write the parts of all ranks, and the other values from rank 0. All ranks call this.

    Args:
        state: of `state_of`, or a copy of it.
    """

    def write(path: Path) -> None:
        save(state["tensors"], storage_writer=filesystem.FileSystemWriter(path), process_group=world.group)
        if world.rank == 0:
            torch.save(state["undivided"], path / VALUES_FILE)

    save_folder(folder, step, world, write)


def read_values(path: Path) -> dict[str, Any]:
    """The values that rank 0 wrote beside network and optimizer. Raises ConfigError for a foreign file."""
    with reading(path):
        _Reader(path).read_metadata()  # `load` would raise an error of its own
        values: dict[str, Any] = torch.load(path / VALUES_FILE, map_location="cpu", weights_only=True)
    return values


def read_metadata(path: Path) -> metadata.Metadata:
    """The index of a checkpoint: its tensors, and where their parts lie. Raises ConfigError for a foreign file."""
    with reading(path):
        return _Reader(path).read_metadata()


def read_tensor(path: Path, name: str, tensor: Tensor) -> Tensor:
    """Fill a whole tensor from a checkpoint, without other ranks. `name`: in the index."""
    with _loading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a single process
        load({name: tensor}, storage_reader=_Reader(path), no_dist=True)
    return tensor


def load_parts(path: Path, stateful: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Restore the parts of a training from a checkpoint, which may be divided in another way."""
    tensors, _ = _divided(stateful)
    with _loading(path):
        load(tensors, storage_reader=_Reader(path))
    set_state_dict(
        stateful["network"],
        stateful["optimizer"],
        model_state_dict=tensors["network"],
        optim_state_dict={"state": tensors["optimizer"], "param_groups": values[GROUPS]},
        options=_options(stateful),
    )
    for name, part in stateful.items():
        if name not in DIVIDED:
            part.load_state_dict(values[name])
    if "average" in stateful:
        stateful["average"].load_state_dict(tensors["average"])


@contextmanager
def _loading(path: Path) -> Iterator[None]:
    """A block that reads the entries of a checkpoint. Its errors are those of the entries, as those of `reading`."""
    with reading(path), numbers_only():
        try:
            yield
        except CheckpointException as error:  # of all ranks, and no Exception
            raise next(iter(error.failures.values()))[0] from error


def _divided(stateful: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The tensors of networks and optimizer, by the names of the parameters; and the optimizer's parameter groups."""
    network, optimizer = get_state_dict(stateful["network"], stateful["optimizer"], options=_options(stateful))
    average = {name: part.state_dict() for name, part in stateful.items() if name == "average"}
    tensors = {"network": network, **average, "optimizer": optimizer["state"]}
    return tensors, optimizer["param_groups"]  # type: ignore[return-value]


def _options(stateful: Mapping[str, Any]) -> StateDictOptions | None:
    """A checkpoint of a network with adapters leaves the frozen weights out."""
    return StateDictOptions(ignore_frozen_params=True, strict=False) if is_adapted(stateful["network"]) else None


def _together(groups_of_ranks: list[list[Any]]) -> list[Any]:
    """The optimizer's parameter groups with the parameters of all ranks."""
    return [
        {**groups[0], "params": list(dict.fromkeys(name for group in groups for name in group["params"]))}
        for groups in zip(*groups_of_ranks)
    ]


class _Reader(filesystem.FileSystemReader):
    """Reads the index of a checkpoint, a pickle, without running foreign code in it."""

    def read_metadata(self, *_: Any, **__: Any) -> metadata.Metadata:
        """The index. Raises UnpicklingError where it names other classes."""
        with Path(self.path, ".metadata").open("rb") as file:
            index: metadata.Metadata = _Metadata(file).load()
        index.storage_meta = index.storage_meta or metadata.StorageMeta()
        index.storage_meta.load_id = self.load_id
        return index


class _Metadata(pickle.Unpickler):
    """Allows the classes that describe a checkpoint, and the types of tensors. No module is imported for a name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.partition(".")[0], name) == ("pathlib", "PosixPath"):  # the folder of the checkpoint
            return PurePosixPath
        if name in DESCRIBING.get(module, ()):
            return vars(sys.modules[module])[name]
        if module == "torch" and isinstance(kind := vars(torch).get(name), torch.dtype):
            return kind
        raise pickle.UnpicklingError(f"{module}.{name} describes no checkpoint")
