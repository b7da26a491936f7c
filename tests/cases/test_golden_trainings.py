"""Trainings of golden curves: each case is inside the bands of its curves, and a failed training ends the program."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from shipped import FAMILIES
from toy import fork_ranks, prepare_ranks

from cases.golden_trainings import REFERENCE, forked, prepare
from flagperf.compare.golden import golden_file
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.golden import Check, Curve, Golden, read


@pytest.mark.slow
@pytest.mark.parametrize("case", FAMILIES)
def test_a_case_is_inside_the_bands_of_its_curves(shared: Path, case: str) -> None:
    """All steps of each curve: a rounding may grow and leave a band of late steps, and the metrics come at the end.

    The trainings of other tests have other settings. A case trains for 1 to 10 s of a core.
    """
    checks = [trained(golden, shared / "sample") for golden in read(golden_file(case, [CONF]))]
    assert [(check.golden.name, check.verdict) for check in checks if not check.inside] == []


def trained(golden: Golden, sample_dir: Path) -> Check:
    """A training in fp32."""
    config = compose([f"model={golden.case}", *golden.overrides, f"sample_dir={sample_dir}"]).config
    prepare_ranks(partial(prepare, config))
    (curve,) = fork_ranks(partial(curve_of, config), sample_dir / "ranks", ranks=1)
    return Check(golden, "fp32", curve)


def curve_of(config: Mapping[str, Any], _: Path) -> Curve:
    return forked(config, REFERENCE, Curve.of)


def fail() -> None:
    raise ValueError("no training")


ENDS: dict[str, tuple[Callable[[], None], int]] = {
    "a signal": (lambda: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL),
    "an error": (fail, 1),
}


@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS.keys())
def test_a_failed_training_is_an_error(end: Callable[[], None], code: int) -> None:
    config = {"case": "toy", "lr": 0.1}
    with pytest.raises(RuntimeError, match=rf"^toy, fp32: the training ended with {code}$"):
        forked(config, REFERENCE, Curve.of, end)
