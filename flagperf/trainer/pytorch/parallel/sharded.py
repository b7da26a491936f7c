"""The network divided over ranks: FSDP2 block by block, and within a block layers, sequences and experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, cast

import torch
from torch import Tensor, distributed, nn
from typing_extensions import override

from flagperf.contract.checkpoint import BATCH, check_form, check_identity, computed
from flagperf.contract.mesh import DATA_SIDES, SIDES
from flagperf.contract.settings import Settings
from flagperf.contract.sharding import Sharding
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.by_version import check_newest, check_sharding
from flagperf.trainer.pytorch.fingerprint import copied
from flagperf.trainer.pytorch.parallel.blocks import find_blocks, give_no_views
from flagperf.trainer.pytorch.parallel.evaluated import equally_many
from flagperf.trainer.pytorch.parallel.strategy import Strategy
from flagperf.trainer.pytorch.precision import AUTOCAST
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task

SHARING = ("dp_shard", "cp", "ep")  # ranks along these sides share the tensors of a copy of the network


class Sharded(Strategy):
    """torch.distributed.fsdp.fully_shard over data ranks and `cp`, and parallelize_module over `tp`.

    FSDP2 and DTensor are imported where they are used: an older torch does not have them.

    Args:
        arguments: the fields of flagperf.contract.sharding.Sharding; `blocks` may also be a single text.
    """

    needs_group = True
    divides = True

    def __init__(self, world: World, settings: Settings, mesh: Mapping[str, int], **arguments: Any) -> None:
        check_sharding()
        super().__init__(world, settings, mesh)
        if isinstance(arguments.get("blocks"), str):
            arguments["blocks"] = [arguments["blocks"]]
        self.sharding = Sharding(**arguments)
        for side in (side for side in ("pp", "cp", "ep") if getattr(self.mesh, side) > 1):
            check_newest(f"parallel.mesh.{side}")
        self._writers = world  # the ranks as they write checkpoints
        self._mesh: Any = None  # of torch, made with the first divided network
        self._as_one: dict[tuple[str, ...], Any] = {}  # sides of this mesh → a mesh of one dimension
        self._network: Any = None  # the trained network
        self._pipelines: dict[nn.Module, Any] = {}  # of divided networks

    # ---------------------------------------------------------------- the network

    @override
    def undivided(self, network: nn.Module) -> nn.Module:
        return copied(network, torch.device("meta"))

    @override
    def divided(self, network: nn.Module, device: torch.device) -> nn.Module:
        from torch.distributed.fsdp import fully_shard

        mesh = self._mesh or self._device_mesh(device)
        self._mesh = mesh
        blocks = find_blocks(network, self.sharding.blocks)
        if self.mesh.cp > 1:
            from flagperf.trainer.pytorch.parallel.context import give_context

            give_context(network, mesh["cp"])
        if self.mesh.tp > 1:
            from flagperf.trainer.pytorch.parallel.tensors import divide_layers

            divide_layers(network, self.sharding, mesh["tp"])
        experts = self._divided_experts(network, mesh)
        if self.mesh.pp > 1:
            network = self._in_stages(network, blocks, mesh)
        data = self._data_mesh(mesh, SHARING)
        policy = self._policy()
        for root in self._roots(network):
            held = set(root.modules())
            root_blocks = [block for block in blocks if block in held]
            for block in (*root_blocks, root):
                give_no_views(block)
            for module in experts:
                self._shard_experts(module, mesh)
            for block in root_blocks:
                fully_shard(
                    block, mesh=data, mp_policy=policy, reshard_after_forward=self.sharding.reshard_after_forward
                )
            fully_shard(root, mesh=data, mp_policy=policy, reshard_after_forward=False)
            if self.sharding.prefetch:
                self._gather_ahead(root_blocks[::-1])
        return network

    def _divided_experts(self, network: nn.Module, mesh: Any) -> list[nn.Module]:
        """The modules whose experts the ranks along `ep` divide."""
        if self.mesh.ep == 1:
            return []
        from flagperf.trainer.pytorch.parallel.experts import divide_experts

        return divide_experts(network, mesh["ep"])

    def _shard_experts(self, module: nn.Module, mesh: Any) -> None:
        """Divide the experts of this rank over the ranks that have the same ones."""
        from torch.distributed.fsdp import fully_shard

        from flagperf.trainer.pytorch.parallel.experts import second_dimension

        fully_shard(
            module,
            mesh=self._data_mesh(mesh, [side for side in SHARING if side != "ep"]),
            mp_policy=replace(self._policy(), cast_forward_inputs=False),  # the weights of the choices stay exact
            reshard_after_forward=self.sharding.reshard_after_forward,
            shard_placement_fn=second_dimension,
        )

    def _data_mesh(self, mesh: Any, sides: Sequence[str]) -> Any:
        """The mesh over which FSDP2 divides parameters along some sides, and copies them along `dp_replicate`."""
        wide = tuple(side for side in sides if side == "dp_shard" or getattr(self.mesh, side) > 1)
        if wide not in self._as_one:
            self._as_one[wide] = mesh[wide]._flatten("_".join(wide)) if len(wide) > 1 else mesh["dp_shard"]
            if self.mesh.tp > 1:  # a norm over these sides and tp is summed at once, in the same order on every rank
                _together(mesh, self._as_one[wide], mesh["tp"])._flatten()
        as_one = self._as_one[wide]
        return as_one if self.mesh.dp_replicate == 1 else _together(mesh, mesh["dp_replicate"], as_one)

    def _device_mesh(self, device: torch.device) -> Any:
        """The mesh of torch, with the sides of every mesh, and others with several ranks."""
        from torch.distributed.device_mesh import init_device_mesh

        names = [side for side in SIDES if side in ("dp_replicate", "dp_shard", "tp") or getattr(self.mesh, side) > 1]
        sizes = tuple(getattr(self.mesh, side) for side in names)
        return init_device_mesh(device.type, sizes, mesh_dim_names=tuple(names))

    def _in_stages(self, network: nn.Module, blocks: Sequence[nn.Module], mesh: Any) -> nn.Module:
        """The stages of this rank."""
        from flagperf.trainer.pytorch.parallel.pipeline import Pipeline

        opened: Callable[[Tensor], Tensor] = lambda tensor: tensor  # noqa: E731
        if self.sharding.sequence_parallel:
            from flagperf.trainer.pytorch.parallel.sequence import opened_along

            opened = opened_along(mesh["tp"])
        pipeline = Pipeline(network, blocks, mesh["pp"], self.sharding.stages, opened)
        self._pipelines[pipeline.network] = pipeline
        return pipeline.network

    def _roots(self, network: nn.Module) -> list[nn.Module]:
        """The modules that are called in a step: the network, or the stages of this rank."""
        return list(self._pipelines[network].stages.values()) if network in self._pipelines else [network]

    @override
    def pipeline(self, network: nn.Module) -> Any:
        return self._pipelines.get(network)

    @override
    def copy_buffers(self, network: nn.Module) -> None:
        if self.mesh.pp == 1:  # else the blocks have constant buffers only: stages.py
            super().copy_buffers(network)

    @override
    def of_all_stages(self, values: Any) -> list[Any]:
        return self.world.gather(values) if self.mesh.pp > 1 else [values]

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
    def computing(self) -> AbstractContextManager[Any]:
        if not self.sharding.loss_parallel:
            return nullcontext()
        from torch.distributed.tensor.parallel import loss_parallel

        return loss_parallel()

    @override
    @contextmanager
    def accumulating(self) -> Iterator[None]:
        self._network.set_requires_gradient_sync(False)
        yield
        self._network.set_requires_gradient_sync(True)

    @override
    def clip(self, parameters: list[nn.Parameter], limit: float) -> Tensor:
        by_mesh: dict[Any, list[nn.Parameter]] = {}
        for parameter in parameters:
            if parameter.grad is not None:
                by_mesh.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
        if self.mesh.pp == 1 and len(by_mesh) == 1:
            norm = cast(Any, super().clip(parameters, limit))
            return norm.full_tensor()  # type: ignore[no-any-return]
        norms = [
            nn.utils.get_total_norm([parameter.grad for parameter in part if parameter.grad is not None])
            for part in by_mesh.values()
        ]
        squared: Tensor = torch.stack([cast(Any, norm).full_tensor() for norm in norms]).square().sum()
        if self.mesh.pp > 1:
            distributed.all_reduce(squared, group=self._mesh["pp"].get_group())
        norm = squared.sqrt()
        for part in by_mesh.values():
            nn.utils.clip_grads_with_norm_(part, limit, norm)
        return norm

    def summing(self) -> Any:
        """The group of ranks with the same position along tp, cp and pp: along these all evaluate the same samples."""
        mesh = self.mesh
        sides = [side for side in SIDES if side not in DATA_SIDES and getattr(mesh, side) > 1]
        if not sides:
            return None
        by_position: dict[tuple[int, ...], list[int]] = {}
        for rank in range(mesh.size):
            by_position.setdefault(tuple(mesh.position(rank, side) for side in sides), []).append(rank)
        groups = list(by_position.values())
        timeout = timedelta(seconds=self.settings.process_group_timeout)
        return distributed.new_subgroups_by_enumeration(groups, timeout)[0]

    def agreed(self, metrics: dict[str, float]) -> dict[str, float]:
        """The metrics of rank 0: those of other ranks may differ in the last digit."""
        return cast(Dict[str, float], self.world.gather(metrics)[0])

    @override
    @contextmanager
    def evaluating(
        self, network: nn.Module, task: Task, batches: Iterator[Any], number: int
    ) -> Iterator[Iterator[Any]]:
        """As in Strategy. Ranks gather block by block where all call the network equally often, else all at once."""
        from torch.distributed.fsdp import FSDPModule

        numbers = self.world.gather(number)
        roots = self._roots(network)
        modules = [module for root in roots for module in root.modules() if isinstance(module, FSDPModule)]
        if task.one_call_per_batch and min(numbers):
            yield equally_many(network, batches, max(numbers) - number)
        elif self.mesh.ep > 1:
            raise ConfigError(
                "each rank along ep needs a batch of the evaluation data, and calls the network once for each",
                where="config.yaml",
                key="eval_batch_size",
                given=f"batches of the ranks: {min(numbers)} to {max(numbers)}",
                allowed="a size that gives each rank a batch",
            )
        else:
            for module in modules:
                module.unshard()
                module.set_reshard_after_forward(False, recurse=False)
            yield batches
            for module in modules:
                if module not in roots:
                    module.set_reshard_after_forward(self.sharding.reshard_after_forward, recurse=False)
        for module in modules:
            module.reshard()

    # ---------------------------------------------------------------- checkpoints

    def identity(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """As in Strategy. A resumed training may have another mesh, with the same samples in a step."""
        batch = config["train_batch_size"] * config["gradient_accumulation_steps"] * self.mesh.data_ranks
        kept = {key: value for key, value in computed(config).items() if key not in BATCH}
        return {**kept, "samples of an optimizer step": batch}

    @override
    def save(self, folder: Path, step: int, stateful: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        from flagperf.trainer.pytorch.parallel.saved import save_parts, state_of

        state = state_of(self.world, stateful, values, in_stages=self.mesh.pp > 1)
        if self.background is not None and self._writers is self.world:
            self._writers = self.world.apart(self.settings.process_group_timeout)
        self.written(state, lambda copy: save_parts(folder, step, self._writers, copy))

    @override
    def load(self, path: Path, stateful: Mapping[str, Any], identity: Mapping[str, Any]) -> Mapping[str, Any]:
        from flagperf.trainer.pytorch.parallel.saved import load_parts, read_values

        check_form(path, in_parts=True)
        values = read_values(path)
        check_identity(path, values["identity"], identity)
        load_parts(path, stateful, values)
        return values


def _together(mesh: Any, first: Any, second: Any) -> Any:
    """Two parts of a mesh of torch as one of two dimensions."""
    names = (*first.mesh_dim_names, *second.mesh_dim_names)
    return mesh[names] if set(names) <= set(mesh.mesh_dim_names) else type(mesh)._concatenate([first, second])
