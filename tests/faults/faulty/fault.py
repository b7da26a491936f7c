"""What is mixed into a case's task, on any framework: it fails in a step on a rank."""

from __future__ import annotations

import os
import time
from typing import Any

from workload import FAULTS

STEP = 4  # in which it fails
PAUSE = 0.3  # seconds before each step: longer than the loop holds back the lines of fast ones


class Fault:
    """Fails before the batch of a step goes to the network.

    Args:
        fault: one of workload.FAULTS; or diverge: each loss of the rank is no number.
        rank: that fails.
    """

    def __init__(self, fault: str, rank: int, **others: Any) -> None:
        super().__init__(**others)
        self.fault = fault if rank == int(os.environ["RANK"]) else "none"
        self.step = 0

    def units(self, batch: Any) -> int:
        """Called once a step, as there is no accumulation."""
        self.step += 1
        time.sleep(PAUSE)
        if self.step == STEP and self.fault != "diverge":
            FAULTS[self.fault]()
        return int(super().units(batch))  # type: ignore[misc]

    def loss(self, network: Any, batch: Any) -> Any:
        loss = super().loss(network, batch)  # type: ignore[misc]
        return loss * float("nan") if self.fault == "diverge" else loss
