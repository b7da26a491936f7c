"""Bundles and their site, made once for the tests of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_site import Bundles, write_bundles

from flagperf.cli.main import run_command


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return write_bundles(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def site(bundles: Bundles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "public"
    assert run_command(["site", str(bundles.folder), f"into={folder}", f"keys={bundles.keys}"]) == 0
    return folder
