"""Comparisons → text: a table for the terminal, Markdown for a pull request, JUnit's XML for a CI server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from flagperf.compare.gate import Decision, change, interval
from flagperf.compare.parts import parts_line
from flagperf.compare.values import Comparison, Figure
from flagperf.contract.records import Statistics, Summary
from flagperf.plain import plain
from flagperf.report import cells
from flagperf.report.tables import SHARES, step_times
from flagperf.results.convergence import MORE, sentence, two_digits
from flagperf.results.summary import UTILISATIONS, usable, verdict

if TYPE_CHECKING:
    from rich.console import Group

HEADS = ("figure", "base", "other", "change", "95 % interval", "effect", "verdict")
DIFFERS = ("differs", "base", "other")
STYLES = {"better": "green", "worse": "red", "undecided": "yellow", "passed": "green", "failed": "red"}
NOTE = (
    "By {}. base, other: arithmetic means over the rounds; change: other against base. same: the whole interval lies "
    "within {:g} %, or all rounds are equal. "
    "undecided: the rounds do not tell; repeat=5 and more narrows the interval."
)
ONE_ROUND = (
    "One round of a job: how its rounds vary is not known, so that only equal figures are decided; repeat=5 gives five."
)
STEPS = " Known is how steps vary within the round, {} in ms: {}."


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """A row of texts for each figure, with the columns HEADS."""
    return [_row(figure) for figure in comparison.figures]


def known_rows(comparison: Comparison) -> list[dict[str, str]]:
    """The rows as column → text, without columns that have no value, such as the intervals of single rounds."""
    return cells.without_absent([dict(zip(HEADS, row, strict=True)) for row in rows(comparison)])


def _row(figure: Figure) -> tuple[str, ...]:
    ratio = figure.estimate
    effect = cells.ABSENT if ratio.effect is None else f"{ratio.effect:+.2f}"
    name = f"{figure.name} [{figure.unit}]" if figure.unit else figure.name
    shown = _in_percent if figure.name in UTILISATIONS else cells.spread
    base, other = (f"{shown(side)} (n={side.n})" for side in (figure.base, figure.other))
    return name, base, other, change(ratio), interval(ratio) or cells.ABSENT, effect, figure.word


def _in_percent(share: Statistics) -> str:
    stdev = None if share.stdev is None else 100 * share.stdev
    return f"{cells.spread(replace(share, mean=100 * share.mean, stdev=stdev))} %"


def differing(comparison: Comparison) -> list[str]:
    """A line for each allowed difference between the two jobs."""
    return [f"{key}: {base} → {other}" for key, base, other in comparison.differs]


def marked(name: str, job: Summary) -> str:
    """The name of a job, with its verdict where that is not VALID."""
    verdict_text = verdict(job)
    return name if verdict_text == "VALID" else f"{name} ({verdict_text})"


def terminal(comparison: Comparison, margin: float) -> Group:
    """A comparison for the terminal."""
    from rich.console import Group
    from rich.text import Text

    from flagperf.report.fitted import FittedTable

    table, shown = FittedTable(padding=(0, 1, 0, 0)), known_rows(comparison)
    for name in shown[0] if shown else HEADS:
        table.add_column(name, justify="right" if name in HEADS[1:6] else "left")
    for row in shown:
        table.add_row(*(Text(text, style=STYLES.get(text, "")) for text in row.values()))
    base, other = (marked(name, job) for name, job in comparison.sides)
    head = Text.assemble(base, "  →  ", (other, "bold"))
    return Group(head, *(Text(f"  {line}") for line in differing(comparison)), table, Text(note(comparison, margin)))


def note(comparison: Comparison, margin: float) -> str:
    """The methods of the intervals, and the meaning of the verdicts."""
    parts = parts_line(comparison.base, comparison.other)
    more = [text for text in (comparison.left_out, parts, *convergence(comparison), more_rounds(comparison)) if text]
    left_out = "".join(f" {text}" for text in more)
    known = dict.fromkeys(figure.estimate.method for figure in comparison.figures if figure.estimate.low is not None)
    if known:
        return NOTE.format("; ".join(known), 100 * margin) + left_out
    sides = {"base": comparison.base, "other": comparison.other}
    firsts = {name: usable(job.results)[0] for name, job in sides.items()}
    steps = [f"{name} {step_times(first)}" for name, first in firsts.items() if first.values.get("step_time_p50")]
    return ONE_ROUND + (STEPS.format(SHARES, ", ".join(steps)) if steps else "") + left_out


def convergence(comparison: Comparison) -> Iterator[str]:
    """Samples to the target: of the other with the base as reference, and of each job with that of the case."""
    known = [(comparison.other_name, comparison.convergence)]
    known += [(name, job.convergence) for name, job in comparison.sides]
    yield from (f"{name}: {sentence(answer)}." for name, answer in known if answer is not None)


def more_rounds(comparison: Comparison) -> str:
    """How small a change the rounds detect, and five more rounds, of the figures that are undecided."""
    undecided = [figure for figure in comparison.figures if figure.word == "undecided" and figure.estimate.detects]
    if not undecided:
        return ""
    now = ", ".join(f"{two_digits(figure.estimate.detects or 0)} in {figure.name}" for figure in undecided)
    more = ", ".join(two_digits(figure.estimate.detects_with_more or 0) for figure in undecided)
    return f"These rounds detect a change of {now}; {MORE} more rounds of each job would detect {more}."


def markdown(comparisons: Iterable[Comparison], decisions: Sequence[Decision], margin: float) -> str:
    """Decisions and comparisons in Markdown, for a pull request."""
    return "\n".join(_markdown(comparisons, decisions, margin)) + "\n"


def _markdown(comparisons: Iterable[Comparison], decisions: Sequence[Decision], margin: float) -> Iterator[str]:
    for decision in decisions:
        yield f"- **{decision.outcome}** `{decision.condition}`: {decision.why}"
    for comparison in comparisons:
        base, other = (_escaped(marked(name, job)) for name, job in comparison.sides)
        yield f"\n### {other} against {base}\n"
        yield f"| {' | '.join(HEADS)} |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        yield from (f"| {' | '.join(map(_escaped, row))} |" for row in rows(comparison))
        yield f"\n{note(comparison, margin)}"
        if comparison.differs:
            yield f"\n| {' | '.join(DIFFERS)} |\n|---|---|---|"
            yield from (f"| {' | '.join(map(_escaped, row))} |" for row in comparison.differs)


def _escaped(text: str) -> str:
    """Text that Markdown shows unchanged, also in a cell of a table."""
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("`", "\\`")


def junit(decisions: Iterable[Decision]) -> str:
    """JUnit's XML: a test case for each condition. An outcome other than "passed" is a failure of this type."""
    rows = list(decisions)
    wrong = sum(decision.outcome != "passed" for decision in rows)
    suite = ElementTree.Element("testsuite", name="flagperf compare", tests=str(len(rows)), failures=str(wrong))
    for decision in rows:
        case = ElementTree.SubElement(suite, "testcase", classname=decision.pair, name=decision.condition)
        if decision.outcome != "passed":
            ElementTree.SubElement(case, "failure", type=decision.outcome, message=decision.why)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode") + "\n"
