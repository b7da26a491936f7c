"""What a case states of itself comes from its own file, for the size that runs. The toy has the full size only."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import lines, message
from user_folder import TOY, write

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF

OWN = """\
full: {network: {parameters: 3}, forward: null, optimizer: {}, schedule: {}}
"""
TINY = ["size=tiny", "dry_run=true"]


@pytest.mark.parametrize(
    ("files", "model", "parameters"),
    [
        pytest.param({}, "resnet50", 4641994, id="shipped"),
        pytest.param({"model/toy": TOY}, "toy", None, id="a case of the user's own that states nothing"),
        pytest.param({"model/toy": TOY, "fingerprint/toy": OWN}, "toy", 3, id="one that states what it is"),
    ],
)
def test_stated(files: dict[str, str], model: str, parameters: int | None, tmp_path: Path) -> None:
    config = compose([f"model={model}", *TINY], [write(tmp_path, files)]).config
    stated = config["fingerprint"]
    assert (stated and stated["network"]["parameters"]) == parameters
    assert {name for name in config["own"] if name.startswith("fingerprint/")} == {*files} - {"model/toy"}


def test_a_file_that_is_no_fingerprint(tmp_path: Path) -> None:
    write(tmp_path, {"model/toy": TOY, "fingerprint/toy": "full: {network: {}}\n"})
    assert message(["model=toy", *TINY], tmp_path) == lines(
        "this is no fingerprint",
        where="{bench}/fingerprint/toy.yaml",
        key="full",
        allowed="a mapping with forward, network, optimizer, schedule",
        do="python -m cases.fingerprint toy writes the file",
    )


def test_a_shipped_one_cannot_be_replaced(tmp_path: Path) -> None:
    text = (CONF / "fingerprint/resnet50.yaml").read_text(encoding="utf-8")
    write(tmp_path, {"fingerprint/resnet50": text})
    assert message(["model=resnet50", *TINY], tmp_path) == lines(
        "this file would replace a shipped one, and results could no longer be compared",
        where="{bench}/fingerprint/resnet50.yaml",
        do="give it another name",
    )
