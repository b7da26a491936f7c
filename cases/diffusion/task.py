"""Images of classes with rectified flow, and how far they are from the real ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cases.diffusion.flow import Batch, Flow, mean_error

SIDE = 8  # pixels of the reduced images whose statistics are compared


class RectifiedFlow(Flow):
    """Batches of cases.diffusion.data.Noised.

    Args:
        steps: of a generation; each calls the network once.
    """

    metrics = ("eval_loss", "frechet_distance")

    def __init__(self, steps: int) -> None:
        self.steps = steps

    @override
    def images(self, batch: Batch) -> Tensor:
        return pixels(batch["image"])

    @override
    def velocity(self, network: nn.Module, noised: Tensor, times: Tensor, batch: Batch) -> Tensor:
        result: Tensor = network(noised, times, batch["label"])
        return result

    def example(self, config: Mapping[str, Any]) -> Batch:
        """One image."""
        side, label = config["image_size"], torch.zeros(1, dtype=torch.long)
        image = torch.zeros(1, 3, side, side)
        return {"image": image.byte(), "label": label, "noise": image, "time": torch.zeros(1)}

    @override
    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """Figures of all evaluation images, each once.

        `eval_loss`: mean squared error of the velocity, at the time of each image. `frechet_distance`: between the
        evaluation images and as many generated ones, as in FID, but of SIDE x SIDE grey pixels in place of the features
        of a classifier.
        """
        errors = torch.zeros(2, dtype=torch.float64, device=device)
        real, generated = (torch.zeros(SIDE**2 + 1, SIDE**2 + 1, dtype=torch.float64, device=device) for _ in range(2))
        for batch in batches:
            errors += self.error_sums(network, batch)
            real += _moments(self.images(batch))
            generated += _moments(self.generate(network, batch["noise"], batch["label"]))
        self.add_up(errors, real, generated)
        return {"eval_loss": mean_error(errors), "frechet_distance": round(_frechet(real, generated), 6)}

    def generate(self, network: nn.Module, noise: Tensor, labels: Tensor) -> Tensor:
        """Images of some classes from noise, by Euler's method."""
        images = noise
        for step in range(self.steps, 0, -1):
            times = torch.full((len(images),), step / self.steps, device=images.device)
            images = images - network(images, times, labels).float() / self.steps
        return images.clamp(-1, 1)


def pixels(images: Tensor) -> Tensor:
    """Bytes as numbers from -1 to 1."""
    return images.float() / 127.5 - 1


def _moments(images: Tensor) -> Tensor:
    """Sums of the products of all pairs of reduced pixels, and of the pixels alone in the last row and column."""
    reduced = functional.adaptive_avg_pool2d(images.mean(1), SIDE).flatten(1).double()
    reduced = functional.pad(reduced, (0, 1), value=1.0)
    return reduced.T @ reduced


def _frechet(first: Tensor, second: Tensor) -> float:
    """Frechet's distance of two normal distributions, from the moments of their samples."""
    (mean1, variance1), (mean2, variance2) = (_statistics(moments.cpu()) for moments in (first, second))
    roots = torch.linalg.eigvals(variance1 @ variance2).real.clamp(min=0).sqrt().sum()
    distance = (mean1 - mean2).square().sum() + variance1.trace() + variance2.trace() - 2 * roots
    return float(distance)


def _statistics(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance."""
    means = moments / moments[-1, -1]
    mean = means[-1, :-1]
    return mean, means[:-1, :-1] - mean[:, None] * mean
