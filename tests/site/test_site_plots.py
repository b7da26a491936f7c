"""The plots of a case."""

from __future__ import annotations

import pytest

from flagperf.contract.records import Change
from flagperf.site.entries import Entry
from flagperf.site.plots import WITHOUT, charts, front, missing


def an_entry(**changed: object) -> Entry:
    fields: dict[str, object] = {
        "id": "a-1",
        "case": "resnet50",
        "vendor": "nvidia",
        "product": "A100",
        "scale": "1x8",
        "devices": 8,
        "precision": "tf32",
        "division": "closed",
        "verdict": "VALID",
        "rate": 4000.0,
        "unit": "images/s",
    }
    return Entry(**{**fields, **changed})  # type: ignore[arg-type]


def a_change(key: str, value: object, source: str) -> Change:
    return Change(key, None, value, source)


@pytest.mark.parametrize(
    ("points", "best"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(2.0, 5.0), (1.0, 3.0)], [[1.0, 3.0], [2.0, 5.0]], id="sorted"),
        pytest.param([(1.0, 3.0), (2.0, 2.0), (3.0, 4.0)], [[1.0, 3.0], [3.0, 4.0]], id="a worse point"),
        pytest.param([(1.0, 3.0), (1.0, 4.0)], [[1.0, 4.0]], id="the same cost"),
    ],
)
def test_front(points: list[tuple[float, float]], best: list[list[float]]) -> None:
    assert front(points) == best


def titles(entries: list[Entry]) -> list[str]:
    return [chart["title"] for chart in charts(entries, str)]


DAY = 86400.0


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([an_entry()], [], id="one row"),
        pytest.param([an_entry(), an_entry(devices=16)], ["throughput – number of devices"], id="devices"),
        pytest.param(
            [an_entry(energy=1.0), an_entry(energy=2.0)], ["throughput – energy of a sample [J]"], id="energy"
        ),
        pytest.param([an_entry(price=1.0), an_entry(price=2.0)], ["throughput – price of an hour"], id="price"),
        pytest.param([an_entry(started=0.0), an_entry(started=DAY)], ["A100: throughput over time"], id="time"),
        pytest.param([an_entry(started=0.0), an_entry(started=DAY, scale="2x8")], [], id="time of other scales"),
        pytest.param(
            [an_entry(started=DAY * day, swept=(f"train_batch_size={2**day}",)) for day in (1, 2)],
            [],
            id="the values of a sweep are no trend",
        ),
        pytest.param(
            [an_entry(started=DAY * day, changes=(a_change("lr", day, "command line"),)) for day in (1, 2)],
            [],
            id="other settings are no trend",
        ),
        pytest.param([an_entry(), an_entry(devices=16, verdict="INVALID")], [], id="invalid"),
        pytest.param([an_entry(), an_entry(devices=16, rate=None)], [], id="no throughput"),
    ],
)
def test_a_plot_has_two_values(entries: list[Entry], expected: list[str]) -> None:
    assert titles(entries) == expected


def test_a_trend_has_a_curve_for_each_choice_of_settings() -> None:
    entries = [
        an_entry(started=DAY * day, rate=float(rate), swept=(f"lr={lr}",), changes=changes)
        for day, rate, lr, changes in (
            (1, 10, 0.1, ()),
            (2, 20, 0.2, (a_change("lr", 0.2, "experiment a"),)),
            (3, 11, 0.1, (a_change("log_freq", 9, "tuning nvidia/resnet50/A100"),)),
            (4, 21, 0.2, ()),
        )
    ]
    (chart,) = charts(entries, str)
    assert [(curve["name"], curve["points"]) for curve in chart["series"]] == [
        ("1x8 tf32, lr=0.1", [[DAY, 10.0], [3 * DAY, 11.0]]),
        ("1x8 tf32, lr=0.2", [[2 * DAY, 20.0], [4 * DAY, 21.0]]),
    ]


def test_the_points_of_a_plot() -> None:
    fast = an_entry(product="H100", devices=16, scale="2x8", rate=9000.0, verdict="published, not verified")
    (chart,) = charts([an_entry(), fast], str)
    assert chart == {
        "kind": "scatter",
        "title": "throughput – number of devices",
        "x": "number of devices",
        "y": "throughput [images/s]",
        "names": ["A100", "H100"],
        "points": [
            {
                "series": 0,
                "x": 8.0,
                "y": 4000.0,
                "tip": "A100 1x8, tf32, VALID\n4,000 images/s\nnumber of devices: 8",
            },
            {
                "series": 1,
                "x": 16.0,
                "y": 9000.0,
                "tip": "H100 2x8, tf32, published, not verified\n9,000 images/s\nnumber of devices: 16",
            },
        ],
        "front": [[8.0, 4000.0], [16.0, 9000.0]],
    }


def test_the_products_with_most_points_have_the_first_colours() -> None:
    (chart,) = charts([an_entry(product=f"P{number // 2}", devices=1 + number) for number in range(1, 4)], str)
    assert chart["names"] == ["P1", "P0"]
    assert [point["series"] for point in chart["points"]] == [1, 0, 0]


@pytest.mark.parametrize(
    ("entries", "costs"),
    [
        pytest.param([an_entry(energy=1.0, price=1.0), an_entry(energy=2.0, price=2.0)], [], id="both"),
        pytest.param([an_entry(energy=1.0), an_entry(energy=1.0)], [*WITHOUT], id="equal"),
        pytest.param([an_entry(price=1.0), an_entry(price=2.0)], ["energy of a sample [J]"], id="no energy"),
        pytest.param([an_entry(price=1.0), an_entry(price=2.0, rate=None)], [*WITHOUT], id="no throughput"),
    ],
)
def test_a_page_names_the_plots_that_it_lacks(entries: list[Entry], costs: list[str]) -> None:
    assert missing(entries, str) == [WITHOUT[cost] for cost in costs]
