"""Gradient descent with momentum, all tensors of a group in one call."""

import torch


class FusedSGD(torch.optim.Optimizer):
    """torch.optim.SGD without dampening, Nesterov and closures."""

    def __init__(self, params, lr, momentum=0.0, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, _closure=None):
        """One step, with the gradients that are there."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            updates = [parameter.grad for parameter in parameters]
            if group["weight_decay"]:
                updates = torch._foreach_add(updates, parameters, alpha=group["weight_decay"])
            if group["momentum"]:
                for parameter in parameters:
                    self.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))
                moments = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
                torch._foreach_mul_(moments, group["momentum"])
                torch._foreach_add_(moments, updates)
                updates = moments
            torch._foreach_add_(parameters, updates, alpha=-group["lr"])
