"""The texts of a case's page below docs/cases: the description of the model, and of its data."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flagperf.config.files.search_path import CASE_PAGES, CONF, family_of

LOCAL_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
COMMENT = re.compile(r"<!-- .*? -->\n?")


@dataclass(frozen=True)
class CaseText:
    """Two parts of the page, in Markdown; "" where the page lacks a part."""

    model: str
    data: str


def case_text(case: str) -> CaseText:
    """The texts of a case such as "paddle/bert". Parts that its page lacks come from the page of "bert"."""
    page, main_page = _read(case), _read(case.rpartition("/")[2])
    return CaseText(page.model or main_page.model, page.data or main_page.data)


def _read(case: str) -> CaseText:
    path = CASE_PAGES / f"{family_of(case, (CONF,))}.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    text = COMMENT.sub("", LOCAL_LINK.sub(r"\1", text))
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    data = next((part for part in sections if part.startswith("Data")), "")
    return CaseText(_paragraphs(head), data.partition("\n")[2].strip())


def _paragraphs(head: str) -> str:
    """The text between the title and the first table."""
    return head.partition("\n")[2].partition("\n|")[0].strip()
