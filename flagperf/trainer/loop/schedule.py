"""The steps whose learning rates identify a schedule."""

from __future__ import annotations

from flagperf.contract.settings import Settings
from flagperf.trainer.data.batches import EndlessBatches


def intervals_of(settings: Settings, batches: EndlessBatches) -> dict[int, int]:
    """The first, the 100th and the last step, from 1 → how often the schedule has stepped before it."""
    last = last_step(settings, batches)
    steps = sorted({1, *(step for step in (100, last) if step is not None and (last is None or step <= last))})
    size = batches.steps_per_epoch if settings.lr_interval == "epoch" else 1
    return {step: (step - 1) // size for step in steps}


def last_step(settings: Settings, batches: EndlessBatches) -> int | None:
    """The last optimizer step that the limits allow; None where only time or the target ends the training."""
    ends = [settings.max_steps]
    if settings.max_epochs is not None:
        ends.append(settings.max_epochs * batches.steps_per_epoch)
    if settings.max_samples_termination is not None and not hasattr(batches.dataset, "batches"):
        ends.append(-(-settings.max_samples_termination // (batches.batch_size * batches.per_step)))
    return min((end for end in ends if end is not None), default=None)
