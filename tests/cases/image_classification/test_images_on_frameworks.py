"""resnet50 on MindSpore and TensorFlow 2 is PyTorch's network: parameters, scores, loss, gradients from its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import framework_environment
import numpy as np
import pytest
import torch
import yaml

from flagperf.config.compose import compose
from flagperf.contract.components import component

LR = 0.05
L2 = {"mindspore": 0.0, "tensorflow2": 1e-4}  # part of the loss on TensorFlow; MindSpore's optimizer decays
COMPARED = {"mindspore": ("scores", "loss", "grad_norm", "change"), "tensorflow2": ("scores", "loss", "grad_norm")}


class Steps(NamedTuple):
    """What the first steps of PyTorch's tiny network give, and those of the framework's network of the same sizes."""

    framework: str
    wanted: dict[str, Any]
    found: dict[str, Any]


def config_of(*overrides: str) -> dict[str, Any]:
    """The configuration of resnet50."""
    return dict(compose(["model=resnet50", "dry_run=true", *overrides]).config)


@pytest.fixture(
    scope="module",
    params=[pytest.param(framework, marks=getattr(pytest.mark, framework)) for framework in COMPARED],
)
def steps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Steps:
    framework: str = request.param
    folder = tmp_path_factory.mktemp("step")
    config = config_of("size=tiny")
    torch.manual_seed(3)
    network, task = component(config, "network"), component(config, "task")
    for tensor in network.state_dict().values():  # batch norm's begin with 0 and 1, which would hide them
        if tensor.ndim == 1:
            tensor.add_(0.05 * torch.rand(tensor.shape))
    images = torch.randint(256, (8, 3, config["image_size"], config["image_size"]), dtype=torch.uint8)
    labels = torch.randint(config["num_classes"], (8,))
    channels_first = framework == "mindspore"
    given = images if channels_first else images.permute(0, 2, 3, 1)
    np.savez(folder / "given.npz", images=given.numpy(), labels=labels.numpy())
    torch.save(dict(network.state_dict()), folder / "weights.pt")  # MindSpore reads this file, TensorFlow the other
    np.savez(folder / "weights.npz", **{name: tensor.numpy().copy() for name, tensor in network.state_dict().items()})
    (folder / "config.yaml").write_text(yaml.safe_dump(nodes_of(framework, config)))
    script = Path(__file__).with_name(f"{framework}_step.py")
    files = (folder / name for name in ("config.yaml", "given.npz", "found.npz"))
    done = framework_environment.run(framework, script, *files)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return Steps(framework, torch_steps(config, network, task, (images, labels), L2[framework]), dict(found))


def nodes_of(framework: str, config: dict[str, Any]) -> dict[str, Any]:
    """The parts that the framework's script makes. `config`: of PyTorch's network."""
    l2 = L2[framework]
    tiny = config_of(f"framework={framework}", "size=tiny", *([f"l2={l2}"] if l2 else []))
    nodes = {"network": tiny["network"], "task": tiny["task"]}
    if framework == "mindspore":
        sizes = {"image_size": config["image_size"], "blocks": config["network"]["layers"]}
        nodes |= {"network": {**tiny["network"], **sizes}, "optimizer": tiny["optimizer"], "lr": LR}
    return {**nodes, "full": config_of(f"framework={framework}", "size=full")["network"]}


def torch_steps(
    config: dict[str, Any], network: torch.nn.Module, task: Any, batch: tuple[torch.Tensor, torch.Tensor], l2: float
) -> dict[str, Any]:
    """The same numbers as the frameworks' scripts write: loss and norm of the first of two steps, their change."""
    seen = task.to_device(batch, torch.device("cpu"), torch.contiguous_format)
    network.eval()
    with torch.no_grad():
        scores = network(seen[0])
    network.train()
    parameters = list(network.parameters())
    decayed = [one for one in parameters if one.ndim > 1] + [network.get_parameter("fc.bias")]
    before = [parameter.detach().clone() for parameter in parameters]
    optimizer = component({"optimizer": {**config["optimizer"], "lr": LR}}, "optimizer", parameters)
    found: dict[str, Any] = {"scores": scores.numpy()}
    for _ in range(2):
        optimizer.zero_grad()
        loss = task.loss(network, seen) + l2 * sum((one**2).sum() for one in decayed)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None])
        found = {"loss": loss.item(), "grad_norm": norm.item(), **found}  # of the first step
        optimizer.step()
    change = torch.nn.utils.get_total_norm([new.detach() - old for old, new in zip(before, parameters, strict=True)])
    return {**found, "change": change.item()}


def test_steps_are_the_same(steps: Steps) -> None:
    for name in COMPARED[steps.framework]:
        np.testing.assert_allclose(steps.found[name], steps.wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_parameters_and_operations_are_the_same(steps: Steps) -> None:
    """Both count what batch norm keeps, two numbers a channel, too: with them the network has 25,610,152."""
    found = steps.found
    tiny, full = (config_of(f"size={size}")["fingerprint"] for size in ("tiny", "full"))
    assert found["trained"] == tiny["network"]["parameters"]
    assert (found["full_trained"], found["full_kept"]) == (full["network"]["parameters"], 53120)
    assert found["operations"].tolist() == [tiny["forward"]["operations"], full["forward"]["operations"]]
