"""What sets the data of a training apart from that of its case."""

from __future__ import annotations

from typing import Any

import pytest

from flagperf.contract.extent import Extent, extent_of, other_data

IMAGES = Extent("images", train=1_281_167, eval=50_000, classes=1000)
SPEECH = Extent("utterances", train=1000, tolerance=0.02)


@pytest.mark.parametrize(
    ("extent", "counts", "told"),
    [
        pytest.param(IMAGES, {"train": 1_281_167, "eval": 50_000, "classes": 1000}, "", id="all of it"),
        pytest.param(
            IMAGES,
            {"train": 16, "eval": 8, "classes": 2},
            "16 of 1,281,167 training images, 8 of 50,000 evaluation images, 2 of 1,000 classes",
            id="sixteen photos",
        ),
        pytest.param(IMAGES, {"train": 1_281_166, "eval": 50_000}, "1,281,166 of 1,281,167 training images", id="one"),
        pytest.param(IMAGES, {"train": 2_000_000}, "2,000,000 instead of 1,281,167 training images", id="more"),
        pytest.param(SPEECH, {"train": 980, "eval": 3, "classes": 4}, "", id="within the tolerance; the rest unknown"),
        pytest.param(SPEECH, {"train": 979}, "979 of 1,000 training utterances", id="below it"),
        pytest.param(SPEECH, {"train": 1021}, "1,021 instead of 1,000 training utterances", id="above it"),
        pytest.param(IMAGES, {}, "", id="nothing was counted"),
    ],
)
def test_differences(extent: Extent, counts: dict[str, int], told: str) -> None:
    assert extent.differences(counts) == told


STATED = {"unit": "images", "train": 100, "eval": 10}


@pytest.mark.parametrize(
    ("config", "extent", "other"),
    [
        pytest.param(
            {"size": "full", "data": {"extent": STATED}}, Extent(**STATED), "16 of 100 training images", id="full size"
        ),
        pytest.param({"size": "tiny", "data": {"extent": STATED}}, None, "", id="reduced size"),
        pytest.param({"size": "full", "data": {"extent": None}}, None, "", id="the case says it is not known"),
        pytest.param({"size": "full", "data": {}}, None, "", id="the case does not say"),
        pytest.param({"size": "full"}, None, "", id="the case says nothing of its data"),
    ],
)
def test_of_a_case(config: dict[str, Any], extent: Extent | None, other: str) -> None:
    assert extent_of(config) == extent
    assert other_data(config, {"train": 16, "eval": 10}) == other
