"""report.md: the whole report as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flagperf.contract.records import Result, Summary
from flagperf.contract.regular import write_atomically
from flagperf.plain import plain
from flagperf.report import cells, remarks, scaling, tables
from flagperf.report.achievable import achievable_lines
from flagperf.report.batch import batch_line, batch_rows
from flagperf.report.cost import cost_lines, cost_rows, restart_lines
from flagperf.report.files import command_of
from flagperf.report.machine import data, host_rows, machine, read_hosts, software
from flagperf.report.probe import probe_rows
from flagperf.report.restarts import attempt_lines, restart_rows
from flagperf.report.slow_ranks import slow_rank_lines
from flagperf.results.restarts import chains
from flagperf.results.summary import usable

_TAG = re.compile(r'<(?!a id="job\d+"></a>|/a>)(?=[A-Za-z/!?])')  # the start of a tag that is not ours


class MarkdownReport:
    """Writes report.md."""

    def write(self, run_dir: Path, summaries: Sequence[Summary]) -> Path:
        """Write report.md into the folder of the run."""
        return write_atomically(run_dir / "report.md", markdown(run_dir, summaries))


def markdown(run_dir: Path, summaries: Sequence[Summary]) -> str:
    """The text of report.md. The rows of its tables have links to the jobs."""
    links = [f"#job{number}" for number in range(1, len(summaries) + 1)]
    results, shared_notes = cells.shared_notes(cells.rows(summaries))
    blocks = [
        f"# {run_dir.resolve().name}",
        f"**{remarks.headline(summaries)}**",
        *_command(run_dir),
        *(f"> {warning}" for warning in remarks.warnings(summaries)),
        "## Results",
        _known(results, links),
        cells.RATES_NOTE,
        cells.columns_note(results),
        shared_notes,
        *_problems(summaries),
        *_sweep(summaries, links),
        *_scaling(summaries, links),
        *(block for number, summary in enumerate(summaries, 1) for block in _job(number, summary, run_dir)),
    ]
    return plain("\n\n".join(_without_tags(block) for block in blocks if block) + "\n")


def _command(run_dir: Path) -> Iterator[str]:
    if command := command_of(run_dir):
        yield _fenced("sh", command[0])
        yield f"given {command[1]}"


def _fenced(language: str, text: str) -> str:
    """The text between fences that are longer than any fence in the text."""
    fence = "~" * max(4, 1 + max(map(len, re.findall("~+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _without_tags(block: str) -> str:
    """The block without HTML tags, which a host or a rank may have printed."""
    return block if block.startswith("~~~~") else _TAG.sub("&lt;", block)


def table(rows: Sequence[Mapping[str, str]], links: Sequence[str] = ()) -> str:
    """A Markdown table with the columns of the first row. Numbers are aligned right.

    Args:
        links: the target of the link in the first cell of each row.
    """
    if not rows:
        return ""
    rules = ["---:" if is_number else "---" for is_number in cells.numeric(rows).values()]
    body = [[_cell(text) for text in row.values()] for row in rows]
    if links:
        body = [[f"[{first}]({link})", *rest] for link, (first, *rest) in zip(links, body, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in ([_cell(name) for name in rows[0]], rules, *body))


def _known(rows: Sequence[Mapping[str, str]], links: Sequence[str] = ()) -> str:
    """As `table`, without the columns that have no value."""
    return table(cells.without_absent(rows), links)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _problems(summaries: Sequence[Summary]) -> Iterator[str]:
    """Reasons and failure of every job and round that is not VALID."""
    if problems := remarks.problems_of_run(summaries):
        yield "## What to look at"
    for part, verdict, reasons, failure in problems:
        yield f"**{part}: {verdict}**\n\n" + "\n".join(f"- {reason}" for reason in reasons)
        if failure:
            yield _fenced("text", str(failure))


def _sweep(summaries: Sequence[Summary], links: Sequence[str]) -> Iterator[str]:
    if rows := cells.sweep_rows(summaries):
        yield "## Sweep"
        yield _known(rows, links)


def _scaling(summaries: Sequence[Summary], links: Sequence[str]) -> Iterator[str]:
    groups = scaling.scales(summaries)
    if rows := scaling.scaling_rows(groups):
        yield "## Scaling"
        yield _known(rows, [links[summaries.index(scale.job)] for group in groups.values() for scale in group])
        yield scaling.NOTE


def _job(number: int, summary: Summary, run_dir: Path) -> Iterator[str]:
    yield f'<a id="job{number}"></a>\n\n## {summary.name}'
    rounds = usable(summary.results)
    if rounds:
        yield f"Machine: {machine(rounds[0])}"
        if text := software(rounds[0]):
            yield f"Software: {text}"
    if text := data(summary):
        yield f"Data: {text}"
    yield from achievable_lines(summary, rounds[:1])
    yield from slow_rank_lines(summary.results)
    yield _known(host_rows(read_hosts(run_dir / summary.name), summary.results))
    yield _known(tables.statistics_rows(summary))
    if any(result.values for result in summary.results):
        yield _known(tables.round_rows(summary))
    if note := next((result.values.get("mfu_note") for result in rounds if result.values.get("mfu_note")), None):
        yield f"MFU is absent: {note}"
    yield from tables.formula_lines(summary, rounds[:1])
    for result in rounds:
        if rows := probe_rows(result.probe, summary.config["hardware"]):
            yield f"What the devices achieved after round {result.round}, measured by the probe:"
            yield _known(rows)
    if rows := batch_rows(summary):
        yield batch_line(summary)
        yield _known(rows)
    if rows := tables.phase_rows(rounds):
        yield "Phases, in seconds, on the node that took longest:"
        yield _known(rows)
    if rows := cost_rows(rounds):
        yield "Time to train, by part:"
        yield _known(rows)
    if rows := restart_rows(summary.results):
        yield "Lost attempts:"
        yield _known(rows)
        yield from attempt_lines(summary.results)
    yield from [*cost_lines(rounds), *restart_lines(rounds, chains(run_dir / summary.name, rounds))]
    yield "Changes against the case:" if summary.changes else "No change against the case."
    yield table(tables.change_rows(summary))
    if rows := tables.own_rows(summary):
        yield "The user's own, beside what flagperf ships:"
        yield _known(rows)
    yield from _monitors(rounds)


def _monitors(results: Sequence[Result]) -> Iterator[str]:
    rows = [row for result in results for row in tables.monitor_rows(result)]
    if rows:
        yield "Monitors, during training:"
        yield _known(rows)
    yield from tables.energy_lines(results)
    yield from tables.missing_monitors(results)
