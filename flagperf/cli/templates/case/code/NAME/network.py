"""The network: three linear layers."""

from torch import Tensor, nn


class Classifier(nn.Module):
    """Points [n, 2] → logits [n, 2]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
        )

    def forward(self, points: Tensor) -> Tensor:
        """The logits of both classes."""
        logits: Tensor = self.layers(points)
        return logits
