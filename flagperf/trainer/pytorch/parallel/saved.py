"""Checkpoints to which every rank writes its part, by torch.distributed.checkpoint; read by ranks in any mesh."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from flagperf.trainer.checkpoints.files import reading, save_folder
from flagperf.trainer.pytorch.ranks import World

OWN = "own.pt"  # what is no tensor that ranks divide: written by rank 0
GROUPS = "optimizer_groups"
DIVIDED = ("network", "average", "optimizer")


def save_parts(folder: Path, step: int, world: World, stateful: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Write network and optimizer from all ranks, and the rest from rank 0; called on every rank."""
    tensors, groups = _divided(stateful)
    others = {name: part.state_dict() for name, part in stateful.items() if name not in DIVIDED}
    rest = {**others, **own, GROUPS: groups}

    def write(path: Path) -> None:
        save(tensors, storage_writer=filesystem.FileSystemWriter(path))
        if world.rank == 0:
            torch.save(rest, path / OWN)

    save_folder(folder, step, world, write)


def read_own(path: Path) -> dict[str, Any]:
    """What rank 0 wrote beside network and optimizer."""
    with reading(path):
        _Reader(path).read_metadata()  # `load` would bring an error of its own
        own: dict[str, Any] = torch.load(path / OWN, map_location="cpu", weights_only=True)
    return own


def load_parts(path: Path, stateful: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Bring the parts of a training to the state that was saved, however it was divided then and is now."""
    tensors, _ = _divided(stateful)
    load(tensors, storage_reader=_Reader(path))
    set_state_dict(
        stateful["network"],
        stateful["optimizer"],
        model_state_dict=tensors["network"],
        optim_state_dict={"state": tensors["optimizer"], "param_groups": own[GROUPS]},
    )
    for name, part in stateful.items():
        if name not in DIVIDED:
            part.load_state_dict(own[name])
    if "average" in stateful:
        stateful["average"].load_state_dict(tensors["average"])


def _divided(stateful: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The tensors of networks and optimizer, by the names of the parameters; and the optimizer's parameter groups."""
    network, optimizer = get_state_dict(stateful["network"], stateful["optimizer"])
    average = {name: part.state_dict() for name, part in stateful.items() if name == "average"}
    tensors = {"network": network, **average, "optimizer": optimizer["state"]}
    return tensors, optimizer["param_groups"]  # type: ignore[return-value]


class _Reader(filesystem.FileSystemReader):
    """Reads what is where in a checkpoint, which is a pickle, without running code that somebody put there."""

    def read_metadata(self, *_: Any, **__: Any) -> metadata.Metadata:
        with Path(self.path, ".metadata").open("rb") as file:
            found: metadata.Metadata = _Metadata(file).load()
        found.storage_meta = found.storage_meta or metadata.StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found


class _Metadata(pickle.Unpickler):
    """Knows the classes that describe a checkpoint, and the types of tensors."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "PosixPath":  # where the checkpoint was written
            return PurePosixPath
        found = super().find_class(module, name)
        described = isinstance(found, type) and found.__module__ in (metadata.__name__, filesystem.__name__)
        if described or found in (torch.Size, torch.serialization._get_layout) or isinstance(found, torch.dtype):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} describes no checkpoint")
