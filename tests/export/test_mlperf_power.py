"""`flagperf export … meter=`: logs of power that MLPerf's own programs accept and score."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from example_results import make_run
from mlperf_logging.package_checker.power_checker import PowerChecker
from mlperf_logging.result_summarizer.result_summarizer import _compute_total_power

from flagperf.cli.main import run_command
from flagperf.contract.monitor_log import stamp

JOB = "resnet50-pytorch-A100x2x8"
BEGAN, SECONDS, CONVERSION, NETWORK = 1_700_000_000, 240, 0.94, 150.0
HOSTS = ("node0", "node1")


def watts(second: float) -> float:
    """A trace of a node's power: steps, evaluations with less power, and noise."""
    return 300 + 400 * (second % 97 < 70) + 60 * math.sin(second / 3) + 25 * math.sin(7.7 * second)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two rounds on two nodes, with MLPerf's logs."""
    job = make_run(tmp_path / "run")
    for number in (1, 2):
        times = {"run_start": BEGAN, "run_stop": BEGAN + SECONDS}
        body: dict[str, Any] = {"namespace": "", "event_type": "INTERVAL", "value": None, "metadata": {}}
        lines = [
            f":::MLLOG {json.dumps({**body, 'key': key, 'time_ms': time * 1000})}\n" for key, time in times.items()
        ]
        (job / f"round{number}" / "node0_noderank0" / "mllog.log").write_text("".join(lines))
    return tmp_path / "run"


def meter(folder: Path, name: str, times: Sequence[float], form: str = "seconds") -> Path:
    """A log of a meter."""
    lines = [
        f"{stamp(time)}\t{watts(time - BEGAN)}\n" if form == "stamp" else f"{time}, {watts(time - BEGAN)}\n"
        for time in times
    ]
    path = folder / name
    path.write_text("time,watts\n" + "".join(lines))
    return path


def test_mlperfs_summarizer_scores_the_energy(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = [BEGAN - 3 + 0.5 * at for at in range(2 * SECONDS + 12)]
    first, second = meter(tmp_path, "a.csv", times), meter(tmp_path, "b.log", times[::2], "stamp")
    target = tmp_path / "resnet" / "system"
    words = [f"meter={first},{second}", f"conversion={CONVERSION}", f"network={NETWORK}"]
    assert run_command(["export", str(run), str(target), *words]) == 0
    files = sorted(path.relative_to(target).as_posix() for path in target.rglob("*.txt"))
    power = [f"power/result_{at}/{name}.txt" for at in (0, 1) for name in ("node_0", "node_1", "sw_0")]
    assert files == [*power, "result_0.txt", "result_1.txt"]

    exact = sum(watts(at / 100) for at in range(100 * SECONDS)) / 100
    expected = 2 * CONVERSION * exact + NETWORK * SECONDS
    results = [str(target / f"result_{at}.txt") for at in (0, 1)]
    scores = [_compute_total_power(str(target), result, SECONDS * 1000, "4.1.0") for result in results]
    assert scores == pytest.approx([expected, expected], rel=0.02)
    assert PowerChecker("4.1.0").check_power(str(target / "power"), results) == (True, set())
    assert f"round 1: {scores[0] / 3.6e6:.4g} kWh ({scores[0]:,.0f} J), 241 readings: " in capsys.readouterr().out


def test_the_nodes_own_logs(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"{stamp(BEGAN - 5 + at)}\t500\n" for at in range(SECONDS + 10))
    for folder in run.glob(f"{JOB}/round*/node*"):
        (folder / "pwr_monitor.log").write_text(lines)
    assert run_command(["export", str(run), str(tmp_path / "power"), "meter=node"]) == 0
    assert f"({2 * 500 * SECONDS:,} J)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("times", "words", "problem"),
    [
        pytest.param(range(-5, 300, 2), "meter={0},{0}", "two readings are too far apart", id="too few in a second"),
        pytest.param(range(-5, 200), "meter={0},{0}", "the readings do not cover the end of the run", id="too short"),
        pytest.param(range(5, 300), "meter={0},{0}", "the readings do not cover the begin of the run", id="too late"),
        pytest.param(range(-5, 300), "meter={0}", "all nodes must be measured", id="a node without a meter"),
        pytest.param(range(-5, 300), "meter=node", "no meter measured the whole node node0", id="no monitor"),
        pytest.param(range(-5, 300), "meter={0},{0} network=much", "not a number above 0", id="no number"),
    ],
)
def test_logs_that_break_the_rules_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], times: range, words: str, problem: str
) -> None:
    log = meter(tmp_path, "a.csv", [BEGAN + at for at in times])
    target = tmp_path / "power"
    assert run_command(["export", str(run), str(target), *words.format(log).split()]) == 2
    assert problem in capsys.readouterr().err
    assert not list(target.rglob("*.txt"))
