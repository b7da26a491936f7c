"""What is told of several hosts that fail in one phase."""

from __future__ import annotations

import pytest

from flagperf.contract.outcome import Failure, refusal
from flagperf.errors import ConfigError, FlagperfError, HostError, SeveralErrors
from flagperf.run.fan_out import combined_error

ONE, TWO = HostError("a", "is off", advice="switch it on"), HostError("b", "is away")
WRONG = ConfigError("more ranks than devices", where="host c", key="nproc", given=8)
BUG, FULL = ZeroDivisionError("a bug"), OSError(28, "No space left on device")
BOTH = "2 hosts cannot be used, in phase 'check':\na: is off\n  do:      switch it on\nb: is away"


@pytest.mark.parametrize(
    ("errors", "text", "exit_code"),
    [
        pytest.param([ONE], str(ONE), 3, id="one"),
        pytest.param([ONE, TWO], BOTH, 3, id="two"),
        pytest.param([WRONG, ONE], f"2 hosts cannot be used, in phase 'check':\n{WRONG}\n{ONE}", 2, id="two kinds"),
        pytest.param(
            [ONE, TWO, HostError("c", "is off", advice="switch it on")],
            "3 hosts cannot be used, in phase 'check':\na, c: is off\n  do:      switch it on\nb: is away",
            3,
            id="three, two alike",
        ),
        pytest.param([ONE, HostError("a", "is off", advice="switch it on")], str(ONE), 3, id="the same twice"),
        pytest.param([ONE, BUG, TWO], str(BUG), None, id="a bug among them"),
        pytest.param([ONE, TWO, FULL], str(FULL), None, id="the launcher's disk among them"),
    ],
)
def test_errors_of_a_phase(errors: list[BaseException], text: str, exit_code: int | None) -> None:
    error = combined_error("check", errors)
    assert str(error) == text
    assert (error.exit_code if isinstance(error, FlagperfError) else None) == exit_code


def test_the_failure_of_a_round_names_all() -> None:
    assert refusal(SeveralErrors("2 hosts cannot be used, in phase 'check'", [ONE, TWO])) == Failure(BOTH)
