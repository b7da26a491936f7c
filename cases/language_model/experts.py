"""Mixtures of experts of transformers 5: experts computed in groups, their load, and its balance in the loss.

A router of transformers gives logits, and the weights and numbers of the experts of each token. The module of the
experts asks a function of the library's registry for their sum: `computed_in_groups` is such a function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from typing_extensions import override

from cases.language_model.network import Decoder
from cases.language_model.task import NextToken
from flagperf.errors import ConfigError

if TYPE_CHECKING:
    from flagperf.trainer.pytorch.parallel.context import Context

GROUPS = "flagperf_groups"  # name of `computed_in_groups` in the registry


class Experts(Decoder):
    """A decoder with experts. In training, each loss contains the balance of the experts' loads.

    The balance of a layer is experts x the sum over the experts of (share of the choices) x (mean probability): 1 where
    all experts have the same load (Switch Transformers, arXiv:2101.03961, equation 4; Megatron's aux_loss).

    Args:
        balance: coefficient of the sum of all layers' balance in the loss; 0: none.
        capacity: an expert computes at most capacity x (its equal share of the choices) tokens of a batch, the first
            ones, and drops the others: their residual goes on without this expert. None: it computes all.
    """

    def __init__(
        self, config: Any, loss_chunk: int | None = None, balance: float = 0.0, capacity: float | None = None
    ) -> None:
        _register()
        super().__init__(config, loss_chunk)
        self.config._experts_implementation = GROUPS
        self.balance = balance
        self._logits: list[tuple[nn.Module, Any]] = []
        for module in self.modules():
            if hasattr(module, "num_experts") and hasattr(module, "top_k") and not hasattr(module, "experts"):
                module.register_forward_hook(self._keep)
        for experts in modules_with_experts(self):
            experts.capacity, experts.loads, experts.exchange = capacity, [], None

    @override
    def forward(self, tokens: Tensor, labels: Tensor, **arguments: Any) -> Tensor:
        """As in Decoder; in training with the weighted balance in each loss."""
        self._logits.clear()
        losses = super().forward(tokens, labels, **arguments)
        if not (self.training and self.balance):
            return losses
        balances = [_balance(*kept, self.context) for kept in self._logits]
        self._logits.clear()
        return losses + self.balance * torch.stack(balances).sum()

    def _keep(self, router: nn.Module, _inputs: Any, output: Any) -> None:
        if self.training and self.balance:
            self._logits.append((router, output))


def _balance(router: Any, output: tuple[Tensor, Tensor, Tensor], context: Context | None) -> Tensor:
    """The balance of a layer, from its router's logits, weights and choices."""
    logits, _, chosen = output
    sigmoid = hasattr(router, "e_score_correction_bias")  # DeepSeek-V3's
    scores = logits.float().sigmoid() if sigmoid else logits.float().softmax(-1)
    probabilities = (scores / scores.sum(-1, keepdim=True)).mean(0)
    shares = _loads(chosen, len(probabilities)) / chosen.numel()
    if context is not None:  # a rank has the logits of its part of the sequences
        shares, probabilities = (context.sum(part) / context.ranks for part in (shares, probabilities))
    return len(probabilities) * (shares * probabilities).sum()


def modules_with_experts(network: nn.Module) -> Iterator[Any]:
    """The modules that hold the experts of a layer: transformers tells them how the weights of a gate lie."""
    return (module for module in network.modules() if hasattr(module, "is_concatenated"))


def computed_in_groups(experts: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each token's experts: all tokens of an expert at once.

    Args:
        experts: a module of transformers with `gate_up_proj` and `down_proj` of all experts.
        hidden: [tokens, width].
        chosen, weights: number and weight of the experts of a token, [tokens, experts of a token].
    """
    loads = _loads(chosen, experts.num_experts)
    limit = _limit(experts, chosen.numel())
    if not experts.training:
        experts.loads.append((loads, limit))
    order = chosen.flatten().argsort(stable=True)  # choices, grouped by expert
    rows, sizes = hidden[order // chosen.shape[1]], _sizes(loads, len(order))
    kept = [min(size, limit) for size in sizes]
    if kept == sizes:
        parts = _outputs(experts, rows, sizes)
    else:
        taken = torch.cat([group[:limit] for group in rows.split(sizes)])
        made = _outputs(experts, taken, kept).split(kept)  # zeros for the rows that an expert drops
        parts = torch.cat([functional.pad(part, (0, 0, 0, size - len(part))) for part, size in zip(made, sizes)])
    parts = parts[order.argsort()].unflatten(0, chosen.shape)
    return (parts * weights[..., None].to(parts.dtype)).sum(1).to(hidden.dtype)


def _outputs(experts: Any, rows: Tensor, sizes: list[int]) -> Tensor:
    """The outputs of all experts, for rows grouped by expert. `sizes`: rows of each expert."""
    if experts.exchange is None:
        return _products(experts, rows, sizes, lambda parameter: parameter)
    exchange = experts.exchange
    loads = exchange.loads(torch.tensor(sizes, device=rows.device))
    ranks, own = loads.shape
    there = [sum(sizes[own * rank : own * (rank + 1)]) for rank in range(ranks)]
    groups = _sizes(loads.flatten(), len(rows))  # of each rank, for each expert here
    here = [sum(groups[own * rank : own * (rank + 1)]) for rank in range(ranks)]
    by_rank = exchange.send(rows, there, here).split(groups)
    of_experts = [[own * rank + number for rank in range(ranks)] for number in range(own)]
    order = [group for groups_of_expert in of_experts for group in groups_of_expert]
    sizes_here = [sum(groups[group] for group in groups_of_expert) for groups_of_expert in of_experts]
    made = _products(experts, torch.cat([by_rank[group] for group in order]), sizes_here, exchange.local_part)
    by_expert = dict(zip(order, made.split([groups[group] for group in order])))
    return exchange.send(torch.cat([by_expert[group] for group in range(len(groups))]), here, there)  # type: ignore[no-any-return]


def _products(experts: Any, rows: Tensor, sizes: list[int], own: Callable[[Tensor], Tensor]) -> Tensor:
    """The outputs of the experts of this rank. All experts are computed at once where they have equally many rows.

    Args:
        own: this rank's part of a parameter.
    """
    names = [f"{name}{kind}" for name in ("gate_up_proj", "down_proj") for kind in ("", "_bias")]
    tensors = {name: own(getattr(experts, name)) for name in names if experts.has_bias or "_bias" not in name}
    if len(set(sizes)) == 1:
        biases = {name: tensor[:, None] if "_bias" in name else tensor for name, tensor in tensors.items()}
        return _product(experts, biases, rows.unflatten(0, (len(sizes), -1))).flatten(0, 1)
    of_experts = zip(*(tensor.unbind() for tensor in tensors.values()))
    return torch.cat(
        [_product(experts, dict(zip(tensors, own)), group) for own, group in zip(of_experts, rows.split(sizes))]
    )


def _product(experts: Any, tensors: Mapping[str, Tensor], rows: Tensor) -> Tensor:
    """The outputs of an expert for [rows, width], or of all experts for [experts, rows, width]."""

    def product(name: str, given: Tensor) -> Tensor:
        matrix = tensors[name]
        made = given @ (matrix if experts.is_transposed else matrix.transpose(-1, -2)).to(given.dtype)
        bias = tensors.get(f"{name}_bias")
        return made if bias is None else made + bias.to(made.dtype)

    return product("down_proj", experts._apply_gate(product("gate_up_proj", rows)))


def _loads(chosen: Tensor, experts: int) -> Tensor:
    """How many tokens chose each expert, int64, [experts]."""
    flat = chosen.flatten()
    return torch.zeros(experts, dtype=torch.int64, device=flat.device).scatter_add(0, flat, torch.ones_like(flat))


def _limit(experts: Any, choices: int) -> int:
    """The tokens that an expert computes at most."""
    return choices if experts.capacity is None else math.ceil(experts.capacity * choices / experts.num_experts)


def _sizes(loads: Tensor, choices: int) -> list[int]:
    """The loads as numbers, for which the host waits; equal ones where tensors have shapes only."""
    if loads.device.type != "meta" and not isinstance(loads, FakeTensor):
        return loads.tolist()  # type: ignore[no-any-return]
    count = len(loads)
    return [choices // count + (number < choices % count) for number in range(count)]


def _register() -> None:
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:
        raise ConfigError(
            "this transformers has another form of experts",
            given="a network with experts and transformers 4",
            allowed="transformers 5",
            advice="pip install 'transformers>=5.17,<6'",
        ) from None
    ALL_EXPERTS_FUNCTIONS.register(GROUPS, computed_in_groups)


class NextTokenOfExperts(NextToken):
    """As NextToken, with figures of the experts in the evaluation."""

    metrics = ("eval_loss", "expert_load", "dropped_tokens")

    @override
    def idle(self, network: nn.Module, shape: Mapping[str, Any]) -> float:
        return sum(
            parameter.numel() * (1 - shape["num_experts_per_tok"] / experts.num_experts)
            for experts in modules_with_experts(network)
            for parameter in experts.parameters()
        )

    @override
    def evaluate(self, network: nn.Module, batches: Iterable[Tensor], device: torch.device) -> dict[str, float]:
        """Besides the loss, the mean over layers and batches of these figures, in percent.

        `expert_load`: the tokens of the busiest expert, 100 where all experts have the same load. `dropped_tokens`: the
        choices that no expert computed.
        """
        layers = list(modules_with_experts(network))
        for experts in layers:
            experts.loads.clear()
        taken = 0

        def counted() -> Iterator[Tensor]:
            nonlocal taken
            for batch in batches:
                taken += 1
                yield batch

        metrics = super().evaluate(network, counted(), device)
        figures = torch.zeros(3, dtype=torch.float64, device=device)
        context = getattr(network, "context", None)
        # A rank with fewer batches than others repeats its last call of the network, which counts for nothing.
        for loads, limit in (kept for experts in layers for kept in experts.loads[:taken]):
            if context is not None:  # a rank has the loads of its part of the sequences
                loads, limit = context.sum(loads), limit * context.ranks
            busiest, dropped = loads.max() / loads.sum() * len(loads), (loads - limit).clamp(min=0).sum() / loads.sum()
            figures += torch.stack([busiest, dropped, torch.ones_like(busiest)]).to(figures)
        for experts in layers:
            experts.loads.clear()
        if distributed.is_initialized():
            distributed.all_reduce(figures, group=self.group)
        busiest, dropped, count = figures.tolist()
        return {
            **metrics,
            "expert_load": round(100 * busiest / count, 2),
            "dropped_tokens": round(100 * dropped / count, 2),
        }
