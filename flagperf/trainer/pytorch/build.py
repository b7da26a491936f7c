"""Builds the network, loads its weights, and changes its modules as the settings say."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from flagperf.contract.components import class_at, class_path, component
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints.weights import check_fit, read_weights
from flagperf.trainer.pytorch.adapter import adapted, base_state
from flagperf.trainer.pytorch.by_version import in_place, kept_products, moving_average, safe_to_load
from flagperf.trainer.pytorch.case_classes import note_classes
from flagperf.trainer.pytorch.compile_cache import use_own_compile_cache
from flagperf.trainer.pytorch.float8 import multiply_in_float8
from flagperf.trainer.pytorch.hugging_face.read import published_weights
from flagperf.trainer.pytorch.initial import InitialWeights, Recording
from flagperf.trainer.pytorch.rank_part import part_of
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.start.extension import Rename, apply_network_hook, extension, parameter_renaming

if TYPE_CHECKING:
    from torch.optim.swa_utils import AveragedModel

CPU = torch.device("cpu")
TENSORS = (
    "a file of torch.save that holds tensors, arrays and plain values only, .safetensors, NumPy's .npz, "
    "or a folder of Hugging Face"
)
# Classes by which torch.load reads NumPy arrays of published checkpoints, by the names of NumPy 2 and 1.
_REBUILD: Any = np.empty(0).__reduce__()[0]
NUMPY_ARRAYS: list[Any] = [
    np.ndarray,
    np.dtype,
    type(np.dtype(np.uint32)),
    _REBUILD,
    (_REBUILD, "numpy.core.multiarray._reconstruct"),
]


def build_network(
    config: Mapping[str, Any], settings: Settings, task: Task, device: torch.device, world: World
) -> nn.Module:
    """The network on its device, with its initial weights and its changed modules. Raises ConfigError."""
    network, initial = _made(config, settings)
    initial.fill(network, CPU)
    load_initial(network, task, config, settings)
    return apply_network_hook(config, _changed(network, settings, device, world))  # type: ignore[no-any-return]


def build_without_weights(
    config: Mapping[str, Any], settings: Settings, device: torch.device, world: World
) -> tuple[nn.Module, InitialWeights]:
    """The network with its changed modules, most parameters on "meta", and the weights to fill it with."""
    network, initial = _made(config, settings)
    return _changed(network, settings, device, world), initial


def divides_before_filling(config: Mapping[str, Any], settings: Settings) -> bool:
    """Whether a network can be divided over the ranks before it has its weights. A vendor's hook may read them."""
    return settings.initialisation == "by_parameter" and not extension(config).get("network_hook")


def _made(config: Mapping[str, Any], settings: Settings) -> tuple[nn.Module, InitialWeights]:
    """The network from its constructor, and the weights that it still needs."""
    if settings.initialisation == "in_order":
        return note_classes(adapted(component(config, "network"), settings.adapter)), InitialWeights({}, settings.seed)
    with Recording() as recording:
        network = note_classes(adapted(component(config, "network"), settings.adapter))
    return network, InitialWeights(recording.parameters(network), settings.seed, parameter_renaming(config))


def _changed(network: nn.Module, settings: Settings, device: torch.device, world: World) -> nn.Module:
    """The network with its changed modules, on its device. A network without weights stays where it is."""
    if settings.sync_bn and world.size > 1:
        if device.type == "cpu":
            raise ConfigError(
                "batch norm over all ranks needs an accelerator", where="config.yaml", key="sync_bn", given=True
            )
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
    if settings.float8_modules is not None:
        modules = modules_of(network, settings.float8_modules, "float8_modules")
        multiply_in_float8(modules, settings.float8_recipe, device)
    if settings.activation_checkpointing:
        recompute(network, settings.checkpoint_modules, settings.checkpoint_keeps)
    if settings.compile and settings.compile_modules is not None:
        compile_each(network, settings.compile_modules)
    target = {} if any(parameter.is_meta for parameter in network.parameters()) else {"device": device}
    return network.to(memory_format=getattr(torch, settings.memory_format), **target)


def recompute(network: nn.Module, class_name: str | None, keeps: str = "nothing") -> None:
    """Let modules of one class recompute their activations in the backward pass instead of keeping them.

    Args:
        class_name: path of the class.
        keeps: "nothing", or "products": the modules keep products of matrices, and attention.

    Raises:
        ConfigError: no class is named, or the network has no module of the class.
    """
    if class_name is None:
        raise ConfigError(
            "activation checkpointing needs to know which modules recompute",
            where="config.yaml",
            key="checkpoint_modules",
            allowed="the path of a module class, such as torchvision.models.resnet.Bottleneck",
        )
    contexts = kept_products() if keeps == "products" else None
    for module in modules_of(network, class_name, "checkpoint_modules"):
        module.forward = Recomputed(module.forward, contexts)


def compile_each(network: nn.Module, class_name: str) -> None:
    """Compile each module of one class by itself: equal blocks share their kernels."""
    for module in modules_of(network, class_name, "compile_modules"):
        module.forward = Compiled(module.forward)


def modules_of(network: nn.Module, class_name: str, key: str) -> list[Any]:
    """The modules of the class whose path a setting gives. Raises ConfigError where there is none."""
    kind = class_at(class_name)
    modules = [module for module in network.modules() if isinstance(module, kind)]
    if not modules:
        raise ConfigError(
            "the network has no modules of this class",
            where="config.yaml",
            key=key,
            given=class_name,
            allowed=", ".join(sorted({class_path(module) for module in network.modules()})),
        )
    return modules


class Compiled:
    """A forward pass that is compiled. A copy of its module compiles the forward pass of the copy.

    A copy of the module would share torch.compile's function, which computes with the original module.

    Attributes:
        used: False while all such modules run uncompiled, as for the count of their operations.
    """

    used = True

    def __init__(self, forward: Any) -> None:
        use_own_compile_cache()
        self.forward, self.compiled = forward, torch.compile(forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward pass, compiled while `used`."""
        return (self.compiled if Compiled.used else self.forward)(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return Compiled(copy.deepcopy(self.forward, memo))


@contextmanager
def uncompiled() -> Iterator[None]:
    """A block in which the modules of `compile_modules` run uncompiled."""
    Compiled.used = False
    try:
        yield
    finally:
        Compiled.used = True


class Recomputed:
    """A forward pass whose activations are recomputed in the backward pass, except those that `contexts` keeps."""

    def __init__(self, forward: Any, contexts: Callable[[], Any] | None) -> None:
        self.forward = forward
        self.options: dict[str, Any] = {} if contexts is None else {"context_fn": contexts}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the forward pass."""
        if not torch.is_grad_enabled():
            return self.forward(*args, **kwargs)
        return checkpoint(self.forward, *args, use_reentrant=False, **self.options, **kwargs)


def load_initial(
    network: nn.Module, task: Task, config: Mapping[str, Any], settings: Settings, undivided: nn.Module | None = None
) -> None:
    """Fill the network from `init_checkpoint`, where the settings name one. Raises ConfigError.

    Args:
        undivided: the network before its division.
    """
    if settings.init_checkpoint is not None:
        base = None if undivided is None else task.pretrained(undivided)
        load_weights(task.pretrained(network), task, settings.init_checkpoint, parameter_renaming(config), base)


@torch.no_grad()
def load_weights(
    network: nn.Module, task: Task, path: str, rename: Rename = str, undivided: nn.Module | None = None
) -> None:
    """Fill the network from a file or folder. Of a divided network, each rank reads its parts.

    Args:
        rename: name in the network → name in the file.
        undivided: the network before its division, which the file fits. None: the network.

    Raises:
        ConfigError: the weights cannot be read, or their names or shapes are not those of the network.
    """
    held = network if undivided is None else undivided
    wanted, complete = base_state(network), base_state(held)
    weights = initial_weights(held, complete, task, path, rename)
    check_fit(path, weights, complete)
    for name, tensor in wanted.items():
        part, offsets = part_of(tensor)
        part.copy_(weights[name][tuple(slice(first, first + size) for first, size in zip(offsets, part.shape))])


def initial_weights(
    network: nn.Module, wanted: Mapping[str, Any], task: Task, path: str, rename: Rename = str
) -> dict[str, Any]:
    """The content of `init_checkpoint` by the names of the network: tensors, or sources that are read later.

    Args:
        path: of a file, or of a folder in the form of Hugging Face.
        wanted: the tensors of the network by name.
        rename: name in the network → name in the file.

    Raises:
        ConfigError: the file or folder cannot be read.
    """
    if Path(path).is_dir():
        renamed = {rename(name): tensor for name, tensor in wanted.items()}
        content: Mapping[str, Any] = published_weights(Path(path), network, renamed, rename)
    else:
        content = task.initial_weights(read_weights(path, _read_weights, TENSORS))
    network_names = {rename(name): name for name in wanted}
    return {network_names.get(name, name): tensor for name, tensor in content.items()}


def _read_weights(path: str) -> Any:
    """Content of a file of torch.save, or the tensors of a .safetensors or .npz file by name."""
    if Path(path).suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    if Path(path).suffix == ".npz":
        with np.load(path) as arrays:
            return {name: torch.from_numpy(array) for name, array in arrays.items()}
    with safe_to_load(NUMPY_ARRAYS):
        return torch.load(path, map_location="cpu", weights_only=True, **in_place(path))


def make_average(
    network: nn.Module, settings: Settings, divided: Callable[[nn.Module], nn.Module]
) -> AveragedModel | None:
    """The moving average of the network's weights and buffers, in a network of its own; None without the setting.

    Args:
        divided: divides a network over the ranks.
    """
    if settings.ema.decay is None:
        return None
    average = moving_average(network, settings.ema.decay)
    average.module = divided(average.module)
    return average
