"""What a collective operation sends, and among whom."""

from __future__ import annotations

from typing import Any

from torch import Tensor, distributed
from torch.utils._pytree import tree_leaves

from flagperf.contract.mesh import SIDES, Mesh
from flagperf.trainer.pytorch.trace.chains import size
from flagperf.trainer.pytorch.trace.memory import plain_tensors
from flagperf.trainer.pytorch.trace.operators import name_of

NAMESPACES = ("c10d", "_c10d_functional")
# A word of an operator's name → the collective operation; the first that occurs counts.
KINDS = (
    ("reduce_scatter", "reduce_scatter"),
    ("all_reduce", "all_reduce"),
    ("allreduce", "all_reduce"),
    ("all_gather", "all_gather"),
    ("allgather", "all_gather"),
    ("broadcast", "broadcast"),
    ("alltoall", "all_to_all"),
    ("all_to_all", "all_to_all"),
    ("send", "send"),
    ("recv", "recv"),
)


def kind_of(operator: Any) -> str | None:
    """The collective operation; None: the operator sends nothing."""
    if operator.namespace not in NAMESPACES:
        return None
    return next((kind for word, kind in KINDS if word in name_of(operator)), None)


def largest(tree: Any) -> tuple[int, str]:
    """Bytes of all tensors of the larger side, input or output, and their data type."""
    tensors = list(plain_tensors(tree))
    widest = max(tensors, key=size, default=None)
    if widest is None:
        return 0, ""
    several = [size(tensor) for tensor in tensors if tensor.dtype == widest.dtype]
    lists = [leaf for leaf in tree if isinstance(leaf, (list, tuple))] if isinstance(tree, (list, tuple)) else []
    sums = [sum(size(tensor) for tensor in plain_tensors(part)) for part in lists]
    return max(*several, *sums) if len(several) + len(sums) > 1 else several[0], str(widest.dtype).rpartition(".")[2]


def group_of(tree: Any) -> list[int]:
    """The ranks of the process group among the arguments of an operator."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, str) and leaf.isdigit():
            resolve: Any = getattr(distributed.distributed_c10d, "_resolve_process_group")  # noqa: B009
            return distributed.get_process_group_ranks(resolve(leaf))
        if not isinstance(leaf, (Tensor, int, float, str, bool, type(None))) and hasattr(leaf, "_type"):
            try:
                return distributed.get_process_group_ranks(distributed.ProcessGroup.unbox(leaf))
            except (RuntimeError, TypeError):  # an object of another class, such as a ReduceOp
                continue
    return list(range(distributed.get_world_size()))


def side_of(ranks: list[int], mesh: Mesh) -> str:
    """The sides of the mesh that a group spans: "dp_shard", "dp_replicate x dp_shard"."""
    wide = [side for side in SIDES if getattr(mesh, side) > 1]
    groups = {side: mesh.group(ranks[0], side) for side in wide}
    for side, group in groups.items():
        if group == ranks:
            return side
    spanned = [side for side, group in groups.items() if set(group) <= set(ranks)]
    return " x ".join(spanned or wide)
