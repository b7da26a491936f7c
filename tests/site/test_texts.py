"""Every text of the site is in Chinese as well, and no text is left over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import flagperf.site
from flagperf.results import closed, compared, extent, learning, took_part, verdict
from flagperf.site import entries, pages, plots, published
from flagperf.site.texts import sentences

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
    texts |= {*plots.COSTS, *pages.FILTERS, *pages.ORDER, *published.SETTINGS.values()}
    texts |= {title for title, _ in published.OTHERS.values()}
    return texts | {f"throughput, {name}" for name in published.RATES} | {"day"}


def test_the_chinese_texts_are_those_that_are_used() -> None:
    translated = yaml.safe_load((PACKAGE / "zh.yaml").read_text(encoding="utf-8"))
    assert {*translated} == used()
    assert all(isinstance(text, str) and text for text in translated.values())


def templates(module: ModuleType) -> Iterator[str]:
    """The sentences that the rules of a module yield; {} stands for each value."""
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))):
        value = node.value if isinstance(node, ast.Yield) else None
        text = value.elts[1] if isinstance(value, ast.Tuple) and len(value.elts) == 2 else value
        if isinstance(text, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in text.values)
        elif isinstance(text, ast.Constant):
            yield str(text.value)


@pytest.mark.parametrize("module", [verdict, closed, learning, extent, took_part, compared], ids=lambda m: m.__name__)
def test_every_reason_of_a_verdict_is_translated(module: ModuleType) -> None:
    known = yaml.safe_load((PACKAGE / "sentences.zh.yaml").read_text(encoding="utf-8"))
    assert [text for text in templates(module) if text not in known] == []
    assert {english: chinese for english, chinese in known.items() if english.count("{}") != chinese.count("{}")} == {}


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("max_steps=400 was asked, max_time ended it at 80", "要求 max_steps=400，但 max_time 使其在 80 处结束"),
        (
            "another network than the case's: 12 parameters, the case has 11",
            "网络与算例的不同：12 个参数，算例有 11",
        ),
        ("rank 3: the code of flagperf is not the launcher's", "进程 3：flagperf 的代码与启动器的不同"),
        ("a sentence of a later version", "a sentence of a later version"),
    ],
)
def test_sentences(english: str, chinese: str) -> None:
    assert sentences("zh")(english) == chinese
