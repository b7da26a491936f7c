"""Comparisons → text: a table for the terminal, Markdown for a pull request, JUnit's XML for a CI server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from flagperf.compare.gate import Decision, change, interval
from flagperf.compare.values import Comparison, Figure
from flagperf.contract.records import Summary
from flagperf.plain import plain
from flagperf.report import cells
from flagperf.report.tables import SHARES, step_times
from flagperf.results.summary import usable, verdict

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
    """One line a figure, as text."""
    return [_row(figure) for figure in comparison.figures]


def _row(figure: Figure) -> tuple[str, ...]:
    found = figure.estimate
    effect = cells.ABSENT if found.effect is None else f"{found.effect:+.2f}"
    name = f"{figure.name} [{figure.unit}]" if figure.unit else figure.name
    base, other = (f"{cells.spread(side)} (n={side.n})" for side in (figure.base, figure.other))
    return name, base, other, change(found), interval(found) or cells.ABSENT, effect, figure.word


def differing(comparison: Comparison) -> list[str]:
    """What differs between the two and may, a line each."""
    return [f"{key}: {base} → {other}" for key, base, other in comparison.differs]


def marked(name: str, job: Summary) -> str:
    """The name of a job, with its verdict where that is not VALID."""
    found = verdict(job)
    return name if found == "VALID" else f"{name} ({found})"


def terminal(comparison: Comparison, margin: float) -> Group:
    """What a person sees."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in HEADS:
        table.add_column(name, justify="right" if name in HEADS[1:6] else "left", overflow="fold")
    for row in rows(comparison):
        table.add_row(*(Text(text, style=STYLES.get(text, "")) for text in row))
    base, other = (marked(name, job) for name, job in comparison.sides)
    head = Text.assemble(base, "  →  ", (other, "bold"))
    return Group(head, *(Text(f"  {line}") for line in differing(comparison)), table, Text(note(comparison, margin)))


def note(comparison: Comparison, margin: float) -> str:
    """How the intervals were made, and what the words mean."""
    left_out = f" {comparison.left_out}" if comparison.left_out else ""
    known = dict.fromkeys(figure.estimate.method for figure in comparison.figures if figure.estimate.low is not None)
    if known:
        return NOTE.format("; ".join(known), 100 * margin) + left_out
    sides = {"base": comparison.base, "other": comparison.other}
    firsts = {name: usable(job.results)[0] for name, job in sides.items()}
    steps = [f"{name} {step_times(first)}" for name, first in firsts.items() if first.values.get("step_time_p50")]
    return ONE_ROUND + (STEPS.format(SHARES, ", ".join(steps)) if steps else "") + left_out


def markdown(comparisons: Iterable[Comparison], decisions: Sequence[Decision], margin: float) -> str:
    """For a pull request."""
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
    """Text that Markdown shows as it is, in a cell too."""
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("`", "\\`")


def junit(decisions: Iterable[Decision]) -> str:
    """A test case a condition; what is not passed is a failure of that type."""
    found = list(decisions)
    wrong = sum(decision.outcome != "passed" for decision in found)
    suite = ElementTree.Element("testsuite", name="flagperf compare", tests=str(len(found)), failures=str(wrong))
    for decision in found:
        case = ElementTree.SubElement(suite, "testcase", classname=decision.pair, name=decision.condition)
        if decision.outcome != "passed":
            ElementTree.SubElement(case, "failure", type=decision.outcome, message=decision.why)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode") + "\n"
