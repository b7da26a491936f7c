"""The tables of a job: statistics, rounds, changes, monitors. A row is column → text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flagperf.contract.monitor_log import DEVICE_FIGURES, NODE_FIGURES
from flagperf.contract.records import Result, Summary
from flagperf.report.cells import ABSENT, number, percent
from flagperf.results.summary import RATES, STEPS, UTILISATIONS, metric

MONITORED = {name: figure for name, figure in {**NODE_FIGURES, **DEVICE_FIGURES}.items() if figure.title}

ENERGIES = {"node": "whole nodes", "rapl": "processors and main memory", "devices": "accelerators"}
FORMULAS = (  # operations of a unit's training, the MFU by them, and the definition
    ("formula_flops_6n", "mfu_6n", "by 6N"),
    ("formula_flops_causal", "mfu_causal", "with causal attention"),
    ("formula_flops", "mfu_formula", "with full attention"),
)
PERCENTILES = ("p50", "p90", "p99")  # of the times of a round's steps
SHARES = " / ".join(PERCENTILES)


def statistics_rows(summary: Summary) -> list[dict[str, str]]:
    """A row for each figure, with its statistics over the rounds that count."""
    units = figure_units(summary)
    return [
        {
            "figure": name,
            "unit": units.get(name, ""),
            "n": str(figure.n),
            "mean": value(name, figure.mean),
            "stdev": value(name, figure.stdev, 3),
            "cv": percent(figure.cv),
            "min": value(name, figure.min),
            "max": value(name, figure.max),
        }
        for name, figure in summary.statistics.items()
    ]


def value(name: str, figure: float | None, digits: int = 4) -> str:
    """A figure of the statistics as text: a utilisation in percent, others as numbers."""
    return percent(figure) if name in UTILISATIONS else number(figure, digits)


def figure_units(summary: Summary) -> dict[str, str]:
    """Unit of each figure of the statistics."""
    rate = summary.identity.throughput_unit
    units = {"e2e_time": "s", "peak_memory": "GiB", STEPS: "steps"}
    units |= {**dict.fromkeys(UTILISATIONS, "of peak"), "mfu_achieved": "of achieved"}
    units |= dict.fromkeys((*RATES, "steady_throughput"), rate)
    name, results = metric(summary), summary.results
    return units | ({name: results[0].target.unit} if name and results[0].target else {})


def round_rows(summary: Summary) -> list[dict[str, str]]:
    """A row for each round, also for rounds that do not count."""
    return [
        {
            "round": str(result.round),
            "verdict": result.verdict,
            "seed": ABSENT if result.seed is None else str(result.seed),
            "ended by": str(result.values.get("stop_reason") or result.status),
            "steps": number(result.values.get("global_steps")),
            "samples": number(result.values.get("num_trained_samples")),
            "final loss": number(result.values.get("final_loss")),
            **{name: number(result.values.get(name)) for name in RATES},
            f"step {SHARES} [ms]": step_times(result),
            "init [s]": number(result.values.get("init_time"), 3),
            "evaluation [s]": number(result.values.get("eval_time"), 3),
            "data wait [s]": number(result.values.get("data_wait"), 3),
        }
        for result in summary.results
    ]


def change_rows(summary: Summary) -> list[dict[str, str]]:
    """A row for each value that differs from the case, with its source."""
    return [
        {"key": change.key, "case": _plain(change.before), "run": _plain(change.after), "set by": change.source}
        for change in summary.changes
    ]


def own_rows(summary: Summary) -> list[dict[str, str]]:
    """A row for each file, folder and variable of the user that took part, and that flagperf does not ship."""
    return [{"what": name, "which": value} for name, value in summary.config.get("own", {}).items()]


def _plain(value: Any) -> str:
    return "null" if value is None else str(value)


def monitor_rows(result: Result) -> list[dict[str, str]]:
    """A row for each node and figure of a round's monitors, over the training."""
    return [
        {
            "round": str(result.round),
            "node": node,
            "figure": figure.title,
            "unit": figure.shown,
            "mean": number(figure.factor * figures["mean"]),
            "max": number(figure.factor * figures["max"]),
            "coverage": _coverage(figures, devices),
        }
        for node, monitors in result.monitors.get("nodes", {}).items()
        for key, figures, devices in _monitor_figures(monitors)
        for figure in [MONITORED[key]]
    ]


def phase_rows(results: Iterable[Result]) -> list[dict[str, str]]:
    """Seconds of each phase of a round, on the node that took longest."""
    known = [result for result in results if result.phases]
    names = dict.fromkeys(name for result in known for phases in result.phases.values() for name in phases)
    return [
        {"round": str(result.round)} | {name: _longest(result.phases.values(), name) for name in names}
        for result in known
    ]


def _longest(nodes: Iterable[Mapping[str, float]], phase: str) -> str:
    seconds = [phases[phase] for phases in nodes if phase in phases]
    return f"{max(seconds):.2f}" if seconds else ABSENT


def _monitor_figures(monitors: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Name, values and number of devices of each figure of a node. The vendor's tool has several figures."""
    for name, known in monitors.items():
        parts = known if name not in NODE_FIGURES else {name: known}
        for part, figures in parts.items():
            if part in MONITORED and "mean" in figures:
                yield part, figures, known.get("devices", 0)


def _coverage(figures: Mapping[str, Any], devices: int) -> str:
    """The share of the time, and the number of devices with this figure where some lack it."""
    known = figures.get("devices", devices)
    return percent(figures.get("coverage")) + (f", {known} of {devices} devices" if known < devices else "")


def missing_monitors(results: Iterable[Result]) -> list[str]:
    """Lines on monitors without figures, with the reason, and on impossible values that were left out."""
    nodes = [item for result in results for item in result.monitors.get("nodes", {}).items()]
    left_out = [f"Left out on {node}: {text}" for node, monitors in nodes for text in _left_out(monitors)]
    missing = [(node, *entry) for node, monitors in nodes for entry in _missing(monitors)]
    return list(
        dict.fromkeys(
            [*(f"Not available on {node}: {figure} ({reason})" for node, figure, reason in missing), *left_out]
        )
    )


def _missing(monitors: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Figures that a node's monitors do not have, each with the reason."""
    for name, known in monitors.items():
        if "not_available" in known:
            yield MONITORED[name].title if name in MONITORED else name, known["not_available"]
        devices = known.get("devices", 0)
        known_devices = known.get("power", {}).get("devices", devices)
        if known_devices < devices:
            yield "energy of the accelerators", f"the power of {known_devices} of {devices} is known"


def _left_out(monitors: Mapping[str, Any]) -> Iterator[str]:
    """Texts on the impossible values of a node's monitors."""
    for name, known in monitors.items():
        counts = known.get("impossible") or {}
        for figure, count in counts.items() if isinstance(counts, Mapping) else [(name, counts)]:
            title = MONITORED[figure].title if figure in MONITORED else figure.replace("_", " ")
            yield f"{count} impossible value{'s' if count > 1 else ''} of {title}"


def energy_lines(results: Sequence[Result]) -> list[str]:
    """Lines on the energy of the whole job, and per sample. Rounds without it share a line for each reason."""
    lines: list[str] = []
    for kind, devices in ENERGIES.items():
        known = [(result.round, result.monitors.get("energy", {}).get(kind)) for result in results]
        missing: dict[str, list[int]] = {}
        for round_number, figures in known:
            if figures and "not_available" in figures:
                missing.setdefault(figures["not_available"], []).append(round_number)
        head = f"Energy of the training, {devices}"
        lines += [
            f"{head}, round {round_number}: {_energy(figures)}"
            for round_number, figures in known
            if figures and "not_available" not in figures
        ]
        lines += [f"{head}, {_rounds(numbers, len(results))}: not known on {why}" for why, numbers in missing.items()]
    return lines


def _rounds(numbers: Sequence[int], rounds: int) -> str:
    shown = f"round{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    return "all rounds" if len(numbers) == rounds > 1 else shown


def _energy(known: Mapping[str, Any]) -> str:
    text = f"{number(known['energy_wh'], 3)} Wh"
    if "energy_per_sample_j" in known:
        text += f", {number(known['energy_per_sample_j'], 3)} J a sample"
    if "energy_above_idle_j" in known:
        text += f"; above idle {number(known['energy_above_idle_j'] / 3600, 3)} Wh"
    return f"{text} (coverage {percent(known['coverage'])})"


def formula_lines(summary: Summary, results: Iterable[Result]) -> list[str]:
    """Lines on the throughput of a device, the operations of a unit and each MFU, for comparison with other tools."""
    unit, devices = summary.identity.throughput_unit, summary.identity.devices
    lines = []
    for result in results:
        values = result.values
        if values.get("formula_flops") is None:
            continue
        rate, counted = values.get("p_train"), number(_counted(result))
        flops = [f"{number(_billions(values.get(name)))} {definition}" for name, _, definition in FORMULAS]
        mfus = [f"{percent(values.get(name))} {definition}" for _, name, definition in FORMULAS]
        lines.append(
            f"Round {result.round}: {number(rate and rate / devices)} {unit} per device (p_train). "
            f"GFLOP to train one of the {unit.partition('/')[0]}: {', '.join(flops)}, {counted} as counted. "
            f"MFU: {', '.join(mfus)}, {_as_counted(result)}{_bubble(result)}"
        )
    return lines


def _bubble(result: Result) -> str:
    """The share of a step in which a rank of a pipeline waits, by the schedule."""
    share = result.values.get("pipeline_bubble")
    return "" if share is None else f". Pipeline bubble: {percent(share)} of a step by the schedule"


def _as_counted(result: Result) -> str:
    """The utilisation by the counted operations, which reports have in their column MFU."""
    if (hfu := result.values.get("hfu")) is not None:
        return f"as counted with recomputed activations {percent(hfu)} (HFU, in the column MFU)"
    return f"{percent(result.values.get('mfu'))} as counted (in the column MFU)"


def _billions(operations: float | None) -> float | None:
    return None if operations is None else operations / 1e9


def _counted(result: Result) -> float | None:
    """GFLOP of a unit's training, as counted. The backward pass takes twice the operations of the forward pass."""
    forward, samples = (result.values.get(name) for name in ("flops_per_sample", "num_trained_samples"))
    units = result.values.get("num_trained_units")
    return 3 * forward * samples / units / 1e9 if forward and samples and units else None


def step_times(result: Result) -> str:
    """The percentiles of a round's step time, in ms."""
    if all(result.values.get(f"step_time_{name}") is None for name in PERCENTILES):
        return ABSENT
    return " / ".join(_milliseconds(result, f"step_time_{name}") for name in PERCENTILES)


def _milliseconds(result: Result, name: str) -> str:
    seconds = result.values.get(name)
    return ABSENT if seconds is None else number(1000 * seconds, 3)
