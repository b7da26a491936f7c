"""Does a vendor's network still do what the case's does? Compared at random steps of the training, on the real batch.

A proof covers the steps that it made. So the step's own call, and the case's own network with the same weights, are
given the batch that was just trained on: loss and gradients must agree. Which steps these are is drawn from the
system's randomness: neither the seed nor the configuration tells it. Nothing of a comparison stays: no gradient, no
buffer, no state of a random generator.
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
from flagperf.trainer.start.extension import extension, plain, renaming

FIRST = 20  # steps, among which the first comparison is made
AS_BUILT = {"compile": False, "init_checkpoint": None}  # of the case's own network, which gets the vendor's weights


class Comparisons:
    """All comparisons of a training on this rank. All ranks compare after the same steps.

    Attributes:
        due: the step after which the next one is made; 0: never.
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
        own = extension(parts.config)
        replaced = bool((own.get("replace") or {}).get("network") or own.get("network_hook"))
        self.due = 0
        mesh = parts.strategy.mesh
        if replaced and mesh.dp_shard == mesh.tp == 1:  # this rank has the whole network
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
        state, device, vendors = random_state(self.parts.device), self.parts.device, self.parts.network
        own = self._own_network(vendors)
        if own is None:
            self.losses.append(math.inf)
            self.gradients.append(math.inf)
            return
        with kept(vendors, state, device):
            here = self._one(self.model, vendors, batch)
        with kept(own, state, device):
            there = self._one(own, own, batch)
        rename = renaming(self.parts.config)
        self.losses.append(abs(here[0] - there[0]) / max(abs(there[0]), 1e-6))
        self.gradients.append(relative({rename(name): tensor for name, tensor in here[1].items()}, there[1]))

    def figures(self) -> dict[str, float | None]:
        """What FINISHED says of them, where the vendor has code of its own: how many, seconds, largest differences."""
        if not extension(self.parts.config):
            return {}
        gathered = self.parts.world.gather(
            (len(self.losses), self.seconds, largest(self.losses), largest(self.gradients))
        )
        counts, *most = zip(*gathered)
        names = ("comparison_time", "comparison_loss", "comparison_gradients")
        return {"comparisons": min(counts), **dict(zip(names, map(max, most)))}

    def _own_network(self, vendors: nn.Module) -> nn.Module | None:
        """The case's own network, with the weights as they are now; None where these are of another network."""
        config = {**plain(self.parts.config), **AS_BUILT}
        network = build_network(config, Settings.read(config), self.parts.task, self.parts.device, self.parts.world)
        rename = renaming(self.parts.config)
        weights = {rename(name): tensor for name, tensor in vendors.state_dict().items()}
        if shapes(weights) != shapes(network.state_dict()):
            return None
        network.load_state_dict(weights)
        return network.train()

    def _one(self, model: nn.Module, network: nn.Module, batch: Any) -> tuple[float, Mapping[str, Tensor]]:
        """Loss and gradients, by a call as the training step makes it; `network` has its parameters."""
        named = {name: tensor for name, tensor in network.named_parameters() if tensor.requires_grad}
        with self.parts.strategy.accumulating():  # nothing is averaged over the ranks
            loss = self.loss(model, batch)
        scale = self.parts.precision.loss_scale()
        found = torch.autograd.grad(loss if scale is None else loss * scale, list(named.values()), allow_unused=True)
        return float(loss.detach()), {name: one.detach() for name, one in zip(named, found) if one is not None}


@contextmanager
def kept(network: nn.Module, state: Mapping[str, Any], device: torch.device) -> Iterator[None]:
    """A block that begins with a state of the random generators. Nothing is dropped out in it.

    After it the state is the same again, and the network is as before.
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


def shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Name → shape of each tensor."""
    return {name: tensor.shape for name, tensor in weights.items()}


def relative(here: Mapping[str, Tensor], there: Mapping[str, Tensor]) -> float:
    """Norm of the difference of all gradients, relative to that of the second; endless where one is missing."""
    if here.keys() != there.keys():
        return float("inf")
    whole = sum(float(tensor.float().square().sum()) for tensor in there.values())
    apart = sum(float((here[name].float() - tensor.float()).square().sum()) for name, tensor in there.items())
    return float((apart / max(whole, 1e-24)) ** 0.5)
