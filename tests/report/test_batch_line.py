"""What a report says of the search for the largest batch."""

from __future__ import annotations

import pytest

from flagperf.contract.records import BatchSearch, Summary, TriedSize
from flagperf.report.batch import batch_line

ONE, TWO, FOUR = TriedSize(1, "", 1.0), TriedSize(2, "", 2.0), TriedSize(4, "out of memory")
NOT_ONE = TriedSize(1, "over the limit", 3.0)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        pytest.param(None, "", id="none"),
        pytest.param(
            BatchSearch(2, 2.5, (ONE, TWO)),
            "train_batch_size=auto found 2, the largest that fits with at most 2.5 GiB a rank. "
            "lr was left as it is, 0.1:",
            id="found",
        ),
        pytest.param(
            BatchSearch(2, None, (TWO, FOUR), (1, 2, 4)),
            "train_batch_size=auto found 2, the largest that fits. global_batch_size was left as it is, 8:",
            id="of those that give whole steps",
        ),
        pytest.param(
            BatchSearch(None, None, (NOT_ONE,)), "train_batch_size=auto found no size that fits:", id="nothing fits"
        ),
        pytest.param(
            BatchSearch(2, None, (TWO, FOUR)), "train_batch_size=auto was broken off, after:", id="interrupted"
        ),
    ],
)
def test_batch_line(search: BatchSearch | None, said: str) -> None:
    assert batch_line(Summary("job", (), {}, {"lr": 0.1, "global_batch_size": 8}, (), batch=search)) == said
