"""The page of `html=FILE` in a real browser: plots of the predicted scales, with a measured run drawn into them."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import CHROMIUM, browser
from test_scaling import TRACE, config

from flagperf.contract.mesh import Mesh
from flagperf.predict.scaling import scale_of
from flagperf.predict.times import figures_of
from flagperf.report.measured_scales import Measured
from flagperf.report.prediction import prediction_page

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PLOTS = """[...document.querySelectorAll('figure')].map((figure) => [
  figure.querySelector('figcaption').innerText,
  [...figure.querySelectorAll('.legend li')].map((each) => each.innerText),
  ['--c0', '--c1'].map((colour) => figure.querySelectorAll(`svg > circle[fill*="${colour}"]`).length),
])"""


def test_a_measured_run_lies_in_the_plot(tmp_path: Path) -> None:
    scales = [scale_of(TRACE, config(nnodes), figures_of(config(nnodes)), 20.0) for nnodes in (1, 2, 64)]
    page = tmp_path / "scaling.html"
    page.write_text(prediction_page("x on X1", scales, [Measured(2, 8, Mesh(1, 16, 1), 9.5)]), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open(page)
        assert tab.evaluate(PLOTS) == [
            ["Predicted throughput", ["at most, tp=1", "measured"], [3, 1]],
            ["Predicted efficiency", [], [3, 0]],
        ]
        assert (tab.problems(), tab.requests(), tab.inaccessible()) == ([], [page.as_uri()], [])
