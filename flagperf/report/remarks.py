"""Sentences on a whole run: its headline, warnings, and the reasons of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from flagperf.contract.outcome import Failure
from flagperf.contract.records import Summary, Verdict
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
    answers = [result.target_reached for summary in summaries for result in usable(summary.results)]
    known = [answer for answer in answers if answer is not None]
    goal = f"; target reached in {sum(known)} of {len(known)} rounds" if known else ""
    return f"{jobs}: {', '.join(verdicts)}{goal}."


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


def problems(summary: Summary) -> Iterator[tuple[str, Verdict, Sequence[str], Failure | None]]:
    """Name, verdict, reasons and failure of the job and of each of its rounds that is not VALID."""
    if summary.reasons:
        yield "all rounds", "SUSPECT", summary.reasons, None
    for result in summary.results:
        if result.reasons:
            yield f"round {result.round}", result.verdict, result.reasons, result.failure
