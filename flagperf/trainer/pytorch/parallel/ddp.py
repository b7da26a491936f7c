"""Data parallelism: each rank has the whole network, and other data. The default."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from typing_extensions import override

from flagperf.contract.checkpoint import check_form, check_identity, identity
from flagperf.contract.settings import Settings
from flagperf.trainer.checkpoints.files import reading, save
from flagperf.trainer.pytorch.adapter import load_saved_state, saved_state
from flagperf.trainer.pytorch.by_version import parallel_devices, sent_buffers
from flagperf.trainer.pytorch.parallel.strategy import Strategy
from flagperf.trainer.pytorch.ranks import World


class DDP(Strategy):
    """torch.nn.parallel.DistributedDataParallel, with the further arguments of the setting `ddp`.

    A checkpoint is one file, which rank 0 writes.
    """

    def __init__(self, world: World, settings: Settings, mesh: Mapping[str, int]) -> None:
        super().__init__(world, settings, mesh)
        self.mesh.check_undivided()

    @override
    def wrapped(self, network: nn.Module, device: torch.device) -> nn.Module:
        if self.world.size == 1:
            return network
        sent_buffers(network)
        devices = parallel_devices(device)
        self.distributed = DistributedDataParallel(network, device_ids=devices, **self.settings.ddp)
        return self.distributed

    @override
    def accumulating(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.distributed is None else self.distributed.no_sync()

    @override
    def identity(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return identity(config, self.world.size)

    @override
    def save(self, folder: Path, step: int, stateful: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        if self.world.rank == 0:
            state = {**{name: saved_state(part) for name, part in stateful.items()}, **values}
            self.written(state, lambda copy: save(folder, step, lambda file: torch.save(copy, file)))

    @override
    def load(self, path: Path, stateful: Mapping[str, Any], identity: Mapping[str, Any]) -> Mapping[str, Any]:
        check_form(path, in_parts=False)
        with reading(path):
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            check_identity(path, state["identity"], identity)
        for name, part in stateful.items():
            load_saved_state(part, state[name])
        return state
