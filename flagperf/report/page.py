"""report.html: one file that needs no network. page.html.j2 lays it out, page.css and the scripts are put into it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from flagperf import __version__
from flagperf.contract.records import Summary
from flagperf.contract.regular import write_whole
from flagperf.plain import plain
from flagperf.report import cells, scaling, tables
from flagperf.report.batch import batch_line, batch_rows
from flagperf.report.charts import Logs, job_charts, read_logs
from flagperf.report.files import command_of
from flagperf.report.machine import data, host_rows, machine, read_hosts, software
from flagperf.report.plots import Chart
from flagperf.report.probe import probe_rows
from flagperf.report.round_charts import round_charts
from flagperf.report.run_charts import overlays, sweep_charts
from flagperf.results.summary import usable, verdict
from flagperf.results.verdict import worst

HERE = Path(__file__).parent
SWEEP, SCALING, OVERLAY = "/sweep", "/scaling", "/overlay"  # where plots of the run stand; no job has such a name
SCRIPTS = ("plot.js", "charts.js", "page.js")

NO_BREAK = "\u00a0"

Rows = Sequence[Mapping[str, str]]


class HtmlReport:
    """Writes report.html."""

    def write(self, run_dir: Path, summaries: Sequence[Summary]) -> Path:
        return write_whole(run_dir / "report.html", page(run_dir, summaries))


def page(run_dir: Path, summaries: Sequence[Summary]) -> str:
    """The whole page."""
    keys, groups = cells.sweep_keys(summaries), scaling.scales(summaries)
    logs = [read_logs(run_dir / summary.name, summary) for summary in summaries]
    jobs = [_job(run_dir / summary.name, summary, read) for summary, read in zip(summaries, logs, strict=True)]
    of_run = {
        SWEEP: sweep_charts(summaries),
        SCALING: scaling.scaling_charts(groups),
        OVERLAY: overlays(list(zip(summaries, logs, strict=True))),
    }
    of_jobs = {name: charts for job in jobs for name, charts in job.pop("charts").items()}
    return render(
        "page.html.j2",
        of_run | of_jobs,
        name=run_dir.resolve().name,
        started=_started(summaries),
        verdict=worst(verdict(summary) for summary in summaries),
        headline=cells.headline(summaries),
        command=command_of(run_dir),
        warnings=cells.warnings(summaries),
        columns_note=cells.COLUMNS_NOTE,
        results=grid([cells.row(summary) for summary in summaries]),
        sweep=grid([cells.sweep_row(summary, keys) for summary in summaries] if keys else []),
        links=[f"#job{number}" for number in range(1, len(summaries) + 1)],
        bars=_bars(summaries),
        scaling=grid(scaling.scaling_rows(groups)),
        scaling_links=[f"#job{1 + summaries.index(scale.job)}" for group in groups.values() for scale in group],
        scaling_note=scaling.NOTE,
        places={"sweep": SWEEP, "scaling": SCALING, "overlay": OVERLAY},
        overlaid=bool(of_run[OVERLAY]),
        jobs=jobs,
    )


def render(template: str, charts: Mapping[str, Sequence[Chart]], *, folder: Path = HERE, **values: Any) -> str:
    """A page in one file: a template of a folder, on frame.html.j2, with style and scripts.

    Args:
        charts: what stands in the elements of class "charts", by their data-place.
        values: what the template names.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(template).render(
        version=__version__,
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        scripts=[(HERE / name).read_text(encoding="utf-8") for name in SCRIPTS],
        data=_embedded(charts),
        **values,
    )
    return plain(text)


def grid(rows: Rows, *, text: bool = False) -> dict[str, Any]:
    """A table for the template: its lines, and its columns, each with whether it holds numbers (never if `text`)."""
    numeric = dict.fromkeys(rows[0], False) if text and rows else cells.numeric(rows)
    lines = [[_bound(cell) if numeric[name] else cell for name, cell in row.items()] for row in rows]
    return {"columns": list(numeric.items()), "rows": lines}


def _bound(number: str) -> str:
    """A number that breaks, where there is no room, before its deviation and nowhere else."""
    return number.replace(" ", NO_BREAK).replace(f"{NO_BREAK}±", " ±")


def _job(folder: Path, summary: Summary, logs: Logs) -> dict[str, Any]:
    good = usable(summary.results)
    peaks = summary.config["hardware"].get("peak_flops") or {}
    charts, hosts = _charts(folder, summary, logs), read_hosts(folder)
    return {
        "id": summary.name,
        "verdict": verdict(summary),
        "title": summary.config.get("title", ""),
        "target": cells.target(summary),
        "machine": machine(good[0]) if good else "",
        "software": software(good[0]) if good else "",
        "data": data(summary),
        "problems": list(cells.problems(summary)),
        "statistics": grid(tables.statistics_rows(summary)),
        "rounds": grid(tables.round_rows(summary)),
        "mfu_note": next((result.values["mfu_note"] for result in good if result.values.get("mfu_note")), None),
        "formula": tables.formula_lines(summary, good),
        "probe": grid([row for result in good for row in probe_rows(result.probe, peaks)]),
        "batch_line": batch_line(summary),
        "batch": grid(batch_rows(summary)),
        "changes": grid(tables.change_rows(summary), text=True),
        "own": grid(tables.own_rows(summary), text=True),
        "monitors": grid([row for result in good for row in tables.monitor_rows(result)]),
        "monitor_notes": [
            *(line for result in good for line in tables.energy_lines(result)),
            *tables.missing_monitors(good),
        ],
        "hosts": grid(host_rows(hosts)),
        "facts": [(node, grid(_facts(info), text=True)) for node, info in hosts.items()],
        "config": yaml.safe_dump(dict(summary.config), sort_keys=False, allow_unicode=True),
        "charts": charts,
        "rounds_of_charts": [(name, f"Round {name.rpartition(' ')[2]}") for name in charts if name != summary.name],
    }


def _charts(folder: Path, summary: Summary, logs: Logs) -> dict[str, list[Chart]]:
    """The plots of a job, by the name of the place where they stand; those of a job's only round stand with its own."""
    found = {summary.name: job_charts(summary, logs)}
    for result in summary.results:
        if events := logs.get(result.round):
            place = summary.name if len(logs) == 1 else f"{summary.name} round {result.round}"
            found.setdefault(place, []).extend(round_charts(folder / f"round{result.round}", result, events))
    return found


def _facts(info: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"what": name, "this host": value} for name, value in info.items() if value.strip()]


def _bars(summaries: Sequence[Summary]) -> list[str]:
    """p_core of each job in percent of the largest, for the bars of the sweep; 0 % when units differ."""
    values = [summary.statistics["p_core"].mean if "p_core" in summary.statistics else 0.0 for summary in summaries]
    units = {(summary.identity.case, summary.identity.throughput_unit) for summary in summaries}
    most = max(values, default=0.0)
    return [f"{100 * value / most:.1f}%" for value in values] if most and len(units) == 1 else ["0%"] * len(values)


def _started(summaries: Sequence[Summary]) -> str:
    times = [result.started for summary in summaries for result in summary.results if result.started is not None]
    return datetime.fromtimestamp(min(times)).astimezone().strftime("%Y-%m-%d %H:%M:%S %z") if times else ""


def _embedded(data: Mapping[str, Any]) -> Any:
    """JSON that may stand in a script element."""
    from markupsafe import Markup

    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
