"""TensorBoard's scalars, by torch.utils.tensorboard."""

from __future__ import annotations

from pathlib import Path

from flagperf.perflog import Event


class TensorBoard:
    """Writes scalars by step into tensorboard/: train/<name> of STEP_END, eval/<metric> of EVALUATE."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, event: Event) -> None:
        """One event; FINISHED closes the file."""
        groups = {"STEP_END": "train", "EVALUATE": "eval"}
        if event.event in groups:
            for name, value in event.value.items():
                if name not in ("step", "epoch", "samples", "time"):
                    tag = f"{groups[event.event]}/{name}"
                    self._writer.add_scalar(tag, value, event.value["step"], walltime=event.time_ms / 1000)
        elif event.event == "FINISHED":
            self._writer.close()
