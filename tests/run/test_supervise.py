"""What is said of hosts that no longer answer, or that answer and cannot do what a run needs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from flagperf.contract.outcome import Failure
from flagperf.docker.daemon import DaemonError, DockerRefusal
from flagperf.errors import HostError, JumpError
from flagperf.hosts.transport import FileRefused
from flagperf.run.node_run import NodeRun
from flagperf.run.supervise import failure_of_hosts

AWAY = "lost: no ssh connection for 4 s (no answer)"
NO_JUMP = "lost: no ssh connection for 4 s (jump host: no answer from j)"


class Host:
    """A host that answers, or does not."""

    def __init__(self, rank: int, error: HostError | None) -> None:
        self.host, self.rank, self.error, self.transport = f"h{rank + 1}", rank, error, self
        self.times = SimpleNamespace(seconds={"launch": 1.0})

    async def run(self, *_: object, **__: object) -> None:
        if self.error is not None:
            raise self.error


def of_h2(cause: str) -> Failure:
    return Failure(cause, host="h2", node_rank=1, phase="training")


@pytest.mark.parametrize(
    ("first", "other", "told"),
    [
        pytest.param(HostError("h2", AWAY), None, of_h2(f"lost host: {AWAY}"), id="one host"),
        pytest.param(
            HostError("h2", AWAY),
            HostError("h1", AWAY),
            Failure(f"lost 2 hosts: h1: {AWAY}; h2: {AWAY}", phase="training"),
            id="both hosts",
        ),
        pytest.param(
            JumpError("h2", NO_JUMP, "j"),
            JumpError("h1", NO_JUMP, "j"),
            Failure(f"lost jump host j, the way to h1, h2: {NO_JUMP}", phase="training"),
            id="the jump host of both",
        ),
        pytest.param(
            JumpError("h2", NO_JUMP, "j"),
            None,
            Failure(f"lost jump host j, the way to h2: {NO_JUMP}", phase="training"),
            id="the jump host of one",
        ),
        pytest.param(
            FileRefused("h2", "Failure", "/log cannot be read"),
            None,
            of_h2("/log cannot be read: Failure"),
            id="a file",
        ),
        pytest.param(
            DaemonError("h2", "the docker daemon does not run"),
            None,
            of_h2("lost docker daemon: the docker daemon does not run"),
            id="its docker daemon",
        ),
        pytest.param(
            DockerRefusal("h2", 500, "locked"), None, of_h2("docker refuses a request: locked"), id="a refused request"
        ),
    ],
)
def test_the_failure_of_hosts(first: HostError, other: HostError | None, told: Failure) -> None:
    nodes = cast("list[NodeRun]", [Host(0, other), Host(1, first)])
    assert asyncio.run(failure_of_hosts(first, nodes)) == told
