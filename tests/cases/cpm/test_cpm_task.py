"""cpm: one step as transformers computes it, metrics over uneven shares of two ranks, weights as published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradients import gradient_norm
from megatron import published_layers
from sklearn.metrics.pairwise import cosine_similarity
from torch import Tensor, nn
from torchmetrics.text import Perplexity
from toy import fork_ranks
from transformers import GPT2LMHeadModel

from cases.cpm.data import IGNORED
from cases.cpm.task import LanguageModel
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.build import load_weights
from flagperf.trainer.pytorch.ranks import World

Config = dict[str, Any]
Tiny = Callable[[str], Config]


def first_samples(config: Config, count: int) -> tuple[Tensor, Tensor]:
    data = component(config, "train_data")
    tokens, labels = zip(*[data[index] for index in range(count)], strict=True)
    return torch.stack(tokens), torch.stack(labels)


def test_one_step_equals_transformers(tiny: Tiny) -> None:
    """transformers shifts the labels itself: it gets all tokens, the first and last of which we give apart."""
    config = tiny("cpm")
    torch.manual_seed(1)
    network, task = component(config, "network").double(), component(config, "task")
    tokens, labels = first_samples(config, 5)
    loss = task.loss(network, (tokens, labels))
    loss.backward()
    norm = gradient_norm(network)

    network.zero_grad()
    whole = torch.cat([tokens, labels[:, -1:].clamp(min=0)], dim=1)
    wanted = torch.cat([torch.full((5, 1), -100), labels], dim=1)
    expected = network(input_ids=whole, labels=wanted).loss
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert norm == pytest.approx(gradient_norm(network), rel=1e-6)
    assert (task.samples((tokens, labels)), task.units((tokens, labels))) == (5, 5)


def test_dropout_of_the_full_size_is_everywhere() -> None:
    config = compose(["model=cpm", "size=full", "data_dir=/data", "hidden_dropout=0.25"]).config
    with torch.device("meta"):
        network = component(config, "network")
    found = {name.rsplit(".", 1)[-1]: module.p for name, module in network.named_modules() if hasattr(module, "p")}
    assert found == {"drop": 0.25, "resid_dropout": 0.25, "dropout": 0.25, "attn_dropout": 0.5}


# ---------------------------------------------------------------- metrics

SAMPLES = 11


@pytest.fixture
def evaluated(tiny: Tiny) -> tuple[nn.Module, Tensor, Tensor]:
    """A network, and samples of which one has nothing to predict."""
    config = tiny("cpm")
    torch.manual_seed(2)
    network = component(config, "network").eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    tokens, labels = first_samples(config, SAMPLES)
    labels[4] = IGNORED
    return network, tokens, labels


def evaluate(network: nn.Module, tokens: Tensor, labels: Tensor, world: World) -> dict[str, float]:
    """Metrics of one rank's share, in batches of two."""
    world.connect(torch.device("cpu"), "gloo", timeout=60)
    batches = [(tokens[share], labels[share]) for _, share in eval_batches(len(tokens), 2, world)]
    with torch.no_grad():
        return LanguageModel().evaluate(network, batches, torch.device("cpu"))


def embedding_average(network: nn.Module, predicted: Tensor, labels: Tensor) -> float:
    """As FlagPerf computes it, one sample after the other."""
    vectors = network.get_input_embeddings().weight.detach().double().numpy()
    scores = []
    for words, true in zip(predicted.numpy(), labels.numpy(), strict=True):
        if (true != IGNORED).any():
            sums = [vectors[tokens[true != IGNORED]].sum(axis=0) for tokens in (words, true)]
            scores.append(cosine_similarity(*[part[None] for part in sums]).item())
    return float(np.mean(scores))


def test_two_ranks_equal_the_library(evaluated: tuple[nn.Module, Tensor, Tensor], tmp_path: Path) -> None:
    network, tokens, labels = evaluated
    first, second = fork_ranks(lambda _: evaluate(network, tokens, labels, World.of()), tmp_path)
    with torch.no_grad():
        logits = network(input_ids=tokens).logits
    perplexity = Perplexity(ignore_index=IGNORED)(logits, labels).item()
    assert first == second
    assert first == {
        "perplexity": pytest.approx(perplexity, rel=1e-5),
        "loss": pytest.approx(np.log(perplexity), rel=1e-5),
        "embedding_average": pytest.approx(embedding_average(network, logits.argmax(-1), labels), abs=2e-6),
    }
    assert 0.1 < first["embedding_average"] < 0.99


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric MeanMetric was called before:UserWarning")
def test_a_rank_without_samples(evaluated: tuple[nn.Module, Tensor, Tensor], tmp_path: Path) -> None:
    network, tokens, labels = (part[:1] if isinstance(part, Tensor) else part for part in evaluated)
    first, second = fork_ranks(lambda _: evaluate(network, tokens, labels, World.of()), tmp_path)
    assert first == second == evaluate(network, tokens, labels, World())


# ---------------------------------------------------------------- published weights


def published(network: GPT2LMHeadModel) -> dict[str, Tensor]:
    """The network's weights in half precision under the names of CPM-1-Finetune."""
    ours = network.transformer.state_dict()
    weights = {"word_embeddings.weight": ours["wte.weight"], "position_embeddings.weight": ours["wpe.weight"]}
    weights |= published_layers(ours)
    return {name: weight.half() for name, weight in weights.items()}


@pytest.mark.parametrize("packed", [False, True], ids=["weights alone", "under model"])
def test_published_checkpoint_is_loaded(tiny: Tiny, tmp_path: Path, packed: bool) -> None:
    config = tiny("cpm")
    source, network, task = component(config, "network"), component(config, "network"), component(config, "task")
    weights = published(source)
    torch.save({"model": weights} if packed else weights, tmp_path / "cpm_model_states_medium.pt")
    load_weights(network, task, str(tmp_path / "cpm_model_states_medium.pt"))
    for name, weight in source.state_dict().items():
        assert torch.equal(network.state_dict()[name], weight.half().float()), name


def test_checkpoint_of_another_size_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("cpm")
    network, task = component(config, "network"), component(config, "task")
    weights = published(network)
    weights["position_embeddings.weight"] = torch.zeros(32, 64)
    del weights["transformer.final_layernorm.bias"]
    torch.save(weights, tmp_path / "other.pt")
    with pytest.raises(ConfigError) as caught:
        load_weights(network, task, str(tmp_path / "other.pt"))
    assert caught.value.given == (
        "missing: transformer.ln_f.bias; shape of transformer.wpe.weight: [32, 64], the network has [64, 64]"
    )
