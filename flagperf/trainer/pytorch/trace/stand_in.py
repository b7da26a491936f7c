"""A rank with no device and no other ranks: process group, network and batch with shapes only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.parallel import Strategy
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task

CPU = torch.device("cpu")
META = torch.device("meta")


def world_of(config: Mapping[str, Any], rank: int = 0) -> World:
    """A rank of the job."""
    return World(rank, config["nnodes"] * config["nproc"], rank % config["nproc"], config["nproc"])


@contextmanager
def process_group(world: World, needed: bool) -> Iterator[None]:
    """A block in which a process group sends nothing: of as many ranks as the job has."""
    if not needed:
        yield
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", rank=world.rank, world_size=world.size, store=FakeStore())
    try:
        yield
    finally:
        distributed.destroy_process_group()
        _forget_groups()


def _forget_groups() -> None:
    """Clear the caches of DTensor: the meshes in them name process groups that the next trace does not have."""
    with suppress(ImportError):  # an older torch has no such function, and no pipeline
        from torch.distributed.tensor.debug import _clear_sharding_prop_cache

        _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The settings without what needs files, a device, or other ranks; none of it changes the bytes of a step much."""
    settings = Settings.read(config)
    ddp = {**settings.ddp, "init_sync": False}
    return replace(settings, init_checkpoint=None, compile=False, sync_bn=False, ddp=ddp)


def meta_network(config: Mapping[str, Any], settings: Settings, task: Task, world: World) -> nn.Module:
    """The whole network, with shapes only."""
    with META:
        network = build_network(config, settings, task, META, world)
    return network.to(META)  # some libraries insist on the CPU


def part_of_rank(network: nn.Module, strategy: Strategy, mode: FakeTensorMode) -> nn.Module:
    """What this rank holds of a network that has shapes only, as tensors of the mode that claim to lie on a CPU."""
    network = strategy.divided(network, CPU)
    made: dict[int, Tensor] = {}
    with mode:
        for module in network.modules():
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        tensors[name] = made.setdefault(id(tensor), _like(tensor))  # type: ignore[assignment]
        pipeline = strategy.pipeline(network)
        for root in [network] if pipeline is None else pipeline.stages.values():
            _tell_fsdp(root)
    return network


def _like(tensor: Tensor) -> Tensor:
    """A tensor of the same shape on the CPU; a parameter if the tensor is a parameter."""
    local = getattr(tensor, "_local_tensor", tensor)
    made = torch.empty_strided(local.shape, local.stride(), dtype=local.dtype, device=CPU)
    if local is not tensor:
        from torch.distributed.tensor import DTensor

        whole: Any = tensor
        made = DTensor.from_local(
            made, whole.device_mesh, whole.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
        )
    return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made


def _tell_fsdp(network: nn.Module) -> None:
    """Let FSDP2 take the parameters that a network has now."""
    for module in network.modules():
        state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None  # type: ignore[operator]
        for group in getattr(state, "_fsdp_param_groups", ()):
            for parameter in group.fsdp_params:
                parameter.reset_sharded_param()
