"""Other log formats beside PerfLog, written by rank 0 into the log folder from the same events.

mllog        mllog.log         MLPerf's `:::MLLOG` lines, keys of github.com/mlcommons/logging
dllogger     dllogger.json     the JSON lines of Tecorigin's tcap_dllogger, NVIDIA's DLLogger with another prefix
tensorboard  tensorboard/      scalars, by torch.utils.tensorboard
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from flagperf.perflog import Event, Sink


def open_sinks(names: Sequence[str], rank: int, folder: str | None) -> list[Sink]:
    """The chosen sinks, on rank 0; none on others. Their files lie in `folder`, or here where it is None."""
    kinds: dict[str, type[MLLog] | type[DLLogger] | type[TensorBoard]]
    kinds = {"mllog": MLLog, "dllogger": DLLogger, "tensorboard": TensorBoard}
    return [kinds[name](Path(folder or ".")) for name in names] if rank == 0 else []


class _Lines:
    """A file that takes whole lines, complete even when the process is killed."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def line(self, prefix: str, body: Mapping[str, Any]) -> None:
        data = f"{prefix} {json.dumps(body)}\n".encode()
        while data:
            data = data[os.write(self._fd, data) :]


class MLLog(_Lines):
    """MLPerf's log lines. They follow its format, which alone makes no result of MLPerf."""

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


class DLLogger(_Lines):
    """tcap_dllogger's JSON stream: values as text, `step` as [epoch, step], names that its tools look for."""

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


class TensorBoard:
    """Scalars by step: train/<name> of STEP_END, eval/<metric> of EVALUATE."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, event: Event) -> None:
        """One event; flushed at the end."""
        groups = {"STEP_END": "train", "EVALUATE": "eval"}
        if event.event in groups:
            for name, value in event.value.items():
                if name not in ("step", "epoch", "samples", "time"):
                    tag = f"{groups[event.event]}/{name}"
                    self._writer.add_scalar(tag, value, event.value["step"], walltime=event.time_ms / 1000)
        elif event.event == "FINISHED":
            self._writer.close()
