"""report.html: one file that needs no network. Its template is page.html.j2; it contains page.css and the scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from flagperf import __version__
from flagperf.contract.records import Summary
from flagperf.contract.regular import write_atomically
from flagperf.plain import plain
from flagperf.report import cells, remarks, scaling, tables
from flagperf.report.achievable import achievable_lines
from flagperf.report.batch import batch_line, batch_rows
from flagperf.report.charts import Logs, earlier_logs, job_charts, read_logs
from flagperf.report.cost import cost_lines, cost_rows, restart_lines
from flagperf.report.files import command_of
from flagperf.report.headline import FEW, headline
from flagperf.report.machine import data, host_rows, machine, read_hosts, software
from flagperf.report.plots import Chart
from flagperf.report.probe import probe_rows
from flagperf.report.restarts import attempt_lines, restart_rows
from flagperf.report.round_charts import round_charts
from flagperf.report.run_charts import RATE, overlays, sweep_charts
from flagperf.report.slow_ranks import slow_rank_lines
from flagperf.report.texts import LANGUAGES, dictionary, of_page, of_scripts, strings
from flagperf.results.restarts import Chains, chains
from flagperf.results.summary import usable, verdict
from flagperf.results.verdict import worst

HERE = Path(__file__).parent
SWEEP, SCALING, OVERLAY = "/sweep", "/scaling", "/overlay"  # elements for the plots of the run; no job is named so
SCRIPTS = ("words.js", "plot.js", "charts.js", "page.js")

NO_BREAK = "\u00a0"

Rows = Sequence[Mapping[str, str]]


class HtmlReport:
    """Writes report.html."""

    def write(self, run_dir: Path, summaries: Sequence[Summary]) -> Path:
        """Write report.html into the folder of the run."""
        return write_atomically(run_dir / "report.html", page(run_dir, summaries))


def page(run_dir: Path, summaries: Sequence[Summary]) -> str:
    """The text of report.html."""
    groups = scaling.scales(summaries)
    results, shared_notes = cells.shared_notes(cells.rows(summaries))
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
        counts=remarks.headline(summaries),
        command=command_of(run_dir),
        warnings=remarks.warnings(summaries),
        headlines=[(summary.name, headline(summary)) for summary in summaries] if len(summaries) <= FEW else [],
        rates_note=cells.RATES_NOTE,
        columns_note=cells.columns_note(results),
        shared_notes=shared_notes,
        results=grid(results),
        sweep=grid(cells.sweep_rows(summaries)),
        links=[f"#job{number}" for number in range(1, len(summaries) + 1)],
        bars=(RATE, _bars(summaries)),
        scaling=grid(scaling.scaling_rows(groups)),
        scaling_links=[f"#job{1 + summaries.index(scale.job)}" for group in groups.values() for scale in group],
        scaling_note=scaling.NOTE,
        places={"sweep": SWEEP, "scaling": SCALING, "overlay": OVERLAY},
        overlaid=bool(of_run[OVERLAY]),
        jobs=jobs,
    )


def render(template: str, charts: Mapping[str, Sequence[Chart]], *, folder: Path = HERE, **values: Any) -> str:
    """A page in one file, from a template that extends frame.html.j2, with style and scripts.

    Args:
        template: its file name.
        charts: `data-place` of an element of class "charts" → its plots.
        folder: of the template.
        values: the variables of the template.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["words"] = partial(_words, charts=charts)
    text = environment.get_template(template).render(
        version=__version__,
        languages=LANGUAGES,
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        scripts=[(HERE / name).read_text(encoding="utf-8") for name in SCRIPTS],
        data=_embedded(charts),
        **values,
    )
    return plain(text)


def _words(body: str, charts: Mapping[str, Sequence[Chart]]) -> Any:
    """The texts of a page in each language but English, for words.js."""
    texts = [*of_page(body), *strings(charts), *of_scripts(SCRIPTS)]
    return _embedded({code: dictionary(code, texts) for code in LANGUAGES if code != "en"})


def grid(rows: Rows, *, text: bool = False) -> dict[str, Any]:
    """A table for the template: `rows`, and `columns` as pairs of name and whether it holds numbers.

    Args:
        text: no column holds numbers, and columns without a value stay.
    """
    rows = rows if text else cells.without_absent(rows)
    numeric = dict.fromkeys(rows[0], False) if text and rows else cells.numeric(rows)
    lines = [[bound(cell) if numeric[name] else cell for name, cell in row.items()] for row in rows]
    return {"columns": list(numeric.items()), "rows": lines}


def bound(number: str) -> str:
    """A number, with its unit, in which a line may break only before its deviation."""
    return number.replace(" ", NO_BREAK).replace(f"{NO_BREAK}±", " ±")


def _job(folder: Path, summary: Summary, logs: Logs) -> dict[str, Any]:
    rounds = usable(summary.results)
    earlier, hosts = chains(folder, summary.results), read_hosts(folder)
    charts = _charts(folder, summary, logs, earlier)
    return {
        "id": summary.name,
        "headline": headline(summary),
        "title": summary.config.get("title", ""),
        "target": cells.target(summary) if rounds else "",
        "machine": machine(rounds[0]) if rounds else "",
        "software": software(rounds[0]) if rounds else "",
        "data": data(summary),
        "achievable": achievable_lines(summary, rounds[:1]),
        "slow_ranks": slow_rank_lines(summary.results),
        "problems": list(remarks.problems(summary)),
        "statistics": grid(tables.statistics_rows(summary)),
        "rounds": grid(tables.round_rows(summary)),
        "cost": grid(cost_rows(rounds)),
        "restarts": grid(restart_rows(summary.results)),
        "restart_lines": attempt_lines(summary.results),
        "cost_lines": [*cost_lines(rounds), *restart_lines(rounds, earlier)],
        "formula": tables.formula_lines(summary, rounds[:1]),
        "probe": grid([row for result in rounds for row in probe_rows(result.probe, summary.config["hardware"])]),
        "batch_line": batch_line(summary),
        "batch": grid(batch_rows(summary)),
        "changes": grid(tables.change_rows(summary), text=True),
        "own": grid(tables.own_rows(summary), text=True),
        "monitors": grid([row for result in rounds for row in tables.monitor_rows(result)]),
        "monitor_notes": [
            *tables.energy_lines(rounds),
            *tables.missing_monitors(rounds),
        ],
        "hosts": grid(host_rows(hosts, summary.results)),
        "facts": [(node, grid(_facts(info), text=True)) for node, info in hosts.items()],
        "config": yaml.safe_dump(dict(summary.config), sort_keys=False, allow_unicode=True),
        "charts": charts,
        "rounds_of_charts": [(name, f"Round {name.rpartition(' ')[2]}") for name in charts if name != summary.name],
    }


def _charts(folder: Path, summary: Summary, logs: Logs, earlier: Chains) -> dict[str, list[Chart]]:
    """Name of an element → its plots. Plots of the only round of a job are in the element of the job."""
    charts = {summary.name: job_charts(summary, logs, earlier_logs(earlier))}
    for result in summary.results:
        if events := logs.get(result.round):
            element = summary.name if len(logs) == 1 else f"{summary.name} round {result.round}"
            charts.setdefault(element, []).extend(round_charts(folder / f"round{result.round}", result, events))
    return charts


def _facts(info: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"what": name, "this host": value} for name, value in info.items() if value.strip()]


def _bars(summaries: Sequence[Summary]) -> list[str]:
    """The throughput of each job in percent of the largest, for the bars of the sweep; 0 % where units differ."""
    values = [summary.statistics[RATE].mean if RATE in summary.statistics else 0.0 for summary in summaries]
    units = {(summary.identity.case, summary.identity.throughput_unit) for summary in summaries}
    most = max(values, default=0.0)
    return [f"{100 * value / most:.1f}%" for value in values] if most and len(units) == 1 else ["0%"] * len(values)


def _started(summaries: Sequence[Summary]) -> str:
    times = [result.started for summary in summaries for result in summary.results if result.started is not None]
    return datetime.fromtimestamp(min(times)).astimezone().strftime("%Y-%m-%d %H:%M:%S %z") if times else ""


def _embedded(data: Mapping[str, Any]) -> Any:
    """JSON for a script element."""
    from markupsafe import Markup

    return Markup(json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"))
