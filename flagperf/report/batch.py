"""The search of `train_batch_size=auto`, as a sentence and a table."""

from __future__ import annotations

from flagperf.config.parts.batch_size import GLOBAL
from flagperf.contract.records import Summary
from flagperf.report.cells import number
from flagperf.results import batch_sizes


def batch_line(summary: Summary) -> str:
    """The result of the search, and the key that the search did not change; "" where the job made no search."""
    if (search := summary.batch) is None:
        return ""
    limit_text = "" if search.limit is None else f" with at most {number(search.limit)} GiB a rank"
    if not batch_sizes.is_over(search):
        return f"train_batch_size=auto was broken off{limit_text}, after:"
    if search.found is None:
        return f"train_batch_size=auto found no size that fits{limit_text}:"
    kept_key = "lr" if search.sizes is None else GLOBAL
    result_text = f"train_batch_size=auto found {search.found}, the largest that fits{limit_text}"
    return f"{result_text}. {kept_key} was left as it is, {summary.config.get(kept_key)}:"


def batch_rows(summary: Summary) -> list[dict[str, str]]:
    """A row for each size that was tried, in ascending order."""
    search = summary.batch
    return [
        {
            "train_batch_size": str(attempt.size),
            "peak memory [GiB]": number(attempt.peak_memory),
            summary.identity.throughput_unit: number(attempt.throughput),
            "fits": "yes" if attempt.fits else attempt.note,
        }
        for attempt in sorted(search.tried if search else (), key=lambda attempt: attempt.size)
    ]
