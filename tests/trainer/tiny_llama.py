"""A Llama of two small layers on made-up tokens: the network that is divided in tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flagperf.trainer.pytorch.task import Task

VOCAB, LENGTH = 64, 16


def network(tied: bool = False, intermediate: int = 64) -> nn.Module:
    """A LlamaForCausalLM of 33,056 parameters, 2,048 fewer where embedding and output layer are tied."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "hidden_size": 32,
        "intermediate_size": intermediate,
        "num_hidden_layers": 2,
        "max_position_embeddings": LENGTH,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    made: nn.Module = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, tie_word_embeddings=tied, **sizes, **heads))
    return made


def staged(layers: int = 4, loss_chunk: int | None = None) -> nn.Module:
    """The language models' network, of four small layers by default: it can be divided into stages and sequences."""
    from transformers import LlamaConfig

    from cases.language_model.network import Llama

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": layers, "max_position_embeddings": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return Llama(LlamaConfig(vocab_size=VOCAB, tie_word_embeddings=False, **sizes, **heads), loss_chunk)


def separated() -> nn.Module:
    """The same, where each small token begins a document: documents do not see each other."""
    made = staged()

    class Separated(type(made)):  # type: ignore[misc]
        def forward(self, tokens: Tensor, labels: Tensor, received: Tensor | None = None) -> Tensor:
            documents = (tokens < VOCAB // 4).cumsum(1)
            return super().forward(tokens, labels, received, documents)  # type: ignore[no-any-return]

    made.__class__ = Separated
    return made


def mixture(balance: float = 0.0, windows: bool = False, experts: int = 4) -> nn.Module:
    """The language models' network with some experts in each of two layers: Mixtral's, or gpt-oss's with windows."""
    from transformers import GptOssConfig, MixtralConfig

    from cases.language_model.network import decoder

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": experts, "num_experts_per_tok": 2}
    more = {"head_dim": 8, "sliding_window": 5} if windows else {}
    config = (GptOssConfig if windows else MixtralConfig)(
        vocab_size=VOCAB, tie_word_embeddings=False, pad_token_id=None, **sizes, **heads, **more
    )
    return decoder(config, balance=balance)


class Tokens(torch.utils.data.Dataset[Tensor]):
    """Rows of tokens, each the one before plus a step of its row: something that can be learnt."""

    def __init__(self, count: int, seed: int = 3, length: int = LENGTH) -> None:
        generator = torch.Generator().manual_seed(seed)
        starts, steps = (torch.randint(1, VOCAB, (count, 1), generator=generator) for _ in range(2))
        self.rows = (starts + steps * torch.arange(length)) % VOCAB

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return self.rows[index]


class NextToken(Task):
    """Cross-entropy of the next token; of the evaluated rows, the mean of it and their number.

    Every third token does not count: rows have different numbers of tokens, so the mean of rows is not that of tokens.
    """

    metrics = ("loss", "count")
    one_call_per_batch = True

    def loss(self, network: nn.Module, batch: Tensor) -> Tensor:
        loss: Tensor = network(input_ids=batch, labels=batch.masked_fill(~counts(batch), -100)).loss
        return loss

    def weight(self, batch: Tensor) -> Tensor:
        return counts(batch[:, 1:]).sum()

    def samples(self, batch: Tensor) -> int:
        return len(batch)

    def units(self, batch: Tensor) -> int:
        return batch.numel()

    def example(self, config: Any) -> Tensor:  # noqa: ARG002
        return torch.zeros(1, LENGTH, dtype=torch.int64)

    def evaluate(self, network: nn.Module, batches: Any, device: torch.device) -> dict[str, float]:
        sums = torch.zeros(3, dtype=torch.float64, device=device)
        for batch in batches:
            weight = float(self.weight(batch))
            sums += torch.tensor([float(self.loss(network, batch)) * weight, weight, len(batch)])
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(sums, group=self.group)
        return {"loss": float(sums[0] / sums[1]), "count": float(sums[2])}


class NextOfPair(NextToken):
    """The same of the language models' network, which takes tokens and labels."""

    def loss(self, network: nn.Module, batch: Tensor) -> Tensor:
        losses: Tensor = network(batch[:, :-1], batch[:, 1:])
        counted = counts(batch[:, 1:]).flatten()
        return (losses * counted).sum() / counted.sum()

    def example(self, config: Any) -> Tensor:  # noqa: ARG002
        return torch.zeros(1, LENGTH + 1, dtype=torch.int64)


def counts(tokens: Tensor) -> Tensor:
    """Which tokens are to be predicted."""
    return tokens % 3 != 0


def node(name: str, **arguments: Any) -> dict[str, Any]:
    """A `_target_` entry for a class or function of this file."""
    return {"_target_": f"tiny_llama.{name}", **arguments}
