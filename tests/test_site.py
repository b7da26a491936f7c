"""The documentation site in a real browser: it works offline, and its search finds Chinese words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browser import CHROMIUM, browser

ROOT = Path(__file__).parents[1]
LINKS = "[...document.querySelectorAll('#search-results li a')]"
RESULTS = LINKS + ".map((link) => link.getAttribute('href').split(/[?#]/)[0])"
SCORES = LINKS + ".map((link) => [link.getAttribute('href'), Number(link.dataset.score)])"
OF_TEXT = 5  # the highest score of words that are in no title: docs/site/scorer.js
LATER = ("docs/cases/", "vendors/", "CHANGELOG", "CONTRIBUTING")  # as there
SEARCHES = {  # language → query → a page that the search finds
    "zh": {"断点续训": "docs/zh/configuration.html", "损失和指标": "docs/zh/start/case-author.html"},
    "en": {"mutable keys": "docs/configuration.html", "spirals": "docs/start/case-author.html"},
}

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]


@pytest.mark.parametrize("language", SEARCHES)
def test_the_search_finds_pages(language: str, tmp_path: Path) -> None:
    site = tmp_path / language
    options = ["-q", "-W", "--keep-going", "-c", "docs/site", "-t", language]
    argv = [sys.executable, "-m", "sphinx", *options, ".", str(site)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    with browser(tmp_path / "profile") as tab:
        for query, page in SEARCHES[language].items():
            tab.open(site / "search.html", query="?" + urlencode({"q": query}))
            tab.wait_for(f"{RESULTS}.includes({json.dumps(page)})")
            if language == "en":  # guides come first; a word of a title counts more
                tab.wait_for("document.querySelector('.search-summary').textContent.startsWith('Search finished')")
                of_text = [page for page, score in tab.evaluate(SCORES) if score <= OF_TEXT]
                assert (later := [page.startswith(LATER) for page in of_text]) == sorted(later)
            assert {url.split(":")[0] for url in tab.requests()} <= {"file", "data"}
            assert tab.problems() == []
        tab.open(site / "docs" / ("zh" if language == "zh" else "") / "probe.html")
        assert tab.inaccessible() == []
