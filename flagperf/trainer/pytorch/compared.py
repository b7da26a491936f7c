"""Compares a vendor's network with the case's at random steps of a training, on the batch of the step.

A proof covers only its own steps. So the training's model, and the case's network with the same weights, both get the
batch of the last step: loss and gradients must agree. The system's randomness chooses the steps, so neither seed nor
configuration reveals them. A comparison leaves no trace: no gradient, no buffer, no state of a random generator.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.differences import largest
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.randomness import random_state, set_random_state
from flagperf.trainer.start.extension import case_config, extension, parameter_renaming

FIRST = 20  # steps; the first comparison follows one of them
AS_BUILT = {
    "compile": False,
    "init_checkpoint": None,
}  # settings of the case's network, which gets the vendor's weights


class Comparisons:
    """All comparisons of a training on this rank. All ranks compare after the same steps.

    Attributes:
        due: the step after which the next comparison follows; 0: never.
    """

    def __init__(self, parts: Parts, loss: Callable[[nn.Module, Any], Tensor], model: nn.Module) -> None:
        """Draw the first step.

        Args:
            loss, model: of the training step.
        """
        self.parts, self.loss, self.model = parts, loss, model
        self.losses: list[float] = []
        self.gradients: list[float] = []
        self.seconds = 0.0
        section = extension(parts.config)
        replaced = bool((section.get("replace") or {}).get("network") or section.get("network_hook"))
        self.due = 0
        mesh = parts.strategy.mesh
        if replaced and mesh.parts == 1:  # this rank has the whole network
            self._random = random.Random(parts.world.gather(secrets.randbits(64))[0])
            self.due = self._random.randint(1, FIRST)

    def compare(self, batch: Any) -> None:
        """Compare on the batch of the last micro step, and draw the next step, further away each time.

        Where the device has no room for a second network, no comparison is made.
        """
        began = perf_counter()
        try:
            self._compare(batch)
        except RuntimeError as error:
            if "out of memory" not in str(error).lower():
                raise
        self.due += self._random.randint(1, max(FIRST, 2 * self.due))
        self.parts.world.wait()
        self.seconds += perf_counter() - began

    def _compare(self, batch: Any) -> None:
        state, device, vendor_network = random_state(self.parts.device), self.parts.device, self.parts.network
        case_network = self._case_network(vendor_network)
        if case_network is None:
            self.losses.append(math.inf)
            self.gradients.append(math.inf)
            return
        with _unchanged(vendor_network, state, device):
            vendor_loss, vendor_gradients = self._gradients(self.model, vendor_network, batch)
        with _unchanged(case_network, state, device):
            case_loss, case_gradients = self._gradients(case_network, case_network, batch)
        rename = parameter_renaming(self.parts.config)
        renamed = {rename(name): tensor for name, tensor in vendor_gradients.items()}
        self.losses.append(abs(vendor_loss - case_loss) / max(abs(case_loss), 1e-6))
        self.gradients.append(_relative_difference(renamed, case_gradients))

    def figures(self) -> dict[str, float | None]:
        """Fields of FINISHED, where the vendor has code of its own: number, seconds and largest differences."""
        if not extension(self.parts.config):
            return {}
        gathered = self.parts.world.gather(
            (len(self.losses), self.seconds, largest(self.losses), largest(self.gradients))
        )
        counts, *maxima = zip(*gathered)
        names = ("comparison_time", "comparison_loss", "comparison_gradients")
        return {"comparisons": min(counts), **dict(zip(names, map(max, maxima)))}

    def _case_network(self, vendor_network: nn.Module) -> nn.Module | None:
        """The case's network with the current weights; None where the vendor's network has other weights."""
        config = {**case_config(self.parts.config), **AS_BUILT}
        network = build_network(config, Settings.read(config), self.parts.task, self.parts.device, self.parts.world)
        rename = parameter_renaming(self.parts.config)
        weights = {rename(name): tensor for name, tensor in vendor_network.state_dict().items()}
        if _shapes(weights) != _shapes(network.state_dict()):
            return None
        network.load_state_dict(weights)
        return network.train()

    def _gradients(self, model: nn.Module, network: nn.Module, batch: Any) -> tuple[float, Mapping[str, Tensor]]:
        """Loss and gradients, by a call as in the training step. `network`: holds the parameters of `model`."""
        parameters = {name: tensor for name, tensor in network.named_parameters() if tensor.requires_grad}
        with self.parts.strategy.accumulating():  # nothing is averaged over the ranks
            loss = self.loss(model, batch)
        scale = self.parts.precision.loss_scale()
        scaled = loss if scale is None else loss * scale
        gradients = torch.autograd.grad(scaled, list(parameters.values()), allow_unused=True)
        used = {name: gradient.detach() for name, gradient in zip(parameters, gradients) if gradient is not None}
        return float(loss.detach()), used


@contextmanager
def _unchanged(network: nn.Module, state: Mapping[str, Any], device: torch.device) -> Iterator[None]:
    """A block that begins with a state of the random generators, and without dropout.

    At its end it restores this state, the dropouts and the buffers of the network.
    """
    set_random_state(state, device)
    buffers = {name: buffer.detach().clone() for name, buffer in network.named_buffers()}
    dropouts = {module: module.p for module in network.modules() if isinstance(module, nn.modules.dropout._DropoutNd)}
    try:
        for module in dropouts:
            module.p = 0.0
        yield
    finally:
        for module, share in dropouts.items():
            module.p = share
        with torch.no_grad():
            for name, buffer in network.named_buffers():
                buffer.copy_(buffers[name])
        set_random_state(state, device)


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Name → shape of each tensor."""
    return {name: tensor.shape for name, tensor in weights.items()}


def _relative_difference(vendor: Mapping[str, Tensor], case: Mapping[str, Tensor]) -> float:
    """Norm of the difference of all gradients, relative to the norm of the case's; infinite where one is missing."""
    if vendor.keys() != case.keys():
        return float("inf")
    reference = sum(float(tensor.float().square().sum()) for tensor in case.values())
    difference = sum(float((vendor[name].float() - tensor.float()).square().sum()) for name, tensor in case.items())
    return float((difference / max(reference, 1e-24)) ** 0.5)
