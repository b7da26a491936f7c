"""The texts of a case's page: the description of the model, and of its data. In Chinese, where there is such a page."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flagperf.config.files.search_path import CASE_PAGES, CHINESE_CASE_PAGES, CONF, family_of

LOCAL_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
COMMENT = re.compile(r"<!-- .*? -->\n?")


@dataclass(frozen=True)
class CaseText:
    """Parts of the page, in Markdown; "" where the page lacks a part."""

    title: str
    model: str
    data: str


def case_text(case: str) -> CaseText:
    """The texts of a case such as "paddle/bert". Parts that its page lacks come from the page of "bert"."""
    page, main_page = _read(case), _read(case.rpartition("/")[2])
    return CaseText(page.title, page.model or main_page.model, page.data or main_page.data)


def _read(case: str) -> CaseText:
    family = family_of(case, (CONF,))
    paths = (folder / f"{family}.md" for folder in (CHINESE_CASE_PAGES, CASE_PAGES))
    page = next((path for path in paths if path.is_file()), None)
    text = page.read_text(encoding="utf-8") if page else ""
    text = COMMENT.sub("", LOCAL_LINK.sub(r"\1", text))
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    data = next((part for part in sections if part.startswith(("Data", "数据"))), "")
    title = head.partition("\n")[0].partition("：")[2] if family == case else ""  # a page has the title of one size
    return CaseText(title, _paragraphs(head), data.partition("\n")[2].strip())


def _paragraphs(head: str) -> str:
    """The text between the title and the first table."""
    return head.partition("\n")[2].partition("\n|")[0].strip()
