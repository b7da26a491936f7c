"""The network divided over ranks: FSDP2 block by block, and tensor parallelism within a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, cast

import torch
from torch import Tensor, distributed, nn
from typing_extensions import override

from flagperf.contract.checkpoint import SAME, check_form, check_identity, recipe
from flagperf.contract.settings import Settings
from flagperf.contract.sharding import Sharding
from flagperf.trainer.pytorch.by_version import check_sharding
from flagperf.trainer.pytorch.fingerprint import copied
from flagperf.trainer.pytorch.parallel.blocks import find_blocks, give_no_views
from flagperf.trainer.pytorch.parallel.strategy import Strategy
from flagperf.trainer.pytorch.precision import AUTOCAST
from flagperf.trainer.pytorch.ranks import World

BATCH = ("train_batch_size", "gradient_accumulation_steps")  # may change while their product with the data ranks stays


class Sharded(Strategy):
    """torch.distributed.fsdp.fully_shard over `dp_replicate` x `dp_shard`, and parallelize_module over `tp`.

    FSDP2 and DTensor are imported where they are used: an older torch does not have them.

    Args:
        arguments: the fields of flagperf.contract.sharding.Sharding; `blocks` may also be a single text.
    """

    needs_group = True

    def __init__(self, world: World, settings: Settings, mesh: Mapping[str, int], **arguments: Any) -> None:
        check_sharding()
        super().__init__(world, settings, mesh)
        if isinstance(arguments.get("blocks"), str):
            arguments["blocks"] = [arguments["blocks"]]
        self.sharding = Sharding(**arguments)
        self._mesh: Any = None  # of torch, made with the first divided network
        self._network: Any = None  # the trained network

    # ---------------------------------------------------------------- the network

    @override
    def undivided(self, network: nn.Module) -> nn.Module:
        return copied(network, torch.device("meta"))

    @override
    def divided(self, network: nn.Module, device: torch.device) -> nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        sides = vars(self.mesh)
        mesh = self._mesh or init_device_mesh(device.type, tuple(sides.values()), mesh_dim_names=tuple(sides))
        self._mesh = mesh
        blocks = find_blocks(network, self.sharding.blocks)
        if self.mesh.tp > 1:
            from flagperf.trainer.pytorch.parallel.tensors import divide_layers

            divide_layers(network, self.sharding.plan, mesh["tp"])
            mesh["dp_shard", "tp"]._flatten()  # a norm over both is summed at once, in the same order on every rank
        data = mesh["dp_replicate", "dp_shard"] if self.mesh.dp_replicate > 1 else mesh["dp_shard"]
        policy = self._policy()
        for block in (*blocks, network):
            give_no_views(block)
        for block in blocks:
            fully_shard(block, mesh=data, mp_policy=policy, reshard_after_forward=self.sharding.reshard_after_forward)
        fully_shard(network, mesh=data, mp_policy=policy, reshard_after_forward=False)
        if self.sharding.prefetch:
            self._gather_ahead(blocks[::-1])
        return network

    @override
    def wrapped(self, network: nn.Module, device: torch.device) -> nn.Module:
        self._network = network
        return network

    def _gather_ahead(self, blocks: Sequence[Any]) -> None:
        """Overlap the gathering of blocks, in the order of the forward pass, with the computation of earlier blocks."""
        for index, block in enumerate(blocks):
            block.set_modules_to_forward_prefetch(blocks[index + 1 : index + 1 + self.sharding.prefetch])
            block.set_modules_to_backward_prefetch(blocks[max(0, index - self.sharding.prefetch) : index][::-1])

    def _policy(self) -> Any:
        """Parameters and activations in the format of a mixed precision, gradients averaged in fp32."""
        from torch.distributed.fsdp import MixedPrecisionPolicy

        if self.settings.precision not in AUTOCAST:
            return MixedPrecisionPolicy()
        return MixedPrecisionPolicy(param_dtype=AUTOCAST[self.settings.precision], reduce_dtype=torch.float32)

    @override
    def held(self, network: nn.Module) -> Iterator[Tensor]:
        parameters: Any = network.parameters()
        for parameter in parameters:
            yield parameter.to_local()

    # ---------------------------------------------------------------- a step

    @override
    @contextmanager
    def accumulating(self) -> Iterator[None]:
        self._network.set_requires_gradient_sync(False)
        yield
        self._network.set_requires_gradient_sync(True)

    @override
    def clip(self, parameters: list[nn.Parameter], limit: float) -> Tensor:
        norm = cast(Any, super().clip(parameters, limit))
        return norm.full_tensor()  # type: ignore[no-any-return]

    def summing(self) -> Any:
        """The group of ranks with the same position along `tp`: all ranks of a tp group evaluate the same samples."""
        if self.mesh.tp == 1:
            return None
        groups = [list(range(first, self.mesh.size, self.mesh.tp)) for first in range(self.mesh.tp)]
        timeout = timedelta(seconds=self.settings.process_group_timeout)
        return distributed.new_subgroups_by_enumeration(groups, timeout)[0]

    def agreed(self, metrics: dict[str, float]) -> dict[str, float]:
        """The metrics of rank 0: those of other ranks may differ in the last digit."""
        return cast(Dict[str, float], self.world.gather(metrics)[0])

    @contextmanager
    def evaluating(self, network: nn.Module) -> Iterator[None]:
        """A block with all parameters gathered once, since ranks may have different numbers of batches."""
        from torch.distributed.fsdp import FSDPModule

        root, *blocks = (module for module in network.modules() if isinstance(module, FSDPModule))
        for block in (root, *blocks):
            block.unshard()
            block.set_reshard_after_forward(False, recurse=False)
        yield
        for block in blocks:
            block.set_reshard_after_forward(self.sharding.reshard_after_forward, recurse=False)
        for block in (root, *blocks):
            block.reshard()

    # ---------------------------------------------------------------- checkpoints

    def identity(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """As in Strategy. A resumed training may have another mesh, with the same samples in a step."""
        batch = config["train_batch_size"] * config["gradient_accumulation_steps"] * self.mesh.data_ranks
        kept = {key: config[key] for key in (*SAME, "synthetic") if key not in BATCH}
        return {**kept, "samples of an optimizer step": batch, **recipe(config)}

    @override
    def save(self, folder: Path, step: int, stateful: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        from flagperf.trainer.pytorch.parallel.saved import save_parts

        save_parts(folder, step, self.world, stateful, values)

    @override
    def load(self, path: Path, stateful: Mapping[str, Any], identity: Mapping[str, Any]) -> Mapping[str, Any]:
        from flagperf.trainer.pytorch.parallel.saved import load_parts, read_values

        check_form(path, in_parts=True)
        values = read_values(path)
        check_identity(path, values["identity"], identity)
        load_parts(path, stateful, values)
        return values
