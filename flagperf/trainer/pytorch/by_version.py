"""The differences between the versions of torch in vendors' stacks, 2.0 to 2.14. No other file asks for the version.

Each function begins with the newest version's way. Older versions use mostly the module of the device, such as
torch.cuda or the torch.npu of a plug-in.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flagperf.errors import ConfigError

if TYPE_CHECKING:
    from torch.optim.swa_utils import AveragedModel

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
NEWEST = (2, 14)  # pipelines, and parts of sequences and experts, were tried with this version only
# Variables by which torch.load overrules its caller.
ONLY_NUMBERS, NOT_ONLY_NUMBERS = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
UNWATCHED = "checkpoints"  # description of a process group
KEPT_GROUPS: list[Any] = []  # process groups, kept to the end of the process: torch 2.4 may hang when it frees one


def fill_in() -> None:
    """Add names that the cases use, where an older torch or its torchvision lacks them."""
    from flagperf.trainer.pytorch import older_names

    if VERSION < (2, 1):
        older_names.fill_torch()
    if VERSION < (2, 6):
        older_names.fill_torchvision()


def take_added_masks() -> None:
    """Let networks of transformers 4 take masks of four dimensions as version 5 does: they are added to the scores."""
    if int(importlib.metadata.version("transformers").partition(".")[0]) < 5:
        from flagperf.trainer.pytorch import older_names

        older_names.fill_transformers()


def keep_nan() -> str:
    """The `nan_strategy` by which torchmetrics' means count NaN. Older versions can only skip NaN, with a warning."""
    from torchmetrics import MeanMetric

    try:
        MeanMetric(nan_strategy="disable")
    except ValueError:
        return "warn"
    return "disable"


# ---------------------------------------------------------------- devices


def module_of(device: torch.device) -> Any:
    """The module of the device's kind: torch.cuda, or the like of a plug-in."""
    return getattr(torch, device.type)


def accelerators(kind: str) -> tuple[str | None, int]:
    """The kind and number of accelerators that torch finds; None and 0 where it finds none.

    Args:
        kind: of the vendor's devices. An older torch looks only for this kind.
    """
    if VERSION >= (2, 7):
        device = torch.accelerator.current_accelerator(check_available=True)
        return (None, 0) if device is None else (device.type, torch.accelerator.device_count())
    module = getattr(torch, kind, None)
    return (kind, module.device_count()) if module is not None and module.is_available() else (None, 0)


def choose_device(device: torch.device) -> None:
    """Make a device the current one of its kind."""
    if VERSION >= (2, 7):
        torch.accelerator.set_device_index(device.index)
    else:
        module_of(device).set_device(device.index)


def streams(device: torch.device) -> tuple[Any, Any, Callable[[], AbstractContextManager[Any]]]:
    """The current stream of a device, a second stream, and a function that makes a block for work on the second one."""
    if VERSION >= (2, 7):
        other = torch.Stream(device)
        return torch.accelerator.current_stream(device), other, lambda: other
    module = module_of(device)
    older = module.Stream(device=device)
    return module.current_stream(device), older, lambda: module.stream(older)


def bound_to(device: torch.device) -> dict[str, torch.device]:
    """The argument of init_process_group by which NCCL starts at once, and not within the first step."""
    return {"device_id": device} if VERSION >= (2, 4) and device.type == "cuda" else {}


def leave_group() -> None:
    """Leave the process group. With torch 2.0 a rank may hang here; there it leaves when its process ends."""
    if VERSION >= (2, 4):
        KEPT_GROUPS.append(torch.distributed.group.WORLD)
        torch.distributed.destroy_process_group()


def parallel_devices(device: torch.device) -> list[torch.device] | None:
    """The `device_ids` of DistributedDataParallel. Torch 2.0 takes each device for a GPU, and copies inputs there."""
    return None if device.type == "cpu" or (VERSION < (2, 1) and device.type != "cuda") else [device]


def check_sharding() -> None:
    """Refuse a torch without FSDP2, which divides a network over ranks.

    Raises:
        ConfigError: torch is older than 2.6.
    """
    if VERSION < (2, 6):
        raise ConfigError(
            f"torch {torch.__version__} has data parallelism only",
            where="config.yaml",
            key="parallel._target_",
            allowed="null, which is DDP; other strategies need torch 2.6 or newer",
        )


def check_newest(key: str) -> None:
    """Refuse a torch with which flagperf never tried a side of the mesh.

    Args:
        key: of the side.

    Raises:
        ConfigError: torch is older than NEWEST.
    """
    if VERSION < NEWEST:
        raise _too_old(key, "more than 1", ".".join(map(str, NEWEST)))


def sent_buffers(network: nn.Module) -> list[Tensor]:
    """The buffers that ranks can send each other. Gloo of torch 2.0 sends no booleans, which are constants.

    DistributedDataParallel sends buffers, too; it skips the names in this attribute.
    """
    if VERSION >= (2, 4):
        return list(network.buffers())
    unsent = [name for name, buffer in network.named_buffers() if buffer.dtype == torch.bool]
    network._ddp_params_and_buffers_to_ignore = unsent  # type: ignore[assignment]
    return [buffer for buffer in network.buffers() if buffer.dtype != torch.bool]


def collective_counts() -> dict[str, int]:
    """Process group → its number of ended collectives, for groups with a collective that has not ended.

    Torch's flight recorder counts them, with gloo from torch 2.8 on. Without it there are none.
    """
    counts = {}
    for number, dump in enumerate(_recorders()):
        for group, status in json.loads(dump(False, False))["pg_status"].items():
            ended = int(status["last_completed_collective"])
            if int(status["last_enqueued_collective"]) > ended:
                counts[f"{number} {group}"] = ended
    return counts


def collective(group: str) -> tuple[str, int, list[int]] | None:
    """The first collective of a process group that has not ended: its name, number in the group, and ranks.

    None where all have ended, where it is a message between two ranks, and for an `unwatched_group`.

    Args:
        group: as in `collective_counts`.
    """
    number, group_id = group.split()
    for entry in json.loads(_recorders()[int(number)](True, False))["entries"]:
        if entry["process_group"][1] == UNWATCHED:
            continue
        if entry["pg_id"] == int(group_id) and not entry["retired"] and not entry["is_p2p"]:
            groups = {name: group for group, name in torch.distributed.distributed_c10d._world.pg_names.items()}
            ranks = torch.distributed.get_process_group_ranks(groups[entry["process_group"][0]])
            return entry["profiling_name"].partition(":")[2], entry["collective_seq_id"], ranks
    return None


def host_copies() -> Callable[[Any], Any]:
    """A function that copies a state into host memory. A copy uses the memory of the copy before.

    Raises:
        ConfigError: this torch cannot.
    """
    try:
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
    except ImportError:
        raise ConfigError(
            "checkpoints in the background need torch 2.9",
            where="config.yaml",
            key="checkpoint_in_background",
            given=torch.__version__,
            advice="set it to false, or use a newer torch",
        ) from None
    options = StagingOptions(
        use_pinned_memory=torch.cuda.is_available(),
        use_shared_memory=False,
        use_async_staging=False,
        use_non_blocking_copy=False,
    )
    return DefaultStager(options).stage


def unwatched_group(timeout: timedelta) -> Any:
    """A new process group of all ranks over gloo, whose waits are normal: a rank works alone for long."""
    named = "group_desc" in inspect.signature(torch.distributed.new_group).parameters
    description: dict[str, Any] = {"group_desc": UNWATCHED} if named else {}
    return torch.distributed.new_group(backend="gloo", timeout=timeout, **description)


def _recorders() -> list[Any]:
    """Torch's flight recorders: of gloo and others, and of NCCL."""
    module = getattr(torch._C, "_distributed_c10d", None)
    dumps = (getattr(module, name, None) for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json"))
    return [dump for dump in dumps if dump is not None] if hasattr(module, "_dump_fr_trace_json") else []


# ---------------------------------------------------------------- numbers


def grad_scaler(device: torch.device) -> Any:
    """The gradient scaler for fp16 on a device.

    Raises:
        ConfigError: this torch has no gradient scaler for the device.
    """
    if VERSION >= (2, 3):
        return torch.amp.GradScaler(device.type)
    try:
        return module_of(device).amp.GradScaler()
    except AttributeError:
        raise ConfigError(
            f"torch {torch.__version__} has no gradient scaler for {device.type}",
            where="config.yaml",
            key="precision",
            given="amp_fp16",
            allowed="fp32, amp_bf16",
        ) from None


def fill_no_memory() -> None:
    """Stop deterministic algorithms from filling uninitialised memory, which costs a pass over it."""
    if VERSION >= (2, 2):
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def local_parts(tensors: Iterable[Any]) -> list[Tensor]:
    """This rank's parts of tensors; an undivided tensor is its own part."""
    return [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]


def moving_average(network: nn.Module, decay: float) -> AveragedModel:
    """An exponential moving average of this rank's parts of a network's weights and buffers."""
    from torch.optim import swa_utils

    if VERSION >= (2, 1):
        average = swa_utils.get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]

        def of_parts(means: Sequence[Tensor], new: Sequence[Tensor], count: Any) -> None:
            average(local_parts(means), local_parts(new), count)

        return swa_utils.AveragedModel(network, multi_avg_fn=of_parts, use_buffers=True)

    def updated(mean: Tensor, new: Tensor, _: Any) -> Tensor:
        return torch.lerp(mean, new, 1 - decay) if mean.is_floating_point() else mean * decay + new * (1 - decay)

    return swa_utils.AveragedModel(network, avg_fn=updated, use_buffers=True)


# ---------------------------------------------------------------- files and counts


def safe_to_load(classes: Iterable[Any]) -> AbstractContextManager[Any]:
    """A block in which torch.load reads objects of these classes, too; an older torch reads tensors only."""
    return torch.serialization.safe_globals(list(classes)) if VERSION >= (2, 5) else nullcontext()


@contextmanager
def numbers_only() -> Iterator[None]:
    """A block in which every torch.load calls no code of its file, also where PyTorch itself passes weights_only=False.

    The index of a divided checkpoint decides whether PyTorch reads an entry as a tensor or as any object.
    """
    kept = {name: os.environ.pop(name, None) for name in (ONLY_NUMBERS, NOT_ONLY_NUMBERS)}
    os.environ[ONLY_NUMBERS] = "1"
    try:
        yield
    finally:
        del os.environ[ONLY_NUMBERS]
        os.environ.update({name: value for name, value in kept.items() if value is not None})


def in_place(path: str) -> dict[str, bool]:
    """The argument of torch.load by which tensors stay in the file until they are read, where torch can do so."""
    return {"mmap": True} if VERSION >= (2, 1) and zipfile.is_zipfile(path) else {}


def newest_name(kind: type) -> str:
    """Module and name of a class in the newest version: transformers 4 has a class for each attention kernel."""
    module, name = kind.__module__, kind.__qualname__
    return f"{module}.{name.replace('Sdpa', '') if module.startswith('transformers.') else name}"


def newest_group(optimizer: Optimizer, group: Mapping[str, Any]) -> Mapping[str, Any]:
    """A parameter group with the hyper-parameter by which newer versions tell AdamW from Adam."""
    decoupled = {torch.optim.Adam: False, torch.optim.AdamW: True}
    kind = type(optimizer)
    return {"decoupled_weight_decay": decoupled[kind], **group} if kind in decoupled else group


def step_of(optimizer: Optimizer) -> Any:
    """The optimizer's own step, without the wrappers of profilers and schedulers."""
    step = optimizer.step
    if VERSION == (2, 4) and getattr(step, "__module__", "") == "torch.optim.lr_scheduler":
        step = inspect.getclosurevars(step).nonlocals["func"]  # this version's wrapper has no __wrapped__
    return inspect.unwrap(step)


def plain_attention() -> AbstractContextManager[Any]:
    """A block in which attention is computed without fused kernels."""
    if VERSION >= (2, 3):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(SDPBackend.MATH)
    fused = {"enable_flash": False, "enable_mem_efficient": False}
    return torch.backends.cuda.sdp_kernel(**fused)


def choose_attention(kernels: Sequence[str]) -> None:
    """Let scaled-dot-product attention use these kernels only: flash, efficient, cudnn, math. Empty: any.

    Raises:
        ConfigError: this torch has no switch for a kernel.
    """
    if not kernels:
        return
    for name, switch in (("flash", "flash"), ("efficient", "mem_efficient"), ("cudnn", "cudnn"), ("math", "math")):
        enable = getattr(torch.backends.cuda, f"enable_{switch}_sdp", None)
        if enable is not None:
            enable(name in kernels)
        elif name in kernels:
            raise _too_old("attention_kernels", name, "2.5")


def kept_products() -> Callable[[], Any]:
    """A `context_fn` of checkpoint() that keeps the results of matrix products and attention.

    Raises:
        ConfigError: this torch cannot recompute a part of a module.
    """
    if VERSION < (2, 4):
        raise _too_old("checkpoint_keeps", "products", "2.4")
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    aten = torch.ops.aten
    kernels = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
    names = ("mm", "addmm", "bmm", "_scaled_mm", *(f"_scaled_dot_product_{kernel}" for kernel in kernels))
    operators = [getattr(aten, name).default for name in names if hasattr(aten, name)]
    return partial(create_selective_checkpoint_contexts, operators)


def _too_old(key: str, given: str, least: str) -> ConfigError:
    return ConfigError(
        f"torch {torch.__version__} is too old for this",
        where="config.yaml",
        key=key,
        given=given,
        allowed=f"with torch {least} or newer",
    )


def flop_counter() -> Any:
    """A block that counts operations; its get_total_flops returns their number."""
    if VERSION < (2, 1):
        from flagperf.trainer.pytorch.older_names import FlopCounter

        return FlopCounter()
    from torch.utils.flop_counter import FlopCounterMode

    return FlopCounterMode(display=False)
