"""The page of a comparison: vendors side by side, normalised to the first; in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browser import VIEWS, Page
from jobs_of import JOB, job

from flagperf.compare.align import Alignment
from flagperf.compare.jobs import NamedJob, compare
from flagperf.compare.page import Compared, alignment_charts, differing_settings, intervals, page
from flagperf.compare.scales import scales_of
from flagperf.compare.side_by_side import Cell, Line, lines

DATA = Path(__file__).parents[1] / "data"
ENERGY = {"devices": {"energy_j": 6e6, "energy_per_sample_j": 1.25, "coverage": 1.0}}
VALUES = {"p_train": 2000.0, "mfu": 0.4, "e2e_time": 3600.0, "raw_train_time": 3000.0, "final_acc1": 76.0}


def product(run: str, name: str, factor: float, **hardware: Any) -> NamedJob:
    """A job on a product that is faster by a factor, takes as much power, and so needs less energy a sample."""
    values = VALUES | {"p_train": 2000 * factor, "mfu": 0.4 * factor, "e2e_time": 3600 / factor}
    energy = {"devices": {**ENERGY["devices"], "energy_per_sample_j": 1.25 / factor}}
    config = {"vendor": {"name": run}, "hardware": {"name": name, **hardware}}
    return job(run, [0.0], values=values, config=config, monitors={"nodes": {}, "energy": energy})


FIRST = product("acme", "A100", 1.0, price_per_hour=2.0)
SECOND = product("other", "Chip", 1.25, price_per_hour=1.5)
BARE = job("bare_with_batch_size_32", [0.0], values={"p_train": 1000.0}, target_reached=False)


def cells(*shown: tuple[str, str, str]) -> tuple[Cell, ...]:
    return tuple(Cell(*one) for one in shown)


def test_lines() -> None:
    assert lines([FIRST, SECOND, BARE]) == [
        Line(
            "throughput, p_train [images/s]",
            "more is better",
            cells(("2,000", "×1.00", "80.0%"), ("2,500", "×1.25", "100.0%"), ("1,000", "×0.50", "40.0%")),
        ),
        Line(
            "energy per sample, accelerators [J]",
            "less is better",
            cells(("1.250", "×1.00", "100.0%"), ("1.000", "×0.80", "80.0%"), ("–", "", "0%")),
        ),
        Line(
            "time to target [s]",
            "less is better",
            cells(("3,600", "×1.00", "100.0%"), ("2,880", "×0.80", "80.0%"), ("–", "", "0%")),
        ),
        Line("MFU", "more is better", cells(("40 %", "×1.00", "80.0%"), ("50 %", "×1.25", "100.0%"), ("–", "", "0%"))),
        Line(
            "power, accelerators [W]",
            "less is better",
            cells(("2,000", "×1.00", "100.0%"), ("2,000", "×1.00", "100.0%"), ("–", "", "0%")),
        ),
        Line(
            "price per hour",
            "less is better",
            cells(("32.00", "×1.00", "100.0%"), ("24.00", "×0.75", "75.0%"), ("–", "", "0%")),
        ),
    ]


def test_what_the_first_lacks_has_no_ratio() -> None:
    assert lines([BARE, FIRST])[1].cells == cells(("–", "", "0%"), ("1.250", "", "100.0%"))


def test_intervals_are_drawn() -> None:
    """In percent of the base. A figure of single rounds has no interval."""
    base, other = job("base", [100.0, 102.0, 98.0, 101.0, 99.0]), job("other", [110.0, 113.0, 108.0, 111.0, 109.0])
    comparison = compare(base, other, margin=0.01)
    (speed,) = [figure.estimate for figure in comparison.figures if figure.name == "p_train"]
    assert speed.low and speed.high and 1.05 < speed.low < speed.ratio < speed.high < 1.2
    chart = intervals(comparison, 0.01)
    assert {**chart, "rows": chart["rows"][:1]} == {
        "kind": "intervals",
        "title": "Change of each figure, with its 95 % interval",
        "x": "% against the base",
        "margin": 1.0,
        "rows": [
            {
                "name": "p_train",
                "word": "better",
                "at": pytest.approx(100 * speed.ratio - 100, abs=1e-3),
                "low": pytest.approx(100 * speed.low - 100, abs=1e-3),
                "high": pytest.approx(100 * speed.high - 100, abs=1e-3),
            }
        ],
    }
    assert intervals(compare(job("base", [100.0]), job("other", [110.0]), margin=0.01), 0.01) == {}


def test_settings_that_differ_stand_in_the_heads() -> None:
    """Of all jobs of a table; the chip and its scale stand there in any case."""
    base, same, other = job("a"), job("b"), job("c", config={"lr": 0.2, "nproc": 4, "hardware": {"name": "Chip"}})
    comparisons = [compare(base, each, margin=0.01) for each in (same, other)]
    assert differing_settings([base, same, other], comparisons) == {
        "lr": {base.name: "0.1", same.name: "0.1", other.name: "0.2"}
    }


ALIGNED = Alignment(
    f"acme/{JOB}",
    f"other/{JOB}",
    3,
    0.01,
    {1: 4.0, 2: 2.0, 3: 1.0},
    {1: 4.0, 2: 2.1, 3: float("nan")},
    None,
    (None, None),
)


def test_the_plots_of_an_alignment() -> None:
    assert alignment_charts(ALIGNED) == [
        {
            "kind": "lines",
            "title": "Loss, seed 3: band of 1 %",
            "x": "step",
            "y": "loss",
            "series": [
                {"name": "reference", "points": [[1, 4.0], [2, 2.0], [3, 1.0]]},
                {"name": "other", "points": [[1, 4.0], [2, 2.1]]},
            ],
            "band": [[1, 3.96, 4.04], [2, 1.98, 2.02], [3, 0.99, 1.01]],
        },
        {
            "kind": "lines",
            "title": "Error of the loss, seed 3",
            "x": "step",
            "y": "%",
            "series": [{"name": "error", "points": [[1, 0.0], [2, pytest.approx(5.0)]]}],
            "marks": [{"at": 1.0, "label": "1 %"}],
            "zero": True,
        },
    ]


def at_scales(run: str, *speeds: float) -> list[NamedJob]:
    """Jobs of a run at 1x1, 1x8, 2x8."""
    scales = ((1, 1), (1, 8), (2, 8))
    return [
        job(run, [speed], name=f"{nodes}x{devices}", config={"nnodes": nodes, "nproc": devices})
        for (nodes, devices), speed in zip(scales, speeds, strict=False)
    ]


SCALES = at_scales("acme", 100.0, 720.0, 1200.0)


@pytest.mark.parametrize(
    ("runs", "shares"),
    [
        pytest.param([SCALES], {"resnet50": [1.0, 0.9, 0.75]}, id="a run of several scales"),
        pytest.param([SCALES[:1], SCALES[1:2]], {"resnet50": [1.0, 0.9]}, id="runs of one scale each"),
        pytest.param([SCALES, SCALES[1:2]], {"resnet50": [1.0, 0.9, 0.75]}, id="one of several, one of one"),
        pytest.param(
            [SCALES, at_scales("other", 50.0, 200.0)],
            {"acme: resnet50": [1.0, 0.9, 0.75], "other: resnet50": [1.0, 0.5]},
            id="each against its own smallest",
        ),
        pytest.param([SCALES[:1], SCALES[:1]], {}, id="one scale"),
    ],
)
def test_scales(runs: list[list[NamedJob]], shares: dict[str, list[float]]) -> None:
    found = {case: [scale.efficiency for scale in group] for case, group in scales_of(runs).items()}
    assert found == shares


@pytest.mark.parametrize(
    ("names", "heads"),
    [
        pytest.param(["acme/a-b-x1x1", "other/a-b-x1x1"], ["acme", "other"], id="a job each"),
        pytest.param(["acme/a-b-x1x1", "acme/a-b-x1x8"], ["x1x1", "x1x8"], id="one run"),
        pytest.param(
            ["acme/a-b-x1x1", "acme/a-b-x1x8", "other/a-b-x1x8"],
            ["acme/a-b-x1x1", "acme/a-b-x1x8", "other"],
            id="several of one run",
        ),
        pytest.param(["x/run/a-b-x1x1", "y/run/a-b-x1x1"], ["x/run", "y/run"], id="runs of one name"),
    ],
)
def test_jobs_are_called_by_what_tells_them_apart(names: list[str], heads: list[str]) -> None:
    jobs = [job(run, name=name) for run, _, name in (path.rpartition("/") for path in names)]
    pairs = [(jobs[0], other) for other in jobs[1:]]
    found = [compare(*pair, margin=0.01) for pair in pairs]
    text = page(Compared(pairs, found, [], [], (), {}, 0.01))
    assert re.findall(r'<th scope="col" class="number">(.+?) <span', text) == heads


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three products, of which the second was held against the first with align=."""
    pairs = [(FIRST, SECOND), (FIRST, BARE)]
    found = [compare(*pair, margin=0.01) for pair in pairs]
    shown = Compared(pairs, found, [ALIGNED], [ALIGNED.decision], ("acme/<b>left</b>",), scales_of([SCALES]), 0.01)
    path = tmp_path_factory.mktemp("page") / "compare.html"
    path.write_text(page(shown), encoding="utf-8")
    assert page(shown) == path.read_text(encoding="utf-8")  # to the byte
    return path


HEADS = (("acme", "A100"), ("other", "Chip"), ("bare_with_batch_size_32", "A100"))


@pytest.mark.browser
def test_it_draws_and_asks_for_nothing(tab: Page, html: Path) -> None:
    tab.open(html)
    drawn = tab.evaluate("[...document.querySelectorAll('figure')].map((f) => f.querySelector('svg') !== null)")
    heads = tab.evaluate("[...document.querySelectorAll('.beside thead th')].map((head) => head.innerText)")
    assert (drawn, heads) == (
        [True] * 4,  # speed-up and efficiency, loss and its error
        ["figure", *(f"{name} VALID\n{chip} 2x8\namp_bf16" for name, chip in HEADS)],
    )
    assert tab.evaluate("document.querySelectorAll('.band').length") == 1
    assert (tab.problems(), tab.requests()) == ([], [html.resolve().as_uri()])


@pytest.mark.browser
@pytest.mark.parametrize("width", [420, 900, 1400])
def test_nothing_sticks_out(tab: Page, html: Path, width: int) -> None:
    """All tables are all to be seen."""
    tab.open(html, width=width)
    tab.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    tab.settle()
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    hidden = "[...document.querySelectorAll('.scroll')].filter((table) => table.scrollWidth > table.clientWidth).length"
    assert tab.evaluate(hidden) == 0
    assert tab.evaluate((DATA / "broken_cells.js").read_text()) == []


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(tab: Page, html: Path, dark: bool) -> None:
    tab.open(html, dark=dark)
    assert tab.evaluate((DATA / "contrast.js").read_text()) == []


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), VIEWS)
def test_it_is_accessible(tab: Page, html: Path, width: int, dark: bool) -> None:
    tab.open(html, width=width, dark=dark)
    tab.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    tab.settle()
    assert tab.inaccessible() == []
