"""What people wrote of a case on its page below docs/cases: what the model is and where it is from, and its data."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flagperf.config.files.search_path import CASE_PAGES

LOCAL_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
COMMENT = re.compile(r"<!-- .*? -->\n?")


@dataclass(frozen=True)
class CaseText:
    """Two parts of the page, in Markdown; empty where the page has none."""

    model: str
    data: str


def case_text(case: str) -> CaseText:
    """The texts of a case such as "paddle/bert". What its own page lacks, that of "bert" has."""
    own, main = _read(case), _read(case.rpartition("/")[2])
    return CaseText(own.model or main.model, own.data or main.data)


def _read(case: str) -> CaseText:
    path = CASE_PAGES / f"{case}.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    text = COMMENT.sub("", LOCAL_LINK.sub(r"\1", text))
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    data = next((part for part in sections if part.startswith("Data")), "")
    return CaseText(_paragraphs(head), data.partition("\n")[2].strip())


def _paragraphs(head: str) -> str:
    """What stands between the title and the first table."""
    return head.partition("\n")[2].partition("\n|")[0].strip()
