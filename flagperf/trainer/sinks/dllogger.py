"""The JSON lines of Tecorigin's tcap_dllogger: NVIDIA's DLLogger with another prefix."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from flagperf.contract.perflog import Event
from flagperf.trainer.sinks.lines import LineFile

LOWER_IS_BETTER, HIGHER_IS_BETTER = "MINIMIZE", "MAXIMIZE"
FIGURES = {  # of FINISHED → unit, None: that of the throughput; and which way is better
    "e2e_time": ("s", LOWER_IS_BETTER),
    "raw_train_time": ("s", LOWER_IS_BETTER),
    "train_no_eval_time": ("s", LOWER_IS_BETTER),
    "pure_training_computing_time": ("s", LOWER_IS_BETTER),
    "p_whole": (None, HIGHER_IS_BETTER),
    "p_train": (None, HIGHER_IS_BETTER),
    "p_core": (None, HIGHER_IS_BETTER),
    "steady_throughput": (None, HIGHER_IS_BETTER),
    "mfu": ("", HIGHER_IS_BETTER),
    "peak_memory": ("GiB", LOWER_IS_BETTER),
}


class DLLogger(LineFile):
    """Writes dllogger.json: values as text, `step` as [epoch, step], the names that tcap_dllogger's tools read.

    A METADATA line describes each metric before the first line with its value; those of steps and of the target
    come at the start.
    """

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
        self._config: Mapping[str, Any] = {}
        self._described: set[str] = set()

    def write(self, event: Event) -> None:
        """Write a line for each logged step, each evaluation and the end, after the description of its metrics."""
        value = event.value
        if event.event == "SUBMIT_INFO":
            self._config = value["config"]
            self._describe(event, "train.loss", "", LOWER_IS_BETTER)
            self._describe(event, "train.ips", self._config["throughput_unit"], HIGHER_IS_BETTER)
            self._describe(event, "train.total_time", "s", LOWER_IS_BETTER)
            self._describe(event, "train.learning_rate", "", HIGHER_IS_BETTER)
            for name in self._aims():
                self._describe_metric(event, f"val.{name}", name)
        elif event.event == "EPOCH_BEGIN":
            self._epoch = value["epoch"]
        elif event.event == "STEP_END":
            data = {name: value[key] for key, name in self.NAMES.items()}
            self._log(event, [value["epoch"], value["step"]], {"rank": event.rank, **data})
        elif event.event == "EVALUATE":
            metrics = {name: number for name, number in value.items() if name not in ("step", "samples", "time")}
            for name in metrics:
                self._describe_metric(event, f"val.{name}", name)
            data = {f"val.{name}": number for name, number in metrics.items()}
            self._log(event, [self._epoch, value["step"]], {"rank": event.rank, **data})
        elif event.event == "FINISHED":
            self._summarize(event)

    def _summarize(self, event: Event) -> None:
        """Write the known figures of the whole training."""
        known = {key: number for key, number in event.value.items() if isinstance(number, (int, float))}
        finals = [key for key in known if key.startswith("final_")]
        figures = [key for key in FIGURES if key in known]
        for key in figures:
            unit, goal = FIGURES[key]
            self._describe(event, key, self._config["throughput_unit"] if unit is None else unit, goal)
        for key in finals:
            self._describe_metric(event, key, key[len("final_") :])
        values = {key: known[key] for key in (*figures, *finals)}
        self._log(event, [], {"converged": event.value.get("converged"), **values})

    def _aims(self) -> list[str]:
        """The metrics of the case's target."""
        target = self._config.get("target")
        return [target["metric"], *(target.get("also") or {})] if target else []

    def _describe_metric(self, event: Event, metric: str, name: str) -> None:
        """Describe a metric of the case. The target gives its direction; without a target a loss falls, others rise."""
        aimed = name in self._aims()
        lower = self._config["target"]["direction"] == "lower" if aimed else "loss" in name
        unit = (self._config["target"].get("unit") or "") if aimed else ""
        goal = LOWER_IS_BETTER if lower else HIGHER_IS_BETTER
        self._describe(event, metric, unit, goal, "TRAIN" if name == "loss" else "VALID")

    def _describe(self, event: Event, metric: str, unit: str, goal: str, stage: str = "TRAIN") -> None:
        if metric in self._described:
            return
        self._described.add(metric)
        metadata = {"unit": unit, "format": ":.6g", "GOAL": goal, "STAGE": stage}
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
