"""What `train_batch_size=auto` tried and found, as a sentence and a table."""

from __future__ import annotations

from flagperf.config.parts.batch_size import GLOBAL
from flagperf.contract.records import Summary
from flagperf.report.cells import number
from flagperf.results import batch_sizes


def batch_line(summary: Summary) -> str:
    """What was found, and that the learning rate was left alone; empty where nothing was looked for."""
    if (search := summary.batch) is None:
        return ""
    most = "" if search.limit is None else f" with at most {number(search.limit)} GiB a rank"
    if not batch_sizes.is_over(search):
        return f"train_batch_size=auto was broken off{most}, after:"
    if search.found is None:
        return f"train_batch_size=auto found no size that fits{most}:"
    left = "lr" if search.sizes is None else GLOBAL
    found = f"train_batch_size=auto found {search.found}, the largest that fits{most}"
    return f"{found}. {left} was left as it is, {summary.config.get(left)}:"


def batch_rows(summary: Summary) -> list[dict[str, str]]:
    """Each size that was tried, the smallest first."""
    search = summary.batch
    return [
        {
            "train_batch_size": str(one.size),
            "peak memory [GiB]": number(one.peak_memory),
            summary.identity.throughput_unit: number(one.throughput),
            "fits": "yes" if one.fits else one.note,
        }
        for one in sorted(search.tried if search else (), key=lambda one: one.size)
    ]
