"""Who failed first, read from what torchrun printed (tests/data/torchrun) and from the ranks' logs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from example import PYTORCH

from flagperf.contract.perflog import Event
from flagperf.errors import ConfigError
from flagperf.run.blame import (
    RankExit,
    cause,
    early_exits,
    first_cause,
    last_lines,
    raised,
    rank_exits,
    refused,
    seconds_ago,
)

NOTICE = (
    "E1121 07:20:01.123000 4711 torch/distributed/elastic/multiprocessing/api.py:1002] "
    "failed (exitcode: {status}) local_rank: {rank} (pid: 4720) of binary: /usr/bin/python3\n"
)
BLOCK = """\
[{index}]:
  time      : 2026-11-21_07:20:01
  host      : here
  rank      : {rank} (local_rank: {local})
  exitcode  : {status} (pid: 4720){signal}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""


def report(root: str, *others: str) -> str:
    return (
        "Traceback (most recent call last):\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"====\nworkload FAILED\n----\nFailures:\n{''.join(others) or '  <NO_OTHER_FAILURES>'}\n----\n"
        f"Root Cause (first observed failure):\n{root}====\n"
    )


ONE = BLOCK.format(index=1, rank=5, local=1, status=1, signal=" ")
KILLED = BLOCK.format(index=0, rank=4, local=0, status=-9, signal=" (SIGKILL)")


@pytest.mark.parametrize(
    ("log", "exits"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("Traceback\nModuleNotFoundError: no\n", [], id="the launcher itself"),
        pytest.param(NOTICE.format(status=3, rank=1), [RankExit(5, 3)], id="notice only"),
        pytest.param(NOTICE.format(status=-9, rank=0), [RankExit(4, -9)], id="notice of a signal"),
        pytest.param(report(ONE), [RankExit(5, 1, 301)], id="one"),
        pytest.param(
            NOTICE.format(status=-9, rank=0) + report(KILLED, ONE),
            [RankExit(4, -9, 301), RankExit(5, 1, 301)],
            id="root first",
        ),
    ],
)
def test_rank_exits(log: str, exits: list[RankExit]) -> None:
    assert rank_exits(log, 4, PYTORCH.failures) == exits


CLOSED = "RuntimeError: [enforce fail at gloo/transport/tcp/pair.cc] Connection closed by peer [127.0.0.1]:4711"

ABORTED = "terminate called after throwing an instance of 'c10::DistBackendError'"


@pytest.mark.parametrize(
    ("exits", "logs", "first"),
    [
        pytest.param([], {}, None, id="none"),
        pytest.param([RankExit(0, 1)], {0: CLOSED}, None, id="nobody else"),
        pytest.param([RankExit(0, -6)], {0: ABORTED}, None, id="aborted by NCCL's watchdog"),
        pytest.param([RankExit(0, 1), RankExit(1, -15)], {0: CLOSED, 1: ""}, None, id="both followed another"),
        pytest.param(
            [RankExit(0, 1), RankExit(1, 1)], {0: CLOSED, 1: "ValueError"}, RankExit(1, 1), id="peer's connection broke"
        ),
        pytest.param([RankExit(0, -15), RankExit(1, 3)], {0: "", 1: ""}, RankExit(1, 3), id="stopped by torchrun"),
        pytest.param([RankExit(0, 1), RankExit(1, -9)], {0: CLOSED, 1: ""}, RankExit(1, -9), id="killed"),
        pytest.param([RankExit(0, 3), RankExit(1, 1)], {0: CLOSED, 1: ""}, RankExit(0, 3), id="a code of its own"),
    ],
)
def test_first_cause(exits: Sequence[RankExit], logs: dict[int, str], first: RankExit | None) -> None:
    assert first_cause(exits, logs.__getitem__, PYTORCH.failures) == first


STOPPED = (
    "W1121 07:20:00.9 4711 torch/distributed/elastic/multiprocessing/api.py:900] Sending process {} closing signal"
)


@pytest.mark.parametrize(
    ("log", "finished", "ended_well", "early"),
    [
        pytest.param("", {4, 5}, True, [], id="all finished"),
        pytest.param("", {5}, True, [4], id="torchrun saw nothing wrong"),
        pytest.param("", set(), False, [], id="torchrun runs"),
        pytest.param(report(ONE), set(), False, [4], id="torchrun tells of the other"),
        pytest.param(STOPPED.format(4719) + report(ONE), set(), False, [], id="torchrun stopped one"),
        pytest.param(STOPPED.format(4720) + report(KILLED, ONE), set(), False, [], id="torchrun tells of both"),
    ],
)
def test_left_early(log: str, finished: set[int], ended_well: bool, early: list[int]) -> None:
    assert early_exits(log, (4, 5), finished, ended_well, PYTORCH.failures) == early


@pytest.mark.parametrize(
    ("then", "now", "seconds"),
    [
        pytest.param(301, 900 * 7 + 303.5, 2, id="in the same quarter of an hour"),
        pytest.param(899, 900 * 7 + 1.0, 2, id="in the one before"),
        pytest.param(2, 900 * 7 + 1.0, -1, id="a clock that is ahead"),
    ],
)
def test_seconds_ago(then: int, now: float, seconds: int) -> None:
    assert seconds_ago(then, now) == seconds


@pytest.mark.parametrize(
    ("status", "words"),
    [(1, "exit code 1"), (-9, "signal SIGKILL"), (-11, "signal SIGSEGV"), (-63, "signal 63")],
)
def test_cause(status: int, words: str) -> None:
    assert cause(status) == words


def test_last_lines_leave_out_perflog_and_empty_lines() -> None:
    event = Event("TRAIN_START").line()
    assert last_lines(f"first\n{event}\n\nlast  \n") == ("first", "last")
    assert last_lines("\n".join(str(number) for number in range(100))) == tuple(str(n) for n in range(80, 100))


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    raise Error\n'


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param(f"{TRACEBACK}RuntimeError: out of luck\n", "RuntimeError: out of luck", id="an exception"),
        pytest.param(
            f"{TRACEBACK}KeyError: 1\n\nDuring …:\n\n{TRACEBACK}torch.cuda.OutOfMemoryError: 2 GiB\n[W] a line\n",
            "torch.cuda.OutOfMemoryError: 2 GiB",
            id="the last of two, with a package, and a line after it",
        ),
        pytest.param(f"{TRACEBACK}AssertionError\n", "AssertionError", id="without a text"),
        pytest.param("[rank1]: ValueError: 1\n", "ValueError: 1", id="by torch.distributed"),
        pytest.param("an Error: in a line\n", None, id="none"),
    ],
)
def test_raised(log: str, expected: str | None) -> None:
    assert raised(log) == expected


def test_refused() -> None:
    error = ConfigError("no such file", where="config.yaml", key="init_checkpoint", given="/a", allowed="a\n    tree")
    log = f"step 1\nConfigError: {error}\nlater\n"
    details = {"where": "config.yaml", "key": "init_checkpoint", "given": "/a", "allowed": "a\n    tree"}
    assert refused(log) == ("no such file", details)
    assert refused("ConfigError\n") is None
