"""bert on PaddlePaddle is the same case as on PyTorch: network, loss and gradients, from the same weights and batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import framework_environment
import numpy as np
import pytest
import torch
import yaml

from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.trainer.pytorch.task import Task

pytestmark = pytest.mark.paddle


def paddle_config(*overrides: str) -> dict[str, Any]:
    """The configuration of bert on Paddle."""
    return dict(compose(["model=bert", "framework=paddle", "dry_run=true", *overrides]).config)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What one step of PyTorch's network gives, and one of Paddle's."""
    folder = tmp_path_factory.mktemp("step")
    config = dict(compose(["model=bert", "size=tiny", "dry_run=true"]).config)
    torch.manual_seed(3)
    network, task = component(config, "network"), component(config, "task")
    with torch.no_grad():  # the bias of the scores and those of all layers begin with 0, which would hide them
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    batch = made_batch(config)
    weights = {f"weight/{name}": tensor.numpy() for name, tensor in network.state_dict().items()}
    np.savez(folder / "given.npz", **weights, **{f"batch/{name}": tensor.numpy() for name, tensor in batch.items()})
    nodes = {"network": paddle_config("size=tiny")["network"], "full": paddle_config("size=full")["network"]}
    (folder / "network.yaml").write_text(yaml.safe_dump(nodes))
    script = Path(__file__).with_name("paddle_step.py")
    done = framework_environment.run(
        "paddle", script, *(folder / name for name in ("network.yaml", "given.npz", "found.npz"))
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return torch_step(task, network, batch), dict(found)


def made_batch(config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Texts of several lengths in one batch; some hold the token of the padding as a masked word may become one."""
    generator = torch.Generator().manual_seed(5)
    texts, length, places = 8, config["recipe"]["max_seq_length"], config["recipe"]["max_predictions_per_seq"]
    words = config["network"]["config"]["vocab_size"]
    mask = (torch.arange(length) < torch.randint(12, length + 1, (texts, 1), generator=generator)).long()
    masked = torch.randint(1, 12, (texts, places), generator=generator).sort().values
    masked[:, -1] = 0
    labels = torch.randint(words, (texts, places), generator=generator)
    return {
        "input_ids": torch.randint(words, (texts, length), generator=generator) * mask,
        "segment_ids": (torch.arange(length) > 8).long() * mask,
        "input_mask": mask,
        "masked_places": masked,
        "masked_words": labels.masked_fill(masked == 0, -100),
        "not_next": torch.randint(2, (texts,), generator=generator),
    }


def torch_step(task: Task, network: torch.nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The same numbers as paddle_step.py writes."""
    words, follows = network(*(batch[name] for name in ("input_ids", "segment_ids", "input_mask", "masked_places")))
    loss = task.loss(network, batch)
    loss.backward()
    parameters = list(network.parameters())
    return {
        "loss": loss.item(),
        "grad_norm": torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None]).item(),
        "parameters": sum(one.numel() for one in parameters),
        "groups": [sum(one.numel() for one in group["params"]) for group in task.parameters(network)],
        "words": words.flatten(0, 1).detach().numpy(),
        "follows": follows.detach().numpy(),
    }


def test_one_step_is_the_same(steps: tuple[dict[str, Any], dict[str, Any]]) -> None:
    wanted, found = steps
    assert int(found["parameters"]) == wanted["parameters"]
    assert (
        int(found["full_parameters"])
        == compose(["model=bert", "size=full", "dry_run=true"]).config["fingerprint"]["network"]["parameters"]
    )
    assert found["groups"].tolist() == wanted["groups"]
    for name in ("words", "follows", "loss", "grad_norm"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)
