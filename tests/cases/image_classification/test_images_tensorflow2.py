"""resnet50 on TensorFlow 2 is PyTorch's network: parameters, scores, loss and gradients from the same weights."""

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

pytestmark = pytest.mark.tensorflow2

L2 = 1e-4


def config_of(*overrides: str) -> dict[str, Any]:
    """The configuration of resnet50."""
    return dict(compose(["model=resnet50", "dry_run=true", *overrides]).config)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What one step of PyTorch's network gives, and one of TensorFlow's."""
    folder = tmp_path_factory.mktemp("step")
    config = config_of("size=tiny")
    torch.manual_seed(3)
    network, task = component(config, "network"), component(config, "task")
    for tensor in network.state_dict().values():  # batch norm's begin with 0 and 1, which would hide them
        if tensor.ndim == 1:
            tensor.add_(0.05 * torch.rand(tensor.shape))
    images = torch.randint(256, (8, 3, config["image_size"], config["image_size"]), dtype=torch.uint8)
    labels = torch.randint(config["num_classes"], (8,))
    arrays = {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}
    np.savez(folder / "weights.npz", **arrays)
    np.savez(folder / "given.npz", images=images.permute(0, 2, 3, 1).numpy(), labels=labels.numpy())
    tiny = config_of("framework=tensorflow2", "size=tiny", f"l2={L2}")
    nodes = {"network": tiny["network"], "task": tiny["task"]}
    nodes["full"] = config_of("framework=tensorflow2", "size=full")["network"]
    (folder / "config.yaml").write_text(yaml.safe_dump(nodes))
    script = Path(__file__).with_name("tensorflow2_step.py")
    files = (folder / name for name in ("config.yaml", "given.npz", "found.npz"))
    done = framework_environment.run("tensorflow2", script, *files)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return torch_step(network, task, (images, labels)), dict(found)


def torch_step(network: torch.nn.Module, task: Any, batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
    """The same numbers as tensorflow2_step.py writes."""
    images, labels = task.to_device(batch, torch.device("cpu"), torch.contiguous_format)
    network.eval()
    with torch.no_grad():
        scores = network(images)
    network.train()
    decayed = [one for one in network.parameters() if one.ndim > 1] + [network.get_parameter("fc.bias")]
    loss = task.loss(network, (images, labels)) + L2 * sum((one**2).sum() for one in decayed)
    loss.backward()
    gradients = [one.grad for one in network.parameters() if one.grad is not None]
    return {
        "scores": scores.numpy(),
        "loss": loss.item(),
        "grad_norm": torch.nn.utils.get_total_norm(gradients).item(),
    }


def test_one_step_is_the_same(steps: tuple[dict[str, Any], dict[str, Any]]) -> None:
    wanted, found = steps
    for name in ("scores", "loss", "grad_norm"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_parameters_and_operations_are_the_same(steps: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Keras counts what batch norm keeps, two numbers a channel, among the weights: with them it has 25,610,152."""
    _, found = steps
    tiny, full = (config_of(f"size={size}")["fingerprint"] for size in ("tiny", "full"))
    assert found["trained"] == tiny["network"]["parameters"]
    assert (found["full_trained"], found["full_kept"]) == (full["network"]["parameters"], 53120)
    assert found["operations"].tolist() == [tiny["forward"]["operations"], full["forward"]["operations"]]
