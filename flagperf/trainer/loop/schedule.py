"""The identity of a schedule: the learning rates of chosen steps."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from flagperf.contract.components import class_path
from flagperf.contract.settings import Settings
from flagperf.trainer.data.batches import EndlessBatches

Intervals = Mapping[int, int]  # step, from 1 → number of schedule steps before it


def schedule_identity(
    config: Mapping[str, Any],
    settings: Settings,
    batches: EndlessBatches,
    schedule: Any,
    rates: Callable[[Intervals], Any],
    rates_of_case: Callable[[str, Intervals], Any],
) -> dict[str, Any]:
    """The learning rates of chosen steps, from the schedule of this training and from the case's own classes.

    Args:
        rates: gives the rates of the schedule that the training uses, by step.
        rates_of_case: gives the rates of the schedule that the case's classes make, imported again from the disk, since
            a plug-in may have changed them. Its first argument is the path of the class or function that makes the
            schedule; empty: the case has none.
    """
    stated = (config.get("fingerprint") or {}).get("schedule")
    intervals = _intervals(settings, batches)
    return {
        "scheduler": None if schedule is None else class_path(schedule),
        "interval": settings.lr_interval,
        "rates": rates(intervals),
        "rates_of_case": rates_of_case(stated["made_by"], intervals) if stated else None,
    }


def _intervals(settings: Settings, batches: EndlessBatches) -> dict[int, int]:
    """The first, the 100th and the last step, from 1 → number of schedule steps before it."""
    last = _last_step(settings, batches)
    steps = sorted({1, *(step for step in (100, last) if step is not None and (last is None or step <= last))})
    size = batches.steps_per_epoch if settings.lr_interval == "epoch" else 1
    return {step: (step - 1) // size for step in steps}


def _last_step(settings: Settings, batches: EndlessBatches) -> int | None:
    """The last optimizer step that the limits allow; None where only time or the target ends the training."""
    ends = [settings.max_steps]
    if settings.max_epochs is not None:
        ends.append(settings.max_epochs * batches.steps_per_epoch)
    if settings.max_samples_termination is not None and not hasattr(batches.dataset, "batches"):
        ends.append(-(-settings.max_samples_termination // (batches.batch_size * batches.per_step)))
    return min((end for end in ends if end is not None), default=None)
