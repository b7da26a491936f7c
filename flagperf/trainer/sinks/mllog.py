"""MLPerf's log lines, with the keys of github.com/mlcommons/logging."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from flagperf.perflog import Event
from flagperf.trainer.sinks.lines import LineFile


class MLLog(LineFile):
    """Writes mllog.log. Its lines have the format of MLPerf's; the format alone makes no result of MLPerf."""

    INTERVALS: ClassVar = {
        "INIT_START": ("init_start", "INTERVAL_START"),
        "INIT_END": ("init_stop", "INTERVAL_END"),
        "TRAIN_START": ("run_start", "INTERVAL_START"),
        "EPOCH_BEGIN": ("epoch_start", "INTERVAL_START"),
        "EPOCH_END": ("epoch_stop", "INTERVAL_END"),
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "mllog.log")
        self._metric: str | None = None
        self._train_end = 0

    def write(self, event: Event) -> None:
        """One event, as no, one or several lines."""
        value = event.value
        if event.event in self.INTERVALS:
            key, kind = self.INTERVALS[event.event]
            self._log(event, kind, key, metadata={"epoch_num": value["epoch"]} if "epoch" in value else {})
        elif event.event == "SUBMIT_INFO":
            self._submission(event, value["config"])
        elif event.event == "STEP_END":
            stats = {name: value[name] for name in ("throughput", "loss", "learning_rate")}
            metadata = {"step": value["step"], "epoch_num": value["epoch"]}
            self._log(event, "POINT_IN_TIME", "tracked_stats", stats, metadata)
        elif event.event == "EVALUATE":
            self._evaluation(event)
        elif event.event == "TRAIN_END":
            self._train_end = event.time_ms
        elif event.event == "FINISHED":
            status = {"status": "success" if value["converged"] else "aborted"}
            self._log(event, "INTERVAL_END", "run_stop", metadata=status, time_ms=self._train_end)

    def _submission(self, event: Event, config: Mapping[str, Any]) -> None:
        self._metric = config["target"]["metric"] if config["target"] else None
        ranks = config["nnodes"] * config["nproc"]
        batch = config["train_batch_size"] * config["gradient_accumulation_steps"] * ranks
        for key, value in {
            "submission_benchmark": config["case"],
            "submission_division": config["division"],
            "submission_platform": f"{config['nnodes']}x{config['nproc']} {config['hardware']['name']}",
            "seed": config["seed"],
            "global_batch_size": batch,
            "gradient_accumulation_steps": config["gradient_accumulation_steps"],
            "opt_base_learning_rate": config["lr"],
        }.items():
            self._log(event, "POINT_IN_TIME", key, value)

    def _evaluation(self, event: Event) -> None:
        value = event.value
        metadata = {"samples_count": value["samples"], "step": value["step"]}
        began = event.time_ms - round(value["time"] * 1000)
        self._log(event, "INTERVAL_START", "eval_start", metadata=metadata, time_ms=began)
        if self._metric is not None and self._metric in value:
            self._log(event, "POINT_IN_TIME", "eval_accuracy", value[self._metric], metadata)
        self._log(event, "INTERVAL_END", "eval_stop", metadata=metadata)

    def _log(
        self,
        event: Event,
        kind: str,
        key: str,
        value: Any = None,
        metadata: Mapping[str, Any] | None = None,
        time_ms: int | None = None,
    ) -> None:
        body = {"namespace": "", "time_ms": event.time_ms if time_ms is None else time_ms, "event_type": kind}
        place = {"file": event.file, "lineno": event.lineno, **(metadata or {})}
        self.line(":::MLLOG", {**body, "key": key, "value": value, "metadata": place})
