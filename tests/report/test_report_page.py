"""report.html in a real browser: it draws, it can be used by keyboard and on a phone, and nothing leaves the file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, VIEWS, Page
from example_results import a_result
from test_report import RUNS, VALUES, a_summary, make_run

from flagperf import report
from flagperf.contract.outcome import Failure
from flagperf.report.page import page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]


OPEN = "document.querySelectorAll('details').forEach((part) => (part.open = true))"


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a sweep of two jobs with two rounds each."""
    folder = tmp_path_factory.mktemp("runs") / "run20260101-120000"
    for size in (8, 16):
        make_run(folder, name=f"resnet50-pytorch-A100x2x8,train_batch_size={size}")
    return report.write(folder, report.read_run(folder))[1]


def test_it_draws_and_asks_for_nothing(tab: Page, html: Path) -> None:
    tab.open(html)
    tab.evaluate(OPEN)
    tab.settle()
    drawn = tab.evaluate(
        "[...document.querySelectorAll('figure')].map((f) => f.querySelector('svg').childElementCount > 5)"
    )
    assert drawn == [True] * 16  # four plots a job, one a round, and of the run two of the sweep and two of all jobs
    assert (tab.problems(), tab.requests()) == ([], [html.resolve().as_uri()])


@pytest.mark.parametrize(("name", "plots"), [("two-rounds", 12), ("sweep", 16)])
def test_recorded_runs_draw(tab: Page, tmp_path: Path, name: str, plots: int) -> None:
    folder = shutil.copytree(RUNS / name, tmp_path / name)
    tab.open(report.write(folder, report.read_run(folder))[1])
    tab.evaluate(OPEN)
    tab.settle()
    assert (tab.evaluate("document.querySelectorAll('figure svg').length"), tab.problems()) == (plots, [])


HEADINGS = "[...document.querySelectorAll('main h2')].map((heading) => heading.innerText)"
LANGUAGES = "[document.documentElement.lang, ...[...document.querySelectorAll('.languages a')].map((a) => a.hidden)]"


@pytest.mark.parametrize(
    ("query", "headings", "languages"),
    [
        pytest.param("", ["Results", "Sweep", "Jobs over each other", "Jobs"], ["en", True, False], id="the browser's"),
        pytest.param("?lang=zh", ["结果", "扫描", "各作业的曲线", "作业"], ["zh", False, True], id="Chinese"),
        pytest.param(
            "?lang=xx", ["Results", "Sweep", "Jobs over each other", "Jobs"], ["en", True, False], id="unknown"
        ),
    ],
)
def test_languages(tab: Page, html: Path, query: str, headings: list[str], languages: list[object]) -> None:
    tab.open(html, query=query)
    assert (tab.evaluate(HEADINGS), tab.evaluate(LANGUAGES), tab.problems()) == (headings, languages, [])


def test_a_report_in_chinese(tab: Page, html: Path) -> None:
    """Numbers keep their units, plots and their tips are translated, and nothing is wider than a phone."""
    tab.open(html, query="?lang=zh", width=420)
    tab.evaluate(OPEN)
    tab.settle()
    assert tab.evaluate(HIDDEN) == [420]
    titles = tab.evaluate("[...document.querySelectorAll('#job1 figcaption')].map((title) => title.innerText)")
    assert titles[:3] == ["损失", "评估的指标", "作业的吞吐量"]
    (shape, *_) = tab.evaluate("[...document.querySelectorAll('svg [role=img]')].map((shape) => shape.ariaLabel)")
    assert shape == "导入: 1 s\n从 0 s 到 1 s"
    assert tab.evaluate("document.querySelector('.sorting').innerText").startswith("排序")


def test_the_verdict_is_on_the_first_screen(tab: Page, html: Path) -> None:
    tab.open(html, height=500)
    bottom = tab.evaluate("document.querySelector('.headline').getBoundingClientRect().bottom")
    headline = tab.evaluate("document.querySelector('.headline').innerText")
    assert headline == "VALID 2 jobs: 2 VALID; target reached in 4 of 4 rounds."
    assert bottom < 250


def test_tables_sort_by_number(tab: Page, html: Path) -> None:
    tab.open(html)
    column = "[...document.querySelectorAll('[aria-label=Sweep] tbody tr')].map((row) => row.cells[0].innerText)"
    head = "document.querySelector('[aria-label=Sweep] th')"
    assert tab.evaluate(column) == ["8", "16"]
    for order, expected in (("ascending", ["8", "16"]), ("descending", ["16", "8"])):
        tab.evaluate(f"{head}.querySelector('button').click()")
        assert (tab.evaluate(f"{head}.ariaSort"), tab.evaluate(column)) == (order, expected)


def test_cards_sort_by_a_list(tab: Page, html: Path) -> None:
    """Cards have no headings. The list of their columns takes one line."""
    tab.open(html, width=420)
    bar, column = "document.querySelector('[aria-label=Sweep] .sorting')", "train_batch_size"
    shown = tab.evaluate(f"{bar}.getBoundingClientRect().height")
    texts = f"[...{bar}.querySelectorAll('option')].map((option) => option.text)"
    assert (shown < 40, tab.evaluate(texts)[:3]) == (True, ["the given order", column, "p_whole"])
    rows = "[...document.querySelectorAll('[aria-label=Sweep] tbody tr')].map((row) => row.cells[0].innerText)"
    button = "document.querySelector('[aria-label=Sweep] th button')"
    for value in ("0", ""):  # the first column, and the order of the run
        tab.evaluate(f"{button}.closest('th').removeAttribute('aria-sort'), {button}.click(), {button}.click()")
        assert tab.evaluate(rows) == ["16", "8"]
        select = f"{bar}.querySelector('select')"
        tab.evaluate(f"{select}.value = '{value}', {select}.dispatchEvent(new Event('change'))")
        assert tab.evaluate(rows) == ["8", "16"]


@pytest.mark.parametrize("width", [420, 900])
def test_cells_of_cards_are_whole(tab: Page, tmp_path: Path, width: int) -> None:
    """No heading reaches into the next cell, and no number is broken before its unit."""
    folder = shutil.copytree(RUNS / "two-rounds", tmp_path / "two-rounds")
    tab.open(report.write(folder, report.read_run(folder))[1], width=width)
    tab.evaluate(OPEN)
    tab.settle()
    assert tab.evaluate((Path(__file__).parents[1] / "data" / "broken_cells.js").read_text()) == []


@pytest.mark.parametrize("width", [420, 900, 1400])
def test_an_energy_with_its_kind_is_on_one_line(tab: Page, tmp_path: Path, width: int) -> None:
    rounds = [a_result(values=VALUES, monitors=energy(watt_hours)) for watt_hours in (1.033, 1.115)]
    path = tmp_path / "report.html"
    path.write_text(page(tmp_path, [a_summary(*rounds)]), encoding="utf-8")
    tab.open(path, width=width)
    assert tab.evaluate((Path(__file__).parents[1] / "data" / "broken_cells.js").read_text()) == []
    assert "1.074 ± 0.058 (devices)" in tab.evaluate("document.body.innerText").replace("\u00a0", " ")


def energy(watt_hours: float) -> dict[str, Any]:
    """What the monitors of the accelerators measured."""
    of_devices = {"energy_wh": watt_hours, "energy_j": 3600 * watt_hours, "coverage": 1.0}
    return {"nodes": {}, "energy": {"devices": of_devices}}


def test_rows_lead_to_their_jobs(tab: Page, html: Path) -> None:
    tab.open(html)
    jobs = "[...document.querySelectorAll('details.job')]"
    tab.evaluate(f"{jobs}.forEach((job) => (job.open = false))")
    for table in ("Results", "Sweep"):
        links = f"[...document.querySelectorAll('[aria-label={table}] tbody a')].map((link) => link.hash)"
        assert tab.evaluate(links) == ["#job1", "#job2"]
    tab.evaluate("document.querySelector('#results tbody tr:last-child a').click()")
    tab.settle()
    assert tab.evaluate(f"{jobs}.map((job) => [job.open, job.getBoundingClientRect().top >= 0])")[1] == [True, True]
    assert tab.evaluate(f"{jobs}[0].open") is False


def test_a_plot_is_read_by_keyboard(tab: Page, html: Path) -> None:
    tab.open(html)
    figure = "document.querySelector('details.job figure')"
    tab.evaluate(f"{figure}.querySelector('svg').focus()")
    for key, text in (
        ("Home", "step 10\nround 1: 5\nround 2: 5"),
        ("ArrowRight", "step 20\nround 1: 2.5\nround 2: 2.5"),
    ):
        tab.press(key)
        assert tab.evaluate(f"{figure}.querySelector('.tip').textContent") == text
    tab.press("Escape")
    assert tab.evaluate(f"{figure}.querySelector('.tip').hidden") is True


def test_shapes_say_what_they_are(tab: Page, html: Path) -> None:
    tab.open(html)
    labels = tab.evaluate("[...document.querySelectorAll('svg [role=img]')].map((shape) => shape.ariaLabel)")
    first = [label for label in labels if "s" in label][:3]
    assert first == [
        "imports: 1 s\nfrom 0 s to 1 s",
        "init: 4 s\nfrom 1 s to 5 s",
        "first step: 1.8 s\nfrom 5 s to 6.8 s",
    ]


HIDDEN = """(() => {
  const wide = (part) => (part.scrollWidth > part.clientWidth ? [part.ariaLabel || part.tagName] : []);
  const seen = (head) => getComputedStyle(head.closest("thead")).display === "table-header-group";
  const named = (cell, head) => seen(head) || getComputedStyle(cell, "::before").content === `"${head.textContent}"`;
  const hidden = (cell) => {
    const { left, right } = cell.getBoundingClientRect();
    return left < 0 || right > innerWidth || !named(cell, cell.closest("table").tHead.rows[0].cells[cell.cellIndex]);
  };
  const cells = [...document.querySelectorAll("tbody td")].filter(hidden).map((cell) => cell.outerHTML);
  const frames = [...document.querySelectorAll(".scroll, pre")].flatMap(wide);
  return [document.documentElement.scrollWidth, ...frames, ...cells];
})()"""


@pytest.mark.parametrize("width", [320, 420, 900, 1400, 1920])
def test_everything_is_seen_at_any_width(tab: Page, html: Path, width: int) -> None:
    """Neither the page nor a table scrolls sideways, and each cell stands below its heading or bears it."""
    tab.open(html, width=width)
    tab.evaluate(OPEN)
    tab.settle()
    assert tab.evaluate(HIDDEN) == [width]


def test_tables_are_cards_where_there_is_no_room(tab: Page, html: Path) -> None:
    cards = "document.querySelector('#results table').classList.contains('cards')"
    found = {}
    for width in (1920, 420):
        tab.open(html, width=width)
        found[width] = tab.evaluate(cards)
    tab.resize(1920, 900)
    tab.settle()
    assert (found, tab.evaluate(cards)) == ({1920: False, 420: True}, False)


def test_plots_follow_the_width(tab: Page, html: Path) -> None:
    tab.open(html, width=375)
    narrow = tab.evaluate("document.querySelector('svg').viewBox.baseVal.width")
    tab.resize(1280, 900)
    tab.settle()
    assert tab.evaluate("document.querySelector('svg').viewBox.baseVal.width") != narrow


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(tab: Page, html: Path, dark: bool) -> None:
    """Contrast of at least 4.5 (WCAG AA) between all text and what it stands on."""
    tab.open(html, dark=dark)
    assert tab.evaluate((Path(__file__).parents[1] / "data" / "contrast.js").read_text()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), VIEWS)
def test_it_is_accessible(tab: Page, html: Path, tmp_path: Path, width: int, dark: bool) -> None:
    """To axe-core; also in Chinese, and the report of a run with problems. The rule finds a picture without a text."""
    folder = shutil.copytree(RUNS / "sweep", tmp_path / "sweep")
    problems = report.write(folder, report.read_run(folder))[1]
    for path, query in ((html, ""), (html, "?lang=zh"), (problems, "")):
        tab.open(path, query=query, width=width, dark=dark)
        tab.evaluate(OPEN)
        tab.settle()
        assert tab.inaccessible() == []
    tab.evaluate("document.body.append(new Image(9, 9))")
    assert [problem.partition(":")[0] for problem in tab.inaccessible()] == ["critical"]


def test_hostile_text_stays_text(tab: Page, tmp_path: Path) -> None:
    """What a training process printed, or a user typed, is shown and never run."""
    evil = "</script><img src=x onerror=alert(1)><script>alert(2)</script> {{ 7 * 7 }} & \"'"
    job = a_summary(
        a_result(verdict="INVALID", reasons=(evil,), failure=Failure(evil), status="failed", sweep={"model": evil}),
        a_result(round=2, values={**VALUES, "device_name": evil, "mfu_note": evil}),
        name="<b>job</b>,\"lr\"='1'",
    )
    path = report.write(tmp_path, [job])[1]
    tab.open(path)
    assert (tab.problems(), tab.requests()) == ([], [path.resolve().as_uri()])
    assert tab.evaluate("document.querySelector('.problem pre').innerText") == evil
    assert tab.evaluate("document.images.length + document.querySelectorAll('h3 b').length") == 0


def test_it_prints(tab: Page, html: Path, tmp_path: Path) -> None:
    tab.open(html, dark=True)
    tab.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert tab.evaluate("[...document.querySelectorAll('details.job')].every((job) => job.open)") is True
