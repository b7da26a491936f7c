"""docs/case-table.md says what the cases are: whoever changes one of them renews it, and sees what changed."""

from __future__ import annotations

from pathlib import Path

import case_table

TABLE = Path(__file__).parents[2] / "docs" / "case-table.md"


def test_the_table_of_the_cases() -> None:
    renew = "renew it: python tests/cases/case_table.py > docs/case-table.md"
    assert case_table.page() == TABLE.read_text(encoding="utf-8"), renew
