"""report.html: one file that needs no network. page.html.j2 lays it out, page.css and the scripts are put into it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from flagperf import __version__
from flagperf.plain import plain
from flagperf.report import cells, scaling, tables
from flagperf.report.charts import Chart, job_charts
from flagperf.report.files import command_of
from flagperf.report.probe import probe_rows
from flagperf.results.rank_log import node_folders
from flagperf.results.summary import usable, verdict
from flagperf.results.sys_info import read_sys_info
from flagperf.results.values import Summary
from flagperf.results.verdict import worst

HERE = Path(__file__).parent
SCRIPTS = ("plot.js", "charts.js", "page.js")

Rows = Sequence[Mapping[str, str]]

_NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?( ± .*| %.*|/.*| \(n=\d+\))?|nan|-?inf")


class HtmlReport:
    """Writes report.html."""

    def write(self, run_dir: Path, summaries: Sequence[Summary]) -> Path:
        path = run_dir / "report.html"
        path.write_text(page(run_dir, summaries), encoding="utf-8")
        return path


def page(run_dir: Path, summaries: Sequence[Summary]) -> str:
    """The whole page."""
    keys = cells.sweep_keys(summaries)
    jobs = [_job(run_dir / summary.name, summary) for summary in summaries]
    return render(
        "page.html.j2",
        {job["id"]: job.pop("charts") for job in jobs},
        name=run_dir.resolve().name,
        started=_started(summaries),
        verdict=worst(verdict(summary) for summary in summaries),
        headline=cells.headline(summaries),
        command=command_of(run_dir),
        warnings=cells.warnings(summaries),
        columns_note=cells.COLUMNS_NOTE,
        results=grid([cells.row(summary) for summary in summaries]),
        sweep=grid([cells.sweep_row(summary, keys) for summary in summaries] if keys else []),
        bars=_bars(summaries),
        scaling=grid(scaling.scaling_rows(summaries)),
        scaling_note=scaling.NOTE,
        jobs=jobs,
    )


def render(template: str, charts: Mapping[str, Sequence[Chart]], *, folder: Path = HERE, **values: Any) -> str:
    """A page in one file: a template of a folder, on frame.html.j2, with style and scripts.

    Args:
        charts: what stands in the elements of class "charts", by their data-job.
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
    names = list(rows[0]) if rows else []
    texts = {name: {row[name] for row in rows} - {cells.ABSENT} for name in names}
    numeric = {name: not text and bool(found) and all(map(_NUMBER.fullmatch, found)) for name, found in texts.items()}
    return {"columns": [(name, numeric[name]) for name in names], "rows": [list(row.values()) for row in rows]}


def _job(folder: Path, summary: Summary) -> dict[str, Any]:
    good = usable(summary.results)
    peaks = summary.config["hardware"].get("peak_flops") or {}
    return {
        "id": summary.name,
        "verdict": verdict(summary),
        "title": summary.config.get("title", ""),
        "target": cells.target(summary),
        "machine": cells.machine(good[0]) if good else "",
        "software": cells.software(good[0]) if good else "",
        "data": cells.data(summary),
        "problems": list(cells.problems(summary)),
        "statistics": grid(tables.statistics_rows(summary)),
        "rounds": grid(tables.round_rows(summary)),
        "mfu_note": next((result.values["mfu_note"] for result in good if result.values.get("mfu_note")), None),
        "probe": grid([row for result in good for row in probe_rows(result.probe, peaks)]),
        "changes": grid(tables.change_rows(summary), text=True),
        "own": grid(tables.own_rows(summary), text=True),
        "monitors": grid([row for result in good for row in tables.monitor_rows(result)]),
        "monitor_notes": [
            *(line for result in good for line in tables.energy_lines(result)),
            *tables.missing_monitors(good),
        ],
        "hosts": _hosts(folder),
        "config": yaml.safe_dump(dict(summary.config), sort_keys=False, allow_unicode=True),
        "charts": job_charts(folder, summary),
    }


def _hosts(job_folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each node with its sys_info.log as a table, from the first round that has these logs."""
    for round_folder in sorted(job_folder.glob("round*")):
        infos = [(path.name, read_sys_info(path)) for _, _, path in node_folders(round_folder)]
        if any(info for _, info in infos):
            return [(node, grid(_facts(info), text=True)) for node, info in infos if info]
    return []


def _facts(info: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"what": name, "this host": value} for name, value in info.items() if value.strip()]


def _bars(summaries: Sequence[Summary]) -> list[str]:
    """p_core of each job in percent of the largest, for the bars of the sweep; 0 % when units differ."""
    values = [summary.statistics["p_core"].mean if "p_core" in summary.statistics else 0.0 for summary in summaries]
    units = {(summary.config["case"], summary.config["throughput_unit"]) for summary in summaries}
    most = max(values, default=0.0)
    return [f"{100 * value / most:.1f}%" for value in values] if most and len(units) == 1 else ["0%"] * len(values)


def _started(summaries: Sequence[Summary]) -> str:
    times = [result.started for summary in summaries for result in summary.results if result.started is not None]
    return datetime.fromtimestamp(min(times)).astimezone().strftime("%Y-%m-%d %H:%M:%S %z") if times else ""


def _embedded(data: Mapping[str, Any]) -> Any:
    """JSON that may stand in a script element."""
    from markupsafe import Markup

    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
