"""resnet50 on MindSpore is PyTorch's network: parameters, scores, loss, gradients and steps from the same weights."""

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

pytestmark = pytest.mark.mindspore

LR = 0.05


def config_of(*overrides: str) -> dict[str, Any]:
    """The configuration of resnet50."""
    return dict(compose(["model=resnet50", "dry_run=true", *overrides]).config)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What PyTorch's tiny network gives, and MindSpore's of the same sizes."""
    folder = tmp_path_factory.mktemp("step")
    config = config_of("size=tiny")
    torch.manual_seed(3)
    network, task = component(config, "network"), component(config, "task")
    for tensor in network.state_dict().values():  # batch norm's begin with 0 and 1, which would hide them
        if tensor.ndim == 1:
            tensor.add_(0.05 * torch.rand(tensor.shape))
    images = torch.randint(256, (8, 3, config["image_size"], config["image_size"]), dtype=torch.uint8)
    labels = torch.randint(config["num_classes"], (8,))
    torch.save(dict(network.state_dict()), folder / "weights.pt")
    np.savez(folder / "given.npz", images=images.numpy(), labels=labels.numpy())
    tiny = config_of("framework=mindspore", "size=tiny")
    sizes = {"image_size": config["image_size"], "blocks": config["network"]["layers"]}
    nodes = {"network": {**tiny["network"], **sizes}, "optimizer": tiny["optimizer"], "task": tiny["task"], "lr": LR}
    nodes["full"] = config_of("framework=mindspore", "size=full")["network"]
    (folder / "config.yaml").write_text(yaml.safe_dump(nodes))
    script = Path(__file__).with_name("mindspore_step.py")
    files = (folder / name for name in ("config.yaml", "given.npz", "found.npz"))
    done = framework_environment.run("mindspore", script, *files)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return torch_step(config, network, task, (images, labels)), dict(found)


def torch_step(
    config: dict[str, Any], network: torch.nn.Module, task: Any, batch: tuple[torch.Tensor, torch.Tensor]
) -> dict[str, Any]:
    """The same numbers as mindspore_step.py writes."""
    seen = task.to_device(batch, torch.device("cpu"), torch.contiguous_format)
    network.eval()
    with torch.no_grad():
        scores = network(seen[0])
    network.train()
    parameters = list(network.parameters())
    before = [parameter.detach().clone() for parameter in parameters]
    optimizer = component({"optimizer": {**config["optimizer"], "lr": LR}}, "optimizer", parameters)
    found: dict[str, Any] = {"scores": scores.numpy()}
    for _ in range(2):
        optimizer.zero_grad()
        loss = task.loss(network, seen)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None])
        found = {"loss": loss.item(), "grad_norm": norm.item(), **found}  # of the first step
        optimizer.step()
    change = torch.nn.utils.get_total_norm([new.detach() - old for old, new in zip(before, parameters, strict=True)])
    return {**found, "change": change.item()}


@pytest.mark.parametrize("name", ["scores", "loss", "grad_norm", "change"])
def test_two_steps_are_the_same(name: str, steps: tuple[dict[str, Any], dict[str, Any]]) -> None:
    wanted, found = steps
    np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-5)


def test_parameters_and_operations_are_the_same(steps: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """MindSpore calls what batch norm keeps, two numbers a channel, parameters too: with them it has 25,610,152."""
    _, found = steps
    tiny, full = (config_of(f"size={size}")["fingerprint"] for size in ("tiny", "full"))
    assert found["trained"] == tiny["network"]["parameters"]
    assert (found["full_trained"], found["full_kept"]) == (full["network"]["parameters"], 53120)
    assert found["operations"].tolist() == [tiny["forward"]["operations"], full["forward"]["operations"]]
