"""Trainings of golden curves: each case is inside the band of its curve, and a killed training ends the program."""

from __future__ import annotations

import os
import signal

import pytest

from cases.golden_trainings import REFERENCE, forked
from flagperf.contract.golden import Curve


def test_a_killed_training_is_an_error() -> None:
    config = {"case": "toy", "lr": 0.1}
    with pytest.raises(RuntimeError, match=r"^toy, fp32: the training ended with -9$"):
        forked(config, REFERENCE, Curve.of, lambda: os.kill(os.getpid(), signal.SIGKILL))
