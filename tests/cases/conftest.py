"""Configured tiny cases on sample data, which is written once for all workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flagperf.config.compose import compose
from flagperf.trainer.sample_data import ensure_sample_data

Config = dict[str, Any]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Config]:
    """The configuration of a case's tiny size, whose data_dir holds its sample data."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "sample"
    configs: dict[str, Config] = {}

    def configured(case: str) -> Config:
        if case not in configs:
            configs[case] = dict(compose([f"model={case}", "size=tiny", f"sample_dir={folder}"]).config)
            ensure_sample_data(configs[case])
        return configs[case]

    return configured


@pytest.fixture(scope="session")
def data_dir(tiny: Callable[[str], Config]) -> Callable[[str], Path]:
    """The folder of a case's sample data."""
    return lambda case: Path(tiny(case)["data_dir"])
