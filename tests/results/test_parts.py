"""The outcomes of nodes that were started by hand, as one round."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.contract.outcome import Failure, Outcome
from flagperf.errors import ConfigError
from flagperf.results import parts
from flagperf.results.parts import Part

FIRST, LATER = Failure("signal SIGKILL", host="a", node_rank=0, rank=1), Failure("exit code 1", host="b")


def outcome(status: str, failure: Failure | None, started: float, seconds: float, node: str) -> Outcome:
    return Outcome(status, Path(), failure, (0,), {node: {"start": 1.0}}, started, seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param([], None, id="a round of a launcher"),
        pytest.param(
            [("finished", None, 10.0, 5.0), ("finished", None, 12.0, 4.0)], ("finished", None, 10.0, 6.0), id="finished"
        ),
        pytest.param([("finished", None, 10.0, 5.0)], ("unfinished", None, 10.0, 5.0), id="one has not said it"),
        pytest.param(
            [("failed", LATER, 10.0, 9.0), ("failed", FIRST, 12.0, 4.0)], ("failed", FIRST, 10.0, 9.0), id="the first"
        ),
        pytest.param(
            [("interrupted", None, 10.0, 1.0), ("failed", LATER, 10.0, 2.0)],
            ("failed", LATER, 10.0, 2.0),
            id="one failed",
        ),
    ],
)
def test_together(
    tmp_path: Path,
    outcomes: list[tuple[str, Failure | None, float, float]],
    expected: tuple[str, Failure | None, float, float] | None,
) -> None:
    for rank, told in enumerate(outcomes):
        parts.write(outcome(*told, f"n{rank}"), tmp_path / f"n{rank}_noderank{rank}")
    phases = {f"n{rank}": {"start": 1.0} for rank in range(len(outcomes))}
    found = parts.together(tmp_path, 2)
    assert found == (expected and Part(*expected, phases))  # type: ignore[arg-type]


def test_what_is_no_outcome(tmp_path: Path) -> None:
    (tmp_path / "n_noderank0").mkdir()
    (tmp_path / "n_noderank0" / parts.FILE).write_text('{"schema": 3, "status": "finished"}')
    with pytest.raises(ConfigError, match="not the outcome of a node"):
        parts.together(tmp_path, 1)
