"""Configured tiny cases on sample data, and a training of each: made once for all workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from recording import record
from toy import prepare_ranks

from flagperf.config.compose import compose
from flagperf.trainer.data.sample_data import ensure_sample_data
from flagperf.trainer.start.imports import import_components

Config = dict[str, Any]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers see."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def tiny(shared: Path) -> Callable[[str], Config]:
    """The configuration of a case's tiny size, whose data_dir holds its sample data.

    What the case is made of is imported once, so that ranks need not import anything.
    """
    configs: dict[str, Config] = {}

    def configured(case: str) -> Config:
        if case not in configs:
            configs[case] = dict(compose([f"model={case}", "size=tiny", f"sample_dir={shared / 'sample'}"]).config)
            ensure_sample_data(configs[case])
            prepare_ranks(partial(import_components, configs[case]))
        return configs[case]

    return configured


@pytest.fixture(scope="session")
def recorded(tiny: Callable[[str], Config], shared: Path) -> Callable[[str], Path]:
    """The folder of a case's training in fp32: rank0/log0, rank1/log0 and checkpoint."""

    def trained(case: str) -> Path:
        folder = shared / "recorded" / case
        record(tiny(case), folder)
        return folder

    return trained


@pytest.fixture(scope="session")
def data_dir(tiny: Callable[[str], Config]) -> Callable[[str], Path]:
    """The folder of a case's sample data."""
    return lambda case: Path(tiny(case)["data_dir"])
