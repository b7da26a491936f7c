"""Every text of the site is in Chinese as well, and no text is left over. It shares the texts of reports."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import flagperf.site
from flagperf.report.texts import words
from flagperf.site import entries, pages, plots, published

PACKAGE = Path(flagperf.site.__file__).parent


def used() -> set[str]:
    """The texts in templates and code."""
    templates = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.glob("templates/*.j2"))
    sources = [Path(module.__file__ or "").read_text(encoding="utf-8") for module in (entries, plots, pages)]
    texts = set(re.findall(r'\b_\("([^"]+)"\)', templates))
    for heads in re.findall(r"\bheads = (?:heads \+ )?(.*) %}|for head in \(([^)]*)\)", templates):
        texts |= set(re.findall(r'"([^"]+)"', "".join(heads)))
    for source in sources:
        texts |= set(re.findall(r'(?:translate|Figure|_text|_figure)\(\s*["\']([^"\']+)["\']', source))
    texts |= {*plots.COSTS, *plots.WITHOUT.values(), *pages.FILTERS, *pages.ORDER, *published.SETTINGS.values()}
    texts |= {title for title, _ in published.OTHERS.values()}
    return texts | {f"throughput, {name}" for name in published.RATES} | {"day"}


def test_the_chinese_texts_are_those_that_are_used() -> None:
    translated = yaml.safe_load((PACKAGE / "zh.yaml").read_text(encoding="utf-8"))
    assert {*translated} == used() - {*words("zh")}
    assert all(isinstance(text, str) and text for text in translated.values())
