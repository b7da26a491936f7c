"""Sentences on a whole run: its headline, warnings, and the reasons of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from flagperf.contract.outcome import Failure
from flagperf.contract.records import Result, Summary, Verdict
from flagperf.results.summary import usable, verdict
from flagperf.results.verdict import VERDICTS

SAMPLE_DATA_NOTE = (
    "On sample data: a small generated data set. It shows that the case trains and what the machine does; "
    "it does not show that the case's own target is reached."
)
SAMPLE_DATA_FAILED_NOTE = "On sample data: a small generated data set. No round of it counts."
SYNTHETIC_NOTE = (
    "Synthetic: each rank trains on a few batches that stay in device memory. It shows how fast the machine computes; "
    "loading data, evaluating and reaching a target are no part of it."
)
OPEN_NOTE = "Division open: something in it is not allowed in a closed run. Compare with closed runs with care."
REVISIONS_NOTE = "{} is here in revisions {}: the case was changed between them, and their results do not compare."


def headline(summaries: Sequence[Summary]) -> str:
    """The run in a sentence: its verdicts, and how many rounds reached the target."""
    counts = Counter(verdict(summary) for summary in summaries)
    verdicts = [f"{counts[name]} {name}" for name in VERDICTS if counts[name]]
    jobs = f"{len(summaries)} job{'s' if len(summaries) != 1 else ''}"
    answers = [answer for summary in summaries for answer in _answers(summary)]
    goal = f"; target reached in {answers.count(True)} of {len(answers)} rounds" if answers else ""
    return f"{jobs}: {', '.join(verdicts)}{goal}."


def _answers(summary: Summary) -> list[bool | None]:
    """Whether each round reached the target. A round that a limit ended did not. Empty where no round has an answer."""
    answers = [result.target_reached for result in usable(summary.results)]
    return answers if set(answers) - {None} else []


def warnings(summaries: Iterable[Summary]) -> list[str]:
    """Warnings on the figures of a run: synthetic or sample data, the open division, several revisions."""
    jobs = list(summaries)
    results = [result for summary in jobs for result in summary.results]
    synthetic = any(result.synthetic for result in results)
    sampled = [result for result in results if result.sample_data and not result.synthetic]
    sample_note = SAMPLE_DATA_NOTE if usable(sampled) else SAMPLE_DATA_FAILED_NOTE
    opened = any(result.identity.division == "open" for result in results)
    revised = [REVISIONS_NOTE.format(*revision) for revision in _revisions(jobs)]
    return [SYNTHETIC_NOTE] * synthetic + [sample_note] * bool(sampled) + [OPEN_NOTE] * opened + revised


def _revisions(summaries: Iterable[Summary]) -> list[tuple[str, str]]:
    """Name and revisions of the cases with several revisions. A case on another framework is another case."""
    revisions_of: dict[tuple[str, str], set[int]] = {}
    for identity in (result.identity for summary in summaries for result in summary.results):
        revisions_of.setdefault((identity.case, identity.framework), set()).add(identity.revision)
    several = {case: sorted(revisions) for (case, _), revisions in revisions_of.items() if len(revisions) > 1}
    return [(case, " and ".join(map(str, revisions))) for case, revisions in several.items()]


Problem = tuple[str, Verdict, Sequence[str], Failure | None]


def problems(summary: Summary) -> Iterator[Problem]:
    """Rounds, verdict, reasons and failure where a job is not VALID. Rounds with the same reasons stand together."""
    if summary.reasons:
        yield "all rounds", "SUSPECT", summary.reasons, None
    alike: dict[tuple[Verdict, tuple[str, ...], str], list[Result]] = {}
    for result in summary.results:
        if result.reasons:
            alike.setdefault((result.verdict, result.reasons, str(result.failure)), []).append(result)
    for (answer, reasons, _), results in alike.items():
        numbers = [str(result.round) for result in results]
        yield f"round{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}", answer, reasons, results[0].failure


def problems_of_run(summaries: Sequence[Summary]) -> list[Problem]:
    """As `problems`, with the names of the jobs. Jobs with the same problem stand together."""
    alike: dict[tuple[str, Verdict, tuple[str, ...], str], list[str]] = {}
    failures: dict[str, Failure | None] = {}
    for summary in summaries:
        for part, answer, reasons, failure in problems(summary):
            failures[str(failure)] = failure
            alike.setdefault((part, answer, tuple(reasons), str(failure)), []).append(summary.name)
    return [
        (f"{_jobs(names, len(summaries))}, {part}", answer, reasons, failures[failure])
        for (part, answer, reasons, failure), names in alike.items()
    ]


def _jobs(names: Sequence[str], jobs: int) -> str:
    return f"all {jobs} jobs" if len(names) == jobs > 1 else ", ".join(names)
