"""Figures as texts: the same in the terminal, in report.md and in report.html."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from flagperf.contract.identity import Identity
from flagperf.contract.records import Result, Statistics, Summary
from flagperf.contract.target import Target
from flagperf.hosts.transport import MOST_CLOCK
from flagperf.results.convergence import sentence
from flagperf.results.summary import MAX_CV, RATES, STEPS, describe, metric, usable, verdict

ABSENT = "–"
SHORT_NAMES = {  # hyper-parameters that fix_hp shows, by FlagPerf's names
    "train_batch_size": "bs",
    "lr": "lr",
    "gradient_accumulation_steps": "ga",
    "weight_decay": "wd",
    "warmup": "warmup",
}
OF_SWEEP = ("p_whole", "p_train", "p_core", "unit", "e2e_time [s]", "accuracy", "mem [GiB]", "MFU", "verdict")
ENERGIES = {"node": "nodes", "devices": "devices", "rapl": "cpus"}
RATES_NOTE = (
    "Throughput of the whole job: p_whole over the whole training time, p_train without evaluation and checkpoints, "
    "p_core also without waiting for data. Quote p_train."
)
_COLUMN_NOTES = {  # column → its meaning
    "e2e_time [s]": "e2e_time: start to end of the processes.",
    "fix_hp": "fix_hp: hyper-parameters that differ from the case.",
    "mem [GiB]": "mem: peak of one device.",
    "energy [Wh]": "energy: of the training; nodes: whole nodes, devices: the accelerators alone, "
    "cpus: processors and memory alone.",
}
_SPREAD_NOTE = "With several rounds: mean ± sample standard deviation."
_NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?( ± [\d,.]+)?( %.*|/.*| \([\w=]+\)| \([\d.]+ %\))?|nan|-?inf")


def numeric(rows: Sequence[Mapping[str, str]]) -> dict[str, bool]:
    """Column of a table → whether its cells are numbers or absent."""
    texts = {name: {row[name] for row in rows} - {ABSENT} for name in (rows[0] if rows else ())}
    return {name: bool(values) and all(map(_NUMBER.fullmatch, values)) for name, values in texts.items()}


def without_absent(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows without the columns that have no value in any row."""
    names = [name for name in (rows[0] if rows else ()) if any(row[name] not in ("", ABSENT) for row in rows)]
    return [{name: row[name] for name in names} for row in rows]


def columns_note(rows: Sequence[Mapping[str, str]]) -> str:
    """The meanings of the columns that the table has."""
    present = {name for row in without_absent(rows) for name in row}
    return " ".join([*(text for name, text in _COLUMN_NOTES.items() if name in present), _SPREAD_NOTE])


def number(value: float | None, digits: int = 4) -> str:
    """A figure with the given significant digits; from 1000 on without decimals."""
    if value is None:
        return ABSENT
    if math.isfinite(value) and abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def percent(share: float | None) -> str:
    """A share in percent: 0.4123 → "41.2 %"."""
    return ABSENT if share is None else f"{100 * share:.3g} %"


def spread(figure: Statistics | None) -> str:
    """Mean and standard deviation, where known, with the same decimals: "41.30 ± 0.52"."""
    if figure is None:
        return ABSENT
    if not figure.stdev or figure.stdev < abs(figure.mean) * 1e-5:
        return number(figure.mean) if abs(figure.mean) >= 1000 else f"{figure.mean:#.4g}"
    decimals = max(0, 1 - math.floor(math.log10(figure.stdev)))
    return f"{figure.mean:,.{decimals}f} ± {figure.stdev:,.{decimals}f}"


def rows(summaries: Sequence[Summary]) -> list[dict[str, str]]:
    """The rows of several jobs. The case of a job of a sweep is followed by its swept values."""
    return [{**cells, "case": ", ".join([cells["case"], *swept(job)])} for job in summaries for cells in [row(job)]]


def shared_notes(rows: Sequence[Mapping[str, str]]) -> tuple[list[dict[str, str]], str]:
    """The rows, without notes that all of them have, and a line with these notes; "" where the notes differ."""
    first, *others = {row["notes"] for row in rows} or {ABSENT}
    if len(rows) < 2 or others or first == ABSENT:
        return [{**row} for row in rows], ""
    return [{**row, "notes": ABSENT} for row in rows], f"Notes on all jobs: {first}"


def swept(summary: Summary) -> list[str]:
    """The swept values of a job: "lr=0.1"."""
    return [f"{key}={value}" for key, value in (summary.results[0].sweep if summary.results else {}).items()]


def row(summary: Summary) -> dict[str, str]:
    """A job in FlagPerf's columns, with verdict, target and notes: column → text."""
    figures, identity = summary.statistics, summary.identity
    return {
        "case": case(identity),
        "verdict": verdict(summary),
        "target": target(summary),
        "config": config(identity),
        "precision": identity.precision,
        "fix_hp": fix_hp(summary),
        "e2e_time [s]": spread(figures.get("e2e_time")),
        **{name: spread(figures.get(name)) for name in RATES},
        "unit": identity.throughput_unit,
        "accuracy": accuracy(summary),
        "mem [GiB]": memory(summary),
        "MFU": mfu(summary),
        "energy [Wh]": energy(summary),
        "notes": "; ".join(notes(summary)) or ABSENT,
    }


def config(identity: Identity) -> str:
    """Product and scale: "A100x2x8"."""
    return f"{identity.hardware}x{identity.scale}"


def case(identity: Identity) -> str:
    """The case with its unusual properties: "resnet50 (tiny)", "bert (paddle, revision 2)"."""
    apart = {
        identity.size: identity.size != "full",
        identity.framework: not identity.main_framework,
        f"revision {identity.revision}": identity.revision > 1,
    }
    shown = ", ".join(name for name, is_shown in apart.items() if is_shown)
    return f"{identity.case} ({shown})" if shown else identity.case


def fix_hp(summary: Summary) -> str:
    """Hyper-parameters that differ from the case."""
    changed = {change.key: change.after for change in summary.changes}
    shown = [f"{short}: {changed[key]}" for key, short in SHORT_NAMES.items() if key in changed]
    return ", ".join(shown) or ABSENT


def accuracy(summary: Summary) -> str:
    """Final value of the case's metric, with the metric's name unless that is accuracy."""
    name = metric(summary)
    if name is None or name not in summary.statistics:
        return ABSENT
    goal = summary.results[0].target
    unit = f" {goal.unit}" if goal and goal.unit else ""
    return f"{spread(summary.statistics[name])}{unit} {name.removeprefix('final_')}".removesuffix(" accuracy")


def memory(summary: Summary) -> str:
    """Peak memory of a device and its size: "31.2/40". Without device memory that of the host: "3.1 (host)"."""
    used = summary.statistics.get("peak_memory")
    if used is None:
        return ABSENT
    if any(result.values.get("peak_memory_kind") == "host rss" for result in usable(summary.results)):
        return f"{number(used.max, 3)} (host)"
    total = summary.config["hardware"].get("memory_gib")
    return number(used.max, 3) + (f"/{number(total)}" if total else "")


def mfu(summary: Summary) -> str:
    """MFU against the data sheet, and against the result of a probe: "41.2 % (52.0 % of achieved)".

    Where activations are recomputed, the figure counts these operations, too: "54.9 % (HFU)".
    """
    figure, achieved = summary.statistics.get("mfu"), summary.statistics.get("mfu_achieved")
    shown = ABSENT if figure is None else percent(figure.mean)
    also = ["HFU"] if "hfu" in summary.statistics else []
    also += [] if achieved is None else [f"{percent(achieved.mean)} of achieved"]
    return f"{shown} ({', '.join(also)})" if also else shown


def energy(summary: Summary) -> str:
    """Energy of the training as text: "43.0 ± 1.4 (nodes)"."""
    if (known := energy_figure(summary)) is None:
        return ABSENT
    kind, figure = known
    return f"{spread(figure)} ({ENERGIES[kind]})"


def energy_figure(summary: Summary) -> tuple[str, Statistics] | None:
    """Energy in Wh, of whole nodes where known, else of accelerators, else of processors and memory; with the kind."""
    for kind in ENERGIES:
        known = [result.monitors.get("energy", {}).get(kind, {}).get("energy_wh") for result in usable(summary.results)]
        if values := [value for value in known if value is not None]:
            return kind, describe(values)
    return None


def target(summary: Summary) -> str:
    """Whether the target was reached, and in how many rounds: "reached on sample data (acc1 ≥ 95 %)"."""
    results = usable(summary.results)
    if not results:
        return ABSENT
    goal, answers = results[0].target, [result.target_reached for result in results]
    if goal is None:
        return "the case has none"
    on_samples = any(result.sample_data for result in results)
    if all(answer is None for answer in answers):
        if any(result.synthetic for result in results):
            return "does not apply: synthetic"
        if on_samples and summary.identity.size == "full":
            return "does not apply: sample data"
        if any(result.other_data for result in results):
            return "does not apply: other data"
        return f"not shown: ended by {results[0].values.get('stop_reason')}"
    reached = sum(answer is True for answer in answers)
    if reached in (0, len(answers)):
        outcome = "reached" if reached else "missed"
    else:
        outcome = f"reached in {reached} of {len(answers)}"
    return outcome + (" on sample data" if on_samples else "") + f" ({condition(goal)})" + _steps(summary)


def _steps(summary: Summary) -> str:
    """Optimizer steps to the target, where several rounds reached it."""
    steps = summary.statistics.get(STEPS)
    if not steps or steps.n < 2:
        return ""
    least, most = number(steps.min), number(steps.max)
    return f" after {least} steps" if least == most else f" after {least} to {most} steps"


def condition(goal: Target) -> str:
    """The condition of a target: "acc1 ≥ 95 %"."""
    sign = "≥" if goal.direction == "higher" else "≤"
    unit = f" {goal.unit}" if goal.unit else ""
    return " and ".join(f"{metric} {sign} {number(value)}{unit}" for metric, value in goal.values.items())


def notes(summary: Summary) -> list[str]:
    """Notes on a job that a reader must know before comparing it with another."""
    lines = []
    if any(result.synthetic for result in summary.results):
        lines.append("synthetic")
    elif any(result.sample_data for result in summary.results):
        lines.append("sample data")
    elif any(result.other_data for result in summary.results):
        lines.append("other data")
    if summary.identity.division == "open":
        lines.append("open division")
    if summary.convergence and summary.convergence.outcome != "faster":  # that is a reason of the verdict
        lines.append(sentence(summary.convergence))
    lines += dict.fromkeys(note for result in summary.results for note in result.notes)
    lines += dict.fromkeys(text for result in summary.results for text in _of_hosts(result))
    if steps := {step for result in summary.results if (step := result.values.get("resumed_from_step"))}:
        lines.append(f"resumed from step {', '.join(map(str, sorted(steps)))}")
    if (most := summary.config.get("max_cv", MAX_CV)) > MAX_CV:
        lines.append(f"its rounds may differ more than usual (max_cv={number(most)})")
    if extension := summary.config.get("extension"):
        lines.append(ext(extension))
    if own_files := [name for name in summary.config.get("own", {}) if not name.startswith("cluster/")]:
        lines.append(f"the user's own: {', '.join(own_files)}")
    if f"hardware/{summary.identity.hardware}" in own_files and not summary.config["hardware"].get("device_names"):
        lines.append("the device was not checked: its own file states no device_names")
    invalid = [str(result.round) for result in summary.results if result not in usable(summary.results)]
    if invalid:
        lines.append(f"left out of the figures: round{'s' if len(invalid) > 1 else ''} {', '.join(invalid)}")
    failed = ((result.round, result.failure) for result in summary.results if result.failure)
    lines += [f"round {number} {failure.after('failed')}" for number, failure in itertools.islice(failed, 1)]
    return lines


def ext(extension: Mapping[str, Any]) -> str:
    """The parts of a case that a vendor's own code replaces, and its proof."""
    replaced = ", ".join(f"{part} {class_path}" for part, class_path in extension["replaced"].items())
    if not extension["has_code"]:
        return f"ext: {replaced}"
    if not extension["proof"]:
        return f"ext: {replaced}; nothing shows that it does what the case does; a proof: {extension['no_proof']}"
    differences = extension["proof"]["differences"].values()
    return (
        f"ext: {replaced}; shown to do what the case does, with a largest difference of {number(max(differences), 2)}"
    )


def _of_hosts(result: Result) -> Iterator[str]:
    """Notes on clocks that differ and on lost connections."""
    for node, offset in result.clocks.items():
        if abs(offset) > MOST_CLOCK:
            yield f"the clock of {node} was {offset:+.2f} s from the launcher's; times are corrected by that"
    for outage in result.outages:
        when = datetime.fromtimestamp(outage.began).strftime("%H:%M:%S")
        yield f"round {result.round}: {outage.host} out of reach from {when} on for {outage.seconds:.1f} s"


def apart(names: Sequence[str], others: Iterable[Sequence[str]]) -> str:
    """The first name, then the names that not all `others` have: "resnet50, A100, lr=0.1"."""
    common = set.intersection(*map(set, others))
    return ", ".join([names[0], *(name for name in names[1:] if name not in common)])


def sweep_keys(summaries: Sequence[Summary]) -> list[str]:
    """The keys that differ between the jobs of a sweep, in the order of the command."""
    return list(dict.fromkeys(key for summary in summaries for result in summary.results for key in result.sweep))


def sweep_rows(summaries: Sequence[Summary]) -> list[dict[str, str]]:
    """The jobs of a sweep: case and scale where they differ, the swept values, then the figures. Empty: no sweep."""
    if not (keys := sweep_keys(summaries)):
        return []
    all_jobs = [row(summary) for summary in summaries]
    differing = [name for name in ("case", "config") if len({job[name] for job in all_jobs}) > 1]
    return [
        {name: job[name] for name in differing}
        | {key: (summary.results[0].sweep if summary.results else {}).get(key, ABSENT) for key in keys}
        | {name: job[name] for name in OF_SWEEP}
        for summary, job in zip(summaries, all_jobs, strict=True)
    ]
