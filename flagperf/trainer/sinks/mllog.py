"""MLPerf's log lines, with the keys that its compliance checker reads (github.com/mlcommons/logging)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from flagperf.contract.mesh import DATA_PARALLEL, Mesh
from flagperf.contract.perflog import Event
from flagperf.contract.sample_data import is_sample_data
from flagperf.errors import ConfigError
from flagperf.trainer.sinks.lines import LineFile

# How a hyper-parameter is computed from several settings.
COMPUTED: Mapping[str, Callable[..., float]] = {
    "product": lambda *values: float(f"{math.prod(values):.12g}"),  # 8e-05, not 8.000000000000001e-05
    "difference": lambda minuend, subtrahend: minuend - subtrahend,
}
FORMATS = {"fp32": "fp32", "tf32": "tf32", "amp_fp16": "fp16", "amp_bf16": "bfloat16"}  # precision → MLPerf's name


class MLLog(LineFile):
    """Writes mllog.log, with true values only. A log that the checker accepts is not yet a result of MLPerf."""

    INTERVALS: ClassVar = {
        "INIT_START": ("init_start", "INTERVAL_START"),
        "INIT_END": ("init_stop", "INTERVAL_END"),
        "TRAIN_START": ("run_start", "INTERVAL_START"),
        "EPOCH_BEGIN": ("epoch_start", "INTERVAL_START"),
        "EPOCH_END": ("epoch_stop", "INTERVAL_END"),
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "mllog.log")
        self._config: Mapping[str, Any] = {}
        self._epoch = 0
        self._train_end = 0

    def write(self, event: Event) -> None:
        """Write the lines of an event: none, one or several."""
        value = event.value
        if event.event in self.INTERVALS:
            key, kind = self.INTERVALS[event.event]
            self._epoch = value.get("epoch", self._epoch)
            self._log(event, kind, key, metadata={"epoch_num": value["epoch"]} if "epoch" in value else {})
        elif event.event == "SUBMIT_INFO":
            self._config = value["config"]
            self._points(event, submission(self._config))
        elif event.event == "BUILT":
            self._points(event, built(value, self._config))
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

    def _points(self, event: Event, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self._log(event, "POINT_IN_TIME", key, value)

    def _evaluation(self, event: Event) -> None:
        value = event.value
        metadata = {"epoch_num": self._epoch, "samples_count": value["samples"], "step": value["step"]}
        began = event.time_ms - round(value["time"] * 1000)
        self._log(event, "INTERVAL_START", "eval_start", metadata=metadata, time_ms=began)
        if (accuracy := eval_accuracy(value, self._config)) is not None:
            self._log(event, "POINT_IN_TIME", "eval_accuracy", accuracy, metadata)
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
        source = {"file": event.file, "lineno": event.lineno, **(metadata or {})}
        self.line(":::MLLOG", {**body, "key": key, "value": value, "metadata": source})


def submission(config: Mapping[str, Any]) -> dict[str, Any]:
    """MLPerf's keys whose values the configuration gives; without keys that only the user knows and did not set."""
    mlperf = config["mlperf"]
    mesh = Mesh.of(config["parallel"]["mesh"], config["nnodes"] * config["nproc"])
    sample_data = is_sample_data(config["data_dir"])
    keys = {
        "submission_org": mlperf["org"],
        "submission_status": mlperf["status"],
        "submission_division": mlperf["division"],
        "submission_benchmark": mlperf.get("benchmark") or config["case"],
        "submission_platform": mlperf["platform"]
        or f"{config['nnodes']}x{config['nproc']} {config['hardware']['name']}",
        "flagperf_case": {
            **{key: config[key] for key in ("case", "revision", "size")},
            "framework": config["framework"]["name"],
            "sample_data": sample_data,
        },
        "cache_clear": config["clear_caches"] and not sample_data,  # which may have been written just now
        "seed": config["seed"],
        "global_batch_size": config["train_batch_size"] * config["gradient_accumulation_steps"] * mesh.data_ranks,
        "gradient_accumulation_steps": config["gradient_accumulation_steps"],
        "micro_batch_size": config["train_batch_size"],
        "opt_base_learning_rate": config["lr"],
        **_formats(config, mesh),
        "tensor_parallelism": mesh.tp,
        "pipeline_parallelism": mesh.pp,
        "context_parallelism": mesh.cp,
        "expert_parallelism": mesh.ep,
        "config_filename": "config.yaml",  # of the round
        **(_hyper_parameters(config) if config["division"] == "closed" else {}),  # open: any recipe
    }
    return {key: value for key, value in keys.items() if value is not None}


def _formats(config: Mapping[str, Any], mesh: Mesh) -> dict[str, str]:
    """The lowest number formats. DDP adds up gradients in fp32; a divided network travels in the layers' own format."""
    layers = FORMATS[config["precision"]]
    is_undivided = config["parallel"]["_target_"] in (None, *DATA_PARALLEL) and mesh.parts == 1
    sent = "fp32" if is_undivided or layers == "tf32" else layers
    formats = {"linear": "fp8" if config["float8_modules"] else layers, "attn": layers, "comm": sent}
    return {f"lowest_numerical_precision_in_{part}": name for part, name in formats.items()}


def _hyper_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """MLPerf's keys of the closed division, each with the value that the case describes."""
    named = config["mlperf"].get("hyper_parameters") or {}
    return {key: _hyper_parameter(key, entry, config) for key, entry in named.items()}


def _hyper_parameter(key: str, entry: Any, config: Mapping[str, Any]) -> Any:
    """The value of an entry: a setting by its name, a product or difference of settings, a text, or a number.

    Raises:
        ConfigError: the entry is none of these.
    """
    if isinstance(entry, str):
        return config.get(entry)
    if not isinstance(entry, Mapping):
        return entry
    try:
        ((form, argument),) = entry.items()
        return argument if form == "text" else COMPUTED[form](*(config[name] for name in argument))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            "this entry gives a hyper-parameter no value",
            where="config.yaml",
            key=f"mlperf.hyper_parameters.{key}",
            given=dict(entry),
            allowed="a setting, a number, {text: TEXT}, {product: [SETTINGS]} or {difference: [SETTING, SETTING]}",
        ) from error


def built(value: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """MLPerf's keys whose values BUILT gives: samples, optimizer, and samples per statistics of a batch norm."""
    keys = {f"{name}_samples": value["data"][name] for name in ("train", "eval") if name in value["data"]}
    keys["opt_name"] = _name(value["optimizer"]["class"]).lower()
    if any(_name(layer).startswith("BatchNorm") for layer in value["network"]["classes"]):
        ranks = config["nnodes"] * config["nproc"] if config["sync_bn"] else 1
        keys["model_bn_span"] = config["train_batch_size"] * ranks
    return keys


def _name(path: str) -> str:
    """The name of a class, without its module."""
    return path.rpartition(".")[2]


def eval_accuracy(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """The metrics of the benchmark as shares of 1: a number, or a number for each of MLPerf's names.

    None where an evaluation has none, and where the case has neither benchmark nor target.
    """
    target, mlperf = config["target"], config["mlperf"]
    names, factor = mlperf.get("accuracy") or (target and target["metric"]), mlperf.get("factor", 1)
    if isinstance(names, Mapping):
        return {name: metrics[metric] * factor for name, metric in names.items() if metric in metrics} or None
    return metrics[names] * factor if names in metrics else None
