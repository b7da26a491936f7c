"""The JSON lines of Tecorigin's tcap_dllogger: NVIDIA's DLLogger with another prefix."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from flagperf.perflog import Event
from flagperf.trainer.sinks.lines import LineFile


class DLLogger(LineFile):
    """Writes dllogger.json: values as text, `step` as [epoch, step], the names that tcap_dllogger's tools look for."""

    NAMES: ClassVar = {
        "loss": "train.loss",
        "throughput": "train.ips",
        "step_time": "train.total_time",
        "learning_rate": "train.learning_rate",
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "dllogger.json")
        self._began: int | None = None
        self._epoch = 0

    def write(self, event: Event) -> None:
        """Metadata first, then a line for each logged step, evaluation and the end."""
        value = event.value
        if event.event == "SUBMIT_INFO":
            unit = value["config"]["throughput_unit"]
            self._metadata(event, "train.loss", {"unit": "", "GOAL": "MINIMIZE", "STAGE": "TRAIN"})
            self._metadata(event, "train.ips", {"unit": unit, "GOAL": "MAXIMIZE", "STAGE": "TRAIN"})
            self._metadata(event, "train.total_time", {"unit": "s", "GOAL": "MINIMIZE", "STAGE": "TRAIN"})
        elif event.event == "EPOCH_BEGIN":
            self._epoch = value["epoch"]
        elif event.event == "STEP_END":
            data = {name: value[key] for key, name in self.NAMES.items()}
            self._log(event, [value["epoch"], value["step"]], {"rank": event.rank, **data})
        elif event.event == "EVALUATE":
            metrics = {
                f"val.{name}": number for name, number in value.items() if name not in ("step", "samples", "time")
            }
            self._log(event, [self._epoch, value["step"]], {"rank": event.rank, **metrics})
        elif event.event == "FINISHED":
            self._log(event, [], {key: number for key, number in value.items() if isinstance(number, (int, float))})

    def _metadata(self, event: Event, metric: str, metadata: Mapping[str, str]) -> None:
        self._line(event, {"type": "METADATA", "metric": metric, "metadata": metadata})

    def _log(self, event: Event, step: list[int], data: Mapping[str, Any]) -> None:
        text = {key: str(value) for key, value in data.items()}
        self._line(event, {"type": "LOG", "step": step, "data": str(text)})

    def _line(self, event: Event, body: Mapping[str, Any]) -> None:
        if self._began is None:
            self._began = event.time_ms
        moment = event.time_ms / 1000
        times = {
            "timestamp": str(moment),
            "datetime": datetime.fromtimestamp(moment).isoformat(" ", "microseconds"),
            "elapsedtime": str((event.time_ms - self._began) / 1000),
        }
        self.line("TCAPPDLL", {**times, **body})
