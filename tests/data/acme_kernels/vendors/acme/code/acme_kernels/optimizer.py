"""Gradient descent with momentum, all tensors of a group in one call."""

import torch


class FusedSGD(torch.optim.Optimizer):
    """torch.optim.SGD without dampening, Nesterov and closures."""

    def __init__(self, params, lr, momentum=0.0, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        """One step, with the gradients that are there."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            grads = [parameter.grad for parameter in parameters]
            if group["weight_decay"]:
                grads = torch._foreach_add(grads, parameters, alpha=group["weight_decay"])
            if group["momentum"]:
                moments = [self.state[parameter].get("momentum_buffer") for parameter in parameters]
                moments = [torch.zeros_like(grad) if own is None else own for own, grad in zip(moments, grads)]
                torch._foreach_mul_(moments, group["momentum"])
                torch._foreach_add_(moments, grads)
                for parameter, own in zip(parameters, moments):
                    self.state[parameter]["momentum_buffer"] = own
                grads = moments
            torch._foreach_add_(parameters, grads, alpha=-group["lr"])


class HastySGD(FusedSGD):
    """One that forgets the weight decay: another algorithm."""

    def step(self, closure=None):
        """One step."""
        for group in self.param_groups:
            group["weight_decay"] = 0.0
        super().step(closure)
