"""The figures of a whole job, from what its ranks measured and from their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from flagperf.verify.logs import Round
from flagperf.verify.of_ranks import steady as after_warmup
from flagperf.verify.of_ranks import stretches
from flagperf.verify.target import is_reached, metrics, stop_reasons
from flagperf.verify.values import Derivation, Row, UnknownError, rows, same

PEAKS = {"fp32": "fp32", "tf32": "tf32", "amp_fp16": "fp16", "amp_bf16": "bf16"}  # precision → format of its peak


def _each(round_: Round, name: str) -> list[Any]:
    return [own[name] for own in round_.measured]


def _slowest(name: str) -> Callable[[Round], Any]:
    return lambda round_: max((value for value in _each(round_, name) if value is not None), default=None)


def _sum(name: str) -> Callable[[Round], Any]:
    return lambda round_: sum(_each(round_, name))


def _without_evaluation(round_: Round) -> float:
    return max(float(own["raw_train_time"] - own["eval_time"] - own["checkpoint_time"]) for own in round_.measured)


def _rate(count: Callable[[Round], Any], seconds: Callable[[Round], Any]) -> Callable[[Round], float | None]:
    def rate(round_: Round) -> float | None:
        amount, time = count(round_), seconds(round_)
        return amount / time if amount and time > 0 else None

    return rate


def _units_by_steps(round_: Round) -> int:
    """Units of the whole job, which each rank's steps tell."""
    return round(sum(one.units for one in stretches(round_.ranks[0])))


def _steady_by_steps(round_: Round) -> float | None:
    """The rate of the steps after the warm-up; units are those of the job, seconds those of the slowest rank."""
    try:
        found = [after_warmup(rank) for rank in round_.ranks]
    except UnknownError:  # its last step was not logged
        return _rate(_sum("steady_units"), _slowest("steady_time"))(round_)
    if not all(found):
        return None
    units = round(sum(one.units for one in found[0]))
    return units / max(sum(one.seconds for one in of_rank) for of_rank in found)


def _first(name: str) -> Callable[[Round], Any]:
    """A field of the configuration."""
    return lambda round_: round_.config[name]


def _built(*names: str) -> Callable[[Round], Any]:
    def found(round_: Round) -> Any:
        value: Any = round_.ranks[0].last("BUILT").value
        for name in names:
            value = value[name]
        return value

    return found


def _peak(round_: Round) -> Any:
    """Of one device in the precision of the training, where config.yaml holds it."""
    name = "fp8" if round_.config.get("float8_modules") else PEAKS[round_.config["precision"]]
    return (round_.config["hardware"].get("peak_flops") or {}).get(name)


def _throughput(round_: Round) -> float | None:
    """Of the steps after the warm-up, or of all."""
    steady = _rate(_sum("steady_units"), _slowest("steady_time"))(round_)
    return steady or _rate(_sum("units"), _without_evaluation)(round_)


def _mfu_formula(round_: Round) -> float | None:
    peak, operations, rate = _peak(round_), round_.figures.get("formula_flops"), _throughput(round_)
    if operations is None or (peak is None and round_.figures.get("mfu_formula") is None):
        return None
    if peak is None:
        raise UnknownError("config.yaml holds no peak of the device in this precision")
    return None if rate is None else float(operations) * rate / (float(peak) * len(round_.ranks))


def _mfu(round_: Round) -> float | None:
    figures, config, peak = round_.figures, round_.config, _peak(round_)
    if figures.get("mfu") is None and (peak is None or figures.get("flops_per_sample") is None):
        return None
    if peak is None:
        raise UnknownError("config.yaml holds no peak of the device in this precision")
    if _sum("units")(round_) != _sum("samples")(round_):
        raise UnknownError("the operations of a unit are not logged, and units are not samples here")
    again = config.get("activation_checkpointing") and config.get("checkpoint_keeps", "nothing") == "nothing"
    passes = 4 if again else 3
    rate = _throughput(round_)
    if rate is None:
        return None
    return float(figures["flops_per_sample"]) * passes * rate / (float(peak) * len(round_.ranks))


def _global_samples(round_: Round) -> Any:
    found = round_.ranks[0].all("EVALUATE")
    if found and found[-1].value["step"] == round_.figures["global_steps"]:
        return found[-1].value["samples"]
    if round_.figures.get("resumed_from_step") is None:
        return _sum("samples")(round_)
    raise UnknownError("the training was resumed, and not evaluated after its last step")


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
    endless = [loss for loss in losses if not same(loss - loss, 0.0)]
    return (endless or losses[-1:])[0]


UNITS, SAMPLES = _sum("units"), _sum("samples")
RANKS = "of what the ranks measured"
OF_A_JOB: Mapping[str, Derivation] = {
    "e2e_time": Derivation(_slowest("e2e_time"), f"the most {RANKS}"),
    "init_time": Derivation(_slowest("init_time"), f"the most {RANKS}"),
    "raw_train_time": Derivation(_slowest("raw_train_time"), f"the most {RANKS}"),
    "train_no_eval_time": Derivation(_without_evaluation, f"{RANKS}, without evaluation and checkpoints"),
    "pure_training_computing_time": Derivation(_slowest("compute_time"), f"the most {RANKS}"),
    "training_sequences_per_second": Derivation(
        _rate(SAMPLES, _slowest("raw_train_time")), "samples over raw_train_time"
    ),
    "p_whole": Derivation(_rate(_units_by_steps, _slowest("raw_train_time")), "units of STEP_ENDs over raw_train_time"),
    "p_train": Derivation(_rate(_units_by_steps, _without_evaluation), "units of STEP_ENDs over train_no_eval_time"),
    "p_core": Derivation(_rate(_units_by_steps, _slowest("compute_time")), "units of STEP_ENDs over compute_time"),
    "num_trained_samples": Derivation(SAMPLES, f"the sum {RANKS}"),
    "num_trained_units": Derivation(_units_by_steps, "throughput x time of the STEP_ENDs"),
    "steady_throughput": Derivation(_steady_by_steps, "STEP_ENDs after the warm-up, or else what the ranks measured"),
    "step_time_p50": Derivation(_slowest("step_time_p50"), f"the most {RANKS}"),
    "step_time_p90": Derivation(_slowest("step_time_p90"), f"the most {RANKS}"),
    "step_time_p99": Derivation(_slowest("step_time_p99"), f"the most {RANKS}"),
    "data_wait": Derivation(lambda round_: sum(_each(round_, "data_wait")) / len(round_.measured), f"the mean {RANKS}"),
    "eval_time": Derivation(_slowest("eval_time"), f"the most {RANKS}"),
    "checkpoint_time": Derivation(_slowest("checkpoint_time"), f"the most {RANKS}"),
    "peak_memory": Derivation(_slowest("peak_memory"), f"the most {RANKS}"),
    "global_steps": Derivation(lambda round_: stretches(round_.ranks[0])[-1].last, "number of the last STEP_END"),
    "global_samples": Derivation(_global_samples, "the last EVALUATE, or samples of the ranks"),
    "epochs": Derivation(_epochs, "EPOCH_END"),
    "converged": Derivation(
        lambda round_: is_reached(round_.figures.get("target"), metrics(round_)), "the last EVALUATE"
    ),
    "stop_reason": Derivation(_stop_reason, "the last EVALUATE and the limits of config.yaml"),
    "final_loss": Derivation(_final_loss, "the last STEP_END"),
    "mfu": Derivation(_mfu, "flops_per_sample x passes x throughput over the peak of config.yaml"),
    "mfu_formula": Derivation(_mfu_formula, "formula_flops x throughput over the peak of config.yaml"),
    "parameters": Derivation(_built("network", "parameters"), "BUILT"),
    "device_name": Derivation(_built("device_name"), "BUILT"),
    "throughput_unit": Derivation(_first("throughput_unit"), "config.yaml"),
    "precision": Derivation(_first("precision"), "config.yaml"),
    "warmup_steps": Derivation(_first("warmup_steps"), "config.yaml"),
    "synthetic": Derivation(_first("synthetic"), "config.yaml"),
}
WHY_NOT = {
    **dict.fromkeys(("flops_per_sample", "example_flops"), "operations are counted inside the process"),
    **dict.fromkeys(("formula_flops", "formula_flops_causal"), "the task's formula is known inside the process"),
    **dict.fromkeys(("mfu_note", "example_note", "versions"), "a text, and no figure"),
    "resumed_from_step": "only the process knows from which checkpoint it went on",
    "peak_memory_kind": "which memory was measured, only the process knows",
    "clock": "which clock was used, only the process knows",
    "sample_data": "the data itself is not in the logs",
    "target": "what the target was, each training decides by its data",
}
OF_RANKS = "ranks"  # each of these has a row of its own


def rows_of_job(place: str, round_: Round) -> Iterator[Row]:
    """A row for each field of FINISHED that result.json states."""
    stated = round_.figures
    ways = {**OF_A_JOB, **_finals(stated)}
    yield from rows(place, stated, ways, round_)
    for figure, value in stated.items():
        if figure not in ways and figure != OF_RANKS:
            yield Row(place, figure, value, None, "not recomputed", WHY_NOT.get(figure, "it is not known how"))


def _finals(stated: Mapping[str, Any]) -> dict[str, Derivation]:
    """final_<metric> of the last evaluation."""
    names = [name.removeprefix("final_") for name in stated if name.startswith("final_") and name != "final_loss"]
    return {f"final_{name}": Derivation(partial(_final, name), "the last EVALUATE") for name in names}


def _final(name: str, round_: Round) -> Any:
    found = metrics(round_)
    if name == "accuracy" and name not in found:
        wanted = (round_.config.get("target") or {}).get("metric")
        names = [one for one in found if one.startswith("acc") or one.endswith("accuracy")]
        name = wanted if wanted in names else names[0] if names else name
    return found.get(name)
