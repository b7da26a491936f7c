"""MLPerf's checker says of the cases what their pages tell: SUCCESS in its open division, what a closed log lacks."""

from __future__ import annotations

import mlperf_pages
import pytest

# MLPerf's open rules of llama31_8b are a copy of those of cases whose metric is an accuracy: they want a loss below 1.
OPEN = {"llama3_8b": "breaks the rule of `eval_accuracy` (`v['value'] < 1.0`)"}


@pytest.mark.parametrize("case", mlperf_pages.CASES)
def test_the_checker_and_the_page_agree(case: str) -> None:
    renew = "renew it: python tests/cases/mlperf_pages.py"
    assert mlperf_pages.renewed(case) == mlperf_pages.page(case).read_text(encoding="utf-8"), renew
    assert mlperf_pages.told(case, "open") == OPEN.get(case, "SUCCESS")
