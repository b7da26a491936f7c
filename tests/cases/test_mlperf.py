"""MLPerf's checker says of the cases what their pages tell: SUCCESS in its open division, what a closed log lacks."""

from __future__ import annotations

import mlperf_pages
import pytest


@pytest.mark.parametrize("case", mlperf_pages.CASES)
def test_the_checker_and_the_page_agree(case: str) -> None:
    renew = "renew it: python tests/cases/mlperf_pages.py"
    assert mlperf_pages.renewed(case) == mlperf_pages.page(case).read_text(encoding="utf-8"), renew
    assert mlperf_pages.told(case, "open") == "SUCCESS"
