"""The site in a real browser, opened from its files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import CHROMIUM, Page

from flagperf.cli.main import run_command

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

SHOWN = "document.querySelectorAll('table.list tbody:not([hidden])').length"


def kinds_of_pages(site: Path) -> list[Path]:
    """A page of each kind, in both languages."""
    bundle = next(site.glob("bundle/*.html")).relative_to(site)
    names = ("index.html", "case/resnet50.html", "compare.html", str(bundle))
    return [site / folder / name for folder in ("", "zh") for name in names]


@pytest.mark.parametrize("width", [1400, 900, 420])
def test_no_page_scrolls_sideways_or_asks_another_host(tab: Page, site: Path, width: int) -> None:
    for page in kinds_of_pages(site):
        for dark in (False, True):
            tab.open(page, width=width, dark=dark)
            wide = tab.evaluate("document.documentElement.scrollWidth")
            inner = tab.evaluate(
                "[...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth)"
            )
            assert (page.name, wide, inner, tab.problems()) == (page.name, width, True, [])
            assert {url.split(":")[0] for url in tab.requests()} <= {"file", "data"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(tab: Page, site: Path, dark: bool) -> None:
    """Contrast of at least 4.5 (WCAG AA) between all text and what it stands on."""
    contrast = (Path(__file__).parents[1] / "data" / "contrast.js").read_text()
    for page in kinds_of_pages(site)[:4]:
        tab.open(page, dark=dark)
        assert (page.name, tab.evaluate(contrast)) == (page.name, [])


@pytest.mark.slow
def test_pages_are_accessible(tab: Page, site: Path) -> None:
    """To axe-core."""
    for page in kinds_of_pages(site):
        tab.open(page)
        assert (page.name, tab.inaccessible()) == (page.name, [])


def test_plots_are_drawn(tab: Page, site: Path) -> None:
    tab.open(site / "case/resnet50.html")
    assert tab.evaluate("document.querySelectorAll('figure svg circle').length") == 6


def test_filters_are_in_the_address(tab: Page, site: Path) -> None:
    tab.open(site / "index.html")
    every = tab.evaluate(SHOWN)
    assert tab.evaluate("document.querySelector('output').textContent") == f"{every} / {every}"
    for name, value in (("vendor", "cpu"), ("verdict", "SUSPECT")):
        select = f"document.querySelector('select[name={name}]')"
        tab.evaluate(f"{select}.value = '{value}'; {select}.dispatchEvent(new Event('change', {{bubbles: true}}))")
    assert (tab.evaluate("location.search"), tab.evaluate(SHOWN)) == ("?vendor=cpu&verdict=SUSPECT", 2)
    tab.open(site / "index.html", query="?vendor=cpu&verdict=SUSPECT&scale=unknown")
    assert (tab.evaluate(SHOWN), tab.evaluate("document.querySelector('select[name=vendor]').value")) == (2, "cpu")
    tab.evaluate("document.querySelector('button[type=reset]').click()")
    tab.wait_for(f"{SHOWN} === {every}")
    assert tab.evaluate("location.search") == ""


def test_rows_side_by_side(tab: Page, site: Path) -> None:
    """The chosen rows are in the address, and so a comparison can be sent to others."""
    tab.open(site / "index.html")
    tab.evaluate(
        "document.querySelectorAll('.pick input').forEach((box, row) => (box.checked = row === 3 || row === 4))"
    )
    ids = tab.evaluate("[...document.querySelectorAll('.pick input:checked')].map((box) => box.value)")
    assert ids == ["published-bert-2", "published-bert-1"]
    tab.open(site / "compare.html", query=f"?row={ids[0]}&row={ids[1]}")
    cells = "[...document.querySelectorAll('#beside tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    rows = tab.evaluate(cells)
    assert rows[0] == ["", "bert\nA100 2x8, amp_fp16", "bert\nA100 1x8, amp_fp16"]
    assert ["throughput, p_train", "1,116 sequences/s", "599 sequences/s\n×0.537"] in rows
    tab.open(site / "compare.html", query="?row=unknown")
    assert tab.evaluate("document.querySelectorAll('#beside table').length") == 0


def test_the_button_leads_to_the_comparison(tab: Page, site: Path) -> None:
    tab.open(site / "zh/index.html")
    tab.evaluate("document.querySelectorAll('.pick input').forEach((box, row) => (box.checked = row < 2))")
    tab.follow("document.querySelector('.compare button')")
    assert tab.evaluate("location.pathname").endswith("/zh/compare.html")
    tab.wait_for("document.querySelector('#beside table') !== null")


@pytest.mark.parametrize("width", [1400, 420])
def test_without_javascript_every_row_is_there(tab: Page, site: Path, width: int) -> None:
    tab.open(site / "index.html")
    every = tab.evaluate(SHOWN)
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.resize(width, 900)
        tab.call("Page.navigate", url=f"{(site / 'index.html').resolve().as_uri()}?vendor=cpu")
        tab.wait_for("location.search === '?vendor=cpu' && document.readyState === 'complete'")
        state = f"[{SHOWN}, document.getElementById('filters').hidden, document.documentElement.scrollWidth]"
        assert tab.evaluate(state) == [every, True, width]
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.slow
@pytest.mark.torch
def test_a_real_run_becomes_a_row(tab: Page, tmp_path: Path) -> None:
    """The example of the docs: a training on this CPU, its bundle, and the site."""
    words = ("model=resnet50", "size=tiny", "nproc=2", "max_steps=6", f"result_dir={tmp_path}", "run_name=run")
    assert run_command(["run", *words]) == 0
    bundle = tmp_path / "run.tar.zst"
    assert run_command(["export", str(tmp_path / "run"), str(bundle)]) == 0
    assert run_command(["site", str(bundle), f"into={tmp_path / 'public'}"]) == 0
    tab.open(tmp_path / "public/index.html", query="?vendor=cpu")
    row = tab.evaluate("document.querySelector('table.list tbody:not([hidden])').innerText")
    assert tab.evaluate(SHOWN) == 1
    lines = [line for line in row.splitlines() if line.strip()]
    assert lines[0].split("\t")[1:8] == ["resnet50 (tiny, revision 2)", "cpu", "cpu", "1x2", "fp32", "closed", "VALID"]
    pattern = r"network [0-9a-f]{16} \(as the case states\) · not signed · not approved by a vendor · .*torch \d.*"
    assert re.fullmatch(pattern, lines[1])
    assert lines[2].startswith("flagperf model=resnet50 size=tiny nproc=2 max_steps=6")
