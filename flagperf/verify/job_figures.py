"""Recomputes the figures of a whole job from the figures and the events of its ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from flagperf.verify.logs import Round
from flagperf.verify.rank_figures import steady as after_warmup
from flagperf.verify.rank_figures import stretches
from flagperf.verify.target import is_reached, metrics, stop_reasons
from flagperf.verify.values import Derivation, Row, UnknownError, compare_all, same

FORMULAS = {"formula_flops_6n": "mfu_6n", "formula_flops_causal": "mfu_causal", "formula_flops": "mfu_formula"}
PEAKS = {"fp32": "fp32", "tf32": "tf32", "amp_fp16": "fp16", "amp_bf16": "bf16"}  # precision → format of the peak


def _of_each_rank(round_: Round, name: str) -> list[Any]:
    return [figures[name] for figures in round_.measured]


def _slowest(name: str) -> Callable[[Round], Any]:
    return lambda round_: max((value for value in _of_each_rank(round_, name) if value is not None), default=None)


def _sum(name: str) -> Callable[[Round], Any]:
    return lambda round_: sum(_of_each_rank(round_, name))


def _without_evaluation(round_: Round) -> float:
    def seconds(rank: Mapping[str, Any]) -> float:
        return float(rank["raw_train_time"] - rank["eval_time"] - rank["checkpoint_time"])

    return max(map(seconds, round_.measured))


def _rate(count: Callable[[Round], Any], seconds: Callable[[Round], Any]) -> Callable[[Round], float | None]:
    def rate(round_: Round) -> float | None:
        amount, time = count(round_), seconds(round_)
        return amount / time if amount and time > 0 else None

    return rate


def _units_by_steps(round_: Round) -> int:
    """Units of the whole job, from the steps of rank 0."""
    return round(sum(stretch.units for stretch in stretches(round_.ranks[0])))


def _steady_by_steps(round_: Round) -> float | None:
    """Throughput of the steps after the warm-up: the units of the job over the seconds of the slowest rank."""
    try:
        ranks = [after_warmup(rank) for rank in round_.ranks]
    except UnknownError:  # the last step of a rank was not logged
        return _rate(_sum("steady_units"), _slowest("steady_time"))(round_)
    if not all(ranks):
        return None
    units = round(sum(stretch.units for stretch in ranks[0]))
    return units / max(sum(stretch.seconds for stretch in rank) for rank in ranks)


def _configured(name: str) -> Callable[[Round], Any]:
    """The derivation of a field of the configuration."""
    return lambda round_: round_.config[name]


def _built(*keys: str) -> Callable[[Round], Any]:
    """The derivation of a field of BUILT."""

    def field(round_: Round) -> Any:
        value: Any = round_.ranks[0].last("BUILT").value
        for key in keys:
            value = value[key]
        return value

    return field


def _frozen(round_: Round) -> Any:
    """The checksum of the frozen weights at the start; None where nothing is frozen."""
    return (round_.ranks[0].last("BUILT").value.get("frozen") or {}).get("checksum")


def _peak(round_: Round) -> Any:
    """The peak of one device in the precision of the training; None where config.yaml has no such peak."""
    number_format = "fp8" if round_.config.get("float8_modules") else PEAKS[round_.config["precision"]]
    return (round_.config["hardware"].get("peak_flops") or {}).get(number_format)


def _throughput(round_: Round) -> float | None:
    """Throughput of the steps after the warm-up, or of all steps."""
    steady = _rate(_sum("steady_units"), _slowest("steady_time"))(round_)
    return steady or _rate(_sum("units"), _without_evaluation)(round_)


def _mfu_by(formula: str, figure: str) -> Callable[[Round], float | None]:
    """The derivation of the MFU by a formula of the task."""

    def mfu(round_: Round) -> float | None:
        peak, operations, rate = _peak(round_), round_.figures.get(formula), _throughput(round_)
        if operations is None or (peak is None and round_.figures.get(figure) is None):
            return None
        if peak is None:
            raise UnknownError("config.yaml has no peak of the device in this precision")
        return None if rate is None else float(operations) * rate / (float(peak) * len(round_.ranks))

    return mfu


def _recomputes(round_: Round) -> bool:
    keeps = round_.config.get("checkpoint_keeps", "nothing")
    return bool(round_.config.get("activation_checkpointing")) and keeps == "nothing"


def _hfu(round_: Round) -> float | None:
    return _mfu(round_) if _recomputes(round_) else None


def _mfu(round_: Round) -> float | None:
    figures, peak = round_.figures, _peak(round_)
    if figures.get("mfu") is None and (peak is None or figures.get("flops_per_sample") is None):
        return None
    if peak is None:
        raise UnknownError("config.yaml has no peak of the device in this precision")
    if _sum("units")(round_) != _sum("samples")(round_):
        raise UnknownError("the operations of a unit are not logged, and units are not samples here")
    frozen = bool((round_.config.get("adapter") or {}).get("modules"))  # no gradients of the layers' weights
    passes = 2 + (not frozen) + _recomputes(round_)
    rate = _throughput(round_)
    if rate is None:
        return None
    return float(figures["flops_per_sample"]) * passes * rate / (float(peak) * len(round_.ranks))


def _communication_wait(round_: Round) -> float | None:
    waits = [wait for wait in _of_each_rank(round_, "communication_wait") if wait is not None]
    return sum(waits) / len(waits) if waits else None


def _global_samples(round_: Round) -> Any:
    evaluations = round_.ranks[0].all("EVALUATE")
    if evaluations and evaluations[-1].value["step"] == round_.figures["global_steps"]:
        return evaluations[-1].value["samples"]
    if round_.figures.get("resumed_from_step") is None:
        return _sum("samples")(round_)
    raise UnknownError("the training was resumed, and its last step was not evaluated")


def _epochs(round_: Round) -> int:
    last, stated = round_.ranks[0].last("EPOCH_END").value["epoch"], round_.figures["epochs"]
    if stated in (last - 1, last):
        raise UnknownError(f"the last EPOCH_END is of epoch {last}, which may have been cut short")
    return int(last)


def _stop_reason(round_: Round) -> str:
    possible, stated = stop_reasons(round_), round_.figures.get("stop_reason")
    return str(stated) if stated in possible else " or ".join(possible) or "none of its limits"


def _final_loss(round_: Round) -> Any:
    losses = [event.value["loss"] for event in round_.ranks[0].all("STEP_END")]
    not_finite = [loss for loss in losses if not same(loss - loss, 0.0)]
    return (not_finite or losses[-1:])[0]


def _pipeline_bubble(round_: Round) -> float | None:
    """The share of a step in which a rank waits for the first and the last stage, if all stages take equally long."""
    config = round_.config
    sizes = config["parallel"]["mesh"]
    ranks = sizes.get("pp", 1)
    if ranks == -1:
        ranks = -config["nnodes"] * config["nproc"] // math.prod(sizes.values())
    computed = config["parallel"].get("stages", 1) * config["gradient_accumulation_steps"]
    return (ranks - 1) / (computed + ranks - 1) if ranks > 1 else None


UNITS, SAMPLES = _sum("units"), _sum("samples")
SLOWEST = "the largest figure of the ranks"
JOB_FIGURES: Mapping[str, Derivation] = {
    "e2e_time": Derivation(_slowest("e2e_time"), SLOWEST),
    "init_time": Derivation(_slowest("init_time"), SLOWEST),
    "raw_train_time": Derivation(_slowest("raw_train_time"), SLOWEST),
    "train_no_eval_time": Derivation(_without_evaluation, f"{SLOWEST}, without evaluation and checkpoints"),
    "pure_training_computing_time": Derivation(_slowest("compute_time"), SLOWEST),
    "training_sequences_per_second": Derivation(
        _rate(SAMPLES, _slowest("raw_train_time")), "samples over raw_train_time"
    ),
    "p_whole": Derivation(_rate(_units_by_steps, _slowest("raw_train_time")), "units of STEP_ENDs over raw_train_time"),
    "p_train": Derivation(_rate(_units_by_steps, _without_evaluation), "units of STEP_ENDs over train_no_eval_time"),
    "p_core": Derivation(_rate(_units_by_steps, _slowest("compute_time")), "units of STEP_ENDs over compute_time"),
    "num_trained_samples": Derivation(SAMPLES, "the sum of the ranks' figures"),
    "num_trained_units": Derivation(_units_by_steps, "throughput x time of the STEP_ENDs"),
    "steady_throughput": Derivation(_steady_by_steps, "STEP_ENDs after the warm-up, or the figures of the ranks"),
    "step_time_p50": Derivation(_slowest("step_time_p50"), SLOWEST),
    "step_time_p90": Derivation(_slowest("step_time_p90"), SLOWEST),
    "step_time_p99": Derivation(_slowest("step_time_p99"), SLOWEST),
    "data_wait": Derivation(
        lambda round_: sum(_of_each_rank(round_, "data_wait")) / len(round_.measured), "the mean of the ranks' figures"
    ),
    "communication_wait": Derivation(_communication_wait, "the mean of the ranks' figures"),
    "eval_time": Derivation(_slowest("eval_time"), SLOWEST),
    "checkpoint_time": Derivation(_slowest("checkpoint_time"), SLOWEST),
    "peak_memory": Derivation(_slowest("peak_memory"), SLOWEST),
    "global_steps": Derivation(lambda round_: stretches(round_.ranks[0])[-1].last, "number of the last STEP_END"),
    "global_samples": Derivation(_global_samples, "the last EVALUATE, or samples of the ranks"),
    "epochs": Derivation(_epochs, "EPOCH_END"),
    "converged": Derivation(
        lambda round_: is_reached(round_.figures.get("target"), metrics(round_)), "the last EVALUATE"
    ),
    "stop_reason": Derivation(_stop_reason, "the last EVALUATE and the limits of config.yaml"),
    "final_loss": Derivation(_final_loss, "the last STEP_END"),
    "mfu": Derivation(_mfu, "flops_per_sample x passes x throughput over the peak of config.yaml"),
    "hfu": Derivation(_hfu, "mfu, where the configuration recomputes activations"),
    **{
        figure: Derivation(_mfu_by(formula, figure), f"{formula} x throughput over the peak of config.yaml")
        for formula, figure in FORMULAS.items()
    },
    "pipeline_bubble": Derivation(_pipeline_bubble, "ranks along pp, stages and micro steps of config.yaml"),
    "parameters": Derivation(_built("network", "parameters"), "BUILT"),
    "frozen_checksum": Derivation(_frozen, "BUILT: frozen weights do not change"),
    "device_name": Derivation(_built("device_name"), "BUILT"),
    "throughput_unit": Derivation(_configured("throughput_unit"), "config.yaml"),
    "precision": Derivation(_configured("precision"), "config.yaml"),
    "warmup_steps": Derivation(_configured("warmup_steps"), "config.yaml"),
    "synthetic": Derivation(_configured("synthetic"), "config.yaml"),
}
WHY_NOT = {
    **dict.fromkeys(("flops_per_sample", "example_flops"), "the process counts the operations; the logs do not"),
    **dict.fromkeys(FORMULAS, "only the process knows the formula of the task"),
    **dict.fromkeys(("mfu_note", "example_note", "versions"), "a text, not a figure"),
    "resumed_from_step": "only the process knows the checkpoint of its start",
    "peak_memory_kind": "only the process knows which memory it measured",
    "clock": "only the process knows its clock",
    "sample_data": "the logs do not contain the data",
    "target": "each training decides its target by its data",
}
OF_RANKS = "ranks"  # the figures of the ranks have their own rows


def job_rows(location: str, round_: Round) -> Iterator[Row]:
    """One row for each field of FINISHED that result.json states."""
    stated = round_.figures
    derivations = {**JOB_FIGURES, **_final_metrics(stated)}
    yield from compare_all(location, stated, derivations, round_)
    for figure, value in stated.items():
        if figure not in derivations and figure != OF_RANKS:
            why = WHY_NOT.get(figure, "flagperf verify does not know this figure")
            yield Row(location, figure, value, None, "not recomputed", why)


def _final_metrics(stated: Mapping[str, Any]) -> dict[str, Derivation]:
    """The derivations of final_<metric>, from the last evaluation."""
    names = [name.removeprefix("final_") for name in stated if name.startswith("final_") and name != "final_loss"]
    return {f"final_{name}": Derivation(partial(_final_metric, name), "the last EVALUATE") for name in names}


def _final_metric(name: str, round_: Round) -> Any:
    measured = metrics(round_)
    if name == "accuracy" and name not in measured:
        target_metric = (round_.config.get("target") or {}).get("metric")
        accuracies = [metric for metric in measured if metric.startswith("acc") or metric.endswith("accuracy")]
        name = target_metric if target_metric in accuracies else accuracies[0] if accuracies else name
    return measured.get(name)
