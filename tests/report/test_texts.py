"""Reports in Chinese: what they show, and what runs state."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from recorded import recorded_run

from flagperf import report
from flagperf.cli.main import run_command
from flagperf.report.page import page
from flagperf.report.texts import GAP, of_page, sentences, squeezed, strings, words
from flagperf.results import closed, compared, extent, learning, took_part, verdict
from flagperf.run.folder import RUN_LOG


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
    assert [text for text in templates(module) if text not in words("zh")] == []


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("max_steps=400 was asked, max_time ended it at 80", "要求 max_steps=400，但 max_time 使其在 80 处结束"),
        (
            "another network than the case's: 12 parameters, the case has 11",
            "网络与算例的不同：12 个参数，算例有 11",
        ),
        ("rank 3: the code of flagperf is not the launcher's", "进程 3：flagperf 的代码与启动器的不同"),
        (
            "rank 1 on vm is slower than its fellows: host to device 1.319 GB/s, 26% below their 1.791",
            "进程 1（vm）比其他进程慢：主机到设备 1.319 GB/s，低 26%（其他进程为 1.791）",
        ),
        ("a sentence of a later version", "a sentence of a later version"),
    ],
)
def test_sentences(english: str, chinese: str) -> None:
    assert sentences("zh")(english) == chinese


def test_a_translation_has_the_gaps_of_its_original() -> None:
    known = words("zh")
    assert {english: chinese for english, chinese in known.items() if english.count(GAP) != chinese.count(GAP)} == {}


def test_a_hostile_text_costs_no_time() -> None:
    """No form is compared with a long text."""
    text = "rank " + " on " * 100_000
    assert sentences("zh")(text) == text


ENGLISH = re.compile(r"\b[a-z]{3,} (\w+ )?[a-z]{3,}\b")
FOREIGN = re.compile(
    "flagperf predict|ResNet-50 .*-1k|GLM-large .* ReCoRD|ipmitool.*RAPL.*"
)  # commands, titles, messages of a host


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The report of a run with two rounds, of a sweep, a comparison and a list."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [recorded_run(folder, name) for name in ("two-rounds", "sweep")]
    reports = [page(run, report.read_run(run)) for run in runs]
    for run in runs:
        (run / RUN_LOG).write_text("")
    compared, listed = folder / "compared.html", folder / "listed.html"
    assert run_command(["compare", str(runs[0]), str(runs[0]), f"html={compared}"]) == 0
    assert run_command(["list", "runs", str(folder), f"html={listed}"]) == 0
    return [*reports, compared.read_text(encoding="utf-8"), listed.read_text(encoding="utf-8")]


def test_reports_are_translated(pages: list[str]) -> None:
    """No English words beside each other are left."""
    shown = {sentences("zh")(text) for page_ in pages for text in texts_of(page_)}
    assert [text for text in shown if ENGLISH.search(FOREIGN.sub("", text))] == []


def texts_of(page_: str) -> set[str]:
    """The texts of a page and of its plots."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page_, re.DOTALL)
    return {squeezed(text) for text in (*of_page(page_.partition("<body>")[2]), *strings(json.loads(data)))}
