"""TensorBoard's scalars, by its own writer, which is the same for every framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flagperf.contract.perflog import Event
from flagperf.trainer.loop.records import FLAGPERF_RATES

GROUPS = {"STEP_END": "train", "EVALUATE": "eval"}
# Fields with the position of the training, or with the value of another field: they get no curves.
POSITION = ("step", "epoch", "samples", "time", "global_steps", "num_trained_samples", "end_training")
NO_CURVES = (*POSITION, *FLAGPERF_RATES.values())


class TensorBoard:
    """Writes scalars by step into tensorboard/: train/<name> of STEP_END, eval/<metric> of EVALUATE."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2  # type: ignore[import-untyped]
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # type: ignore[import-untyped]

        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._writer: Any = EventFileWriter(str(folder / "tensorboard"))

    def write(self, event: Event) -> None:
        """Write the numbers of an event. FINISHED closes the file."""
        if group := GROUPS.get(event.event):
            numbers = {name: value for name, value in event.value.items() if _has_curve(event.event, name)}
            values = [self._summary.Value(tag=f"{group}/{name}", simple_value=value) for name, value in numbers.items()]
            summary = self._summary(value=values)
            self._writer.add_event(
                self._event(wall_time=event.time_ms / 1000, step=event.value["step"], summary=summary)
            )
        elif event.event == "FINISHED":
            self._writer.close()


def _has_curve(event: str, name: str) -> bool:
    """A STEP_END repeats the metric of an evaluation."""
    return name not in NO_CURVES and (event != "STEP_END" or not name.startswith("eval_"))
