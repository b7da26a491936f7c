"""Who is named for a failure, and that nobody is where it is not known; read from logs of two nodes of this machine."""

from __future__ import annotations

import dataclasses
import re
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest
from example import example_job
from test_blame import BLOCK, CLOSED, NOTICE, report

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.contract.command import Command
from flagperf.contract.outcome import Failure
from flagperf.contract.perflog import Event
from flagperf.hosts.facts import Facts
from flagperf.hosts.local import LocalTransport
from flagperf.plan.plan import make_plan
from flagperf.run import node_run
from flagperf.run.diagnose import PortTaken, failed_exit, passed_deadline
from flagperf.run.node_logs import NodeLogs
from flagperf.run.node_run import NodeRun
from flagperf.run.runtime import make_runtimes

pytestmark = pytest.mark.asyncio

TWO = Cluster("two", "this machine twice", (Node("left", "127.0.0.1", local=True), Node("right", "::1", local=True)))
KILLED, FAILED = NOTICE.format(status=-9, rank=0), NOTICE.format(status=1, rank=0)
SECOND = BLOCK.format(index=0, rank=1, local=0, status=1, signal="")
TOO_SMALL = "ImportError: libtorch_cpu.so: failed to map segment from shared object"
TAKEN = "torch.distributed.DistNetworkError: EADDRINUSE\n"


@asynccontextmanager
async def ended(
    folder: Path, reports: tuple[str, str], logs: tuple[str, str], statuses: tuple[int, int]
) -> AsyncIterator[list[NodeRun]]:
    """The nodes left and right with a rank each, whose launchers printed the reports and ended with the statuses."""
    job = example_job(nnodes=2, nproc=1, cluster=TWO)
    plan = make_plan(job, 1, folder)
    transports = [LocalTransport(node.node.name) for node in plan.nodes]
    nodes = []
    async with transports[0], transports[1]:
        for rank, runtime in enumerate(make_runtimes(job, plan, range(len(transports)), transports)):
            node = NodeRun(job, plan, rank, transports[rank], runtime, Path(plan.nodes[rank].log_dir).parent)
            node.folder.mkdir(parents=True)
            exits = job.framework.failures.exits
            node.logs = NodeLogs(plan, node.node, node.transport, node.folder, job.mask, exits)
            Path(node.logs.launcher).write_text(just_now(reports[rank]))
            Path(node.logs.of_rank(rank)).write_text(logs[rank])
            node.process = await node.transport.start(Command(("true",)), log="/dev/null", grace=1)
            node.exit_status, node.ended = statuses[rank], time.monotonic()
            node.facts = Facts({})  # of which nothing is known: on this machine anyone may run out of memory
            nodes.append(node)
        yield nodes


FINISHED = Event("FINISHED").line()
LEFT = Failure("exit code 0 before the training had ended", "left", 0, 0, "start", 0)


def at(second: int, status: int) -> str:
    """What torchrun prints of its only rank."""
    block = BLOCK.format(index=0, rank=int(status < 0), local=0, status=status, signal="")
    return report(block.replace("07:20:01", f"07:20:0{second}"))


def just_now(report: str) -> str:
    """A report whose times are less than ten seconds ago."""
    began = time.time() - 10
    return re.sub(
        r"2026-11-21_07:20:0(\d)", lambda match: f"{datetime.fromtimestamp(began + int(match[1])):%F_%T}", report
    )


ALL_FOLLOWED = Failure(
    "ranks 0, 1 ended, each as if another rank had failed first: exit code 1",
    phase="start",
    last_lines=("rank 0 on left:", CLOSED),
)


@pytest.mark.parametrize(
    ("reports", "logs", "statuses", "failure"),
    [
        pytest.param(
            (FAILED, KILLED),
            (CLOSED, "step 3"),
            (1, 1),
            Failure("signal SIGKILL", "right", 1, 1, "start", signal="SIGKILL", last_lines=("step 3",)),
            id="a rank",
        ),
        pytest.param(
            ("", f"  File uncached.py\nImportError: no sysconfig\n{FAILED}{report(SECOND)}"),
            ("step 3", ""),
            (0, 1),
            Failure(
                "ImportError: no sysconfig (exit code 1)",
                "right",
                1,
                1,
                "start",
                1,
                last_lines=("  File uncached.py", "ImportError: no sysconfig"),
            ),
            id="a rank that ended before it had a log: what it printed, not the launcher's report",
        ),
        pytest.param((FAILED, FAILED), (CLOSED, CLOSED), (1, 1), ALL_FOLLOWED, id="ranks that followed another"),
        pytest.param(
            (FAILED, ""),
            (CLOSED, "step 3"),
            (1, -9),
            Failure("the launcher of the ranks ended: signal SIGKILL", "right", 1, None, "start", signal="SIGKILL"),
            id="a launcher that was killed, and a rank that lost its peer",
        ),
        pytest.param(
            (FAILED, ""),
            (CLOSED, "step 3"),
            (1, 0),
            Failure("exit code 0 before the training had ended", "right", 1, 1, "start", 0, last_lines=("step 3",)),
            id="a rank that left with 0, and one that lost its peer",
        ),
        pytest.param(
            (at(3, 1), at(1, -6)),
            ("ValueError", "abort"),
            (1, 1),
            Failure("signal SIGABRT", "right", 1, 1, "start", signal="SIGABRT", last_lines=("abort",)),
            id="two ranks that failed of themselves: the earlier one",
        ),
        pytest.param(("", ""), ("", FINISHED), (0, 0), LEFT, id="all ended well, and a rank has not finished"),
        pytest.param(
            ("", "no module"),
            (FINISHED, ""),
            (0, 2),
            Failure(
                "the launcher of the ranks ended: exit code 2", "right", 1, None, "start", 2, last_lines=("no module",)
            ),
            id="a launcher",
        ),
        pytest.param(
            ("", f"  File torch\n{TOO_SMALL}\n"),
            (FINISHED, ""),
            (0, 1),
            Failure(
                f"the launcher of the ranks ended: {TOO_SMALL} (exit code 1)",
                "right",
                1,
                None,
                "start",
                1,
                last_lines=("  File torch", TOO_SMALL),
            ),
            id="a launcher whose Python says why (ulimit -v)",
        ),
        pytest.param(
            ("no module", "no file"),
            ("", ""),
            (2, -9),
            Failure(
                "the launchers of the ranks ended on left, right: exit code 2, signal SIGKILL",
                phase="start",
                last_lines=("launcher on left:", "no module"),
            ),
            id="both launchers",
        ),
    ],
)
async def test_failed_exit(
    tmp_path: Path, reports: tuple[str, str], logs: tuple[str, str], statuses: tuple[int, int], failure: Failure
) -> None:
    async with ended(tmp_path, reports, logs, statuses) as nodes:
        assert await failed_exit(nodes) == failure


@pytest.mark.parametrize(
    ("kills", "cause"),
    [
        pytest.param(10, "out of memory: killed by the kernel", id="the kernel killed one more process"),
        pytest.param(9, "signal SIGKILL", id="it killed none"),
    ],
)
async def test_a_rank_that_the_kernel_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int, cause: str
) -> None:
    (tmp_path / "vmstat").write_text(f"nr_free_pages 1\noom_kill {kills}\n")
    monkeypatch.setattr(node_run, "VMSTAT", str(tmp_path / "vmstat"))
    async with ended(tmp_path, ("", KILLED), ("", "step 3"), (0, 1)) as nodes:
        nodes[1].facts = Facts({"oom_kills": "9"})
        assert await failed_exit(nodes) == Failure(
            cause, "right", 1, 1, "start", signal="SIGKILL", last_lines=("step 3",)
        )


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        pytest.param(0, "its log reached the limit of a file's size there (ulimit -f)", id="the log is full"),
        pytest.param(1, "exit code 1", id="it has room for a byte"),
    ],
)
async def test_a_rank_whose_log_is_full(tmp_path: Path, more: int, cause: str) -> None:
    """It cannot print what happened: Python raises OSError again while it prints the traceback."""
    log = 1000 * "step 3\n" + "ste"
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with ended(tmp_path, ("", FAILED), ("", log), (0, 1)) as nodes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(log) + more, unlimited[1]))
        try:
            match = await failed_exit(nodes)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert match is not None
    assert (match.cause, match.host, match.rank, match.exit_status) == (cause, "right", 1, 1)


async def test_a_configuration_that_a_rank_refuses(tmp_path: Path) -> None:
    text = "ConfigError: no such file\n  where:   config.yaml\n  key:     init_checkpoint\n  given:   /a\n"
    async with ended(tmp_path, ("", NOTICE.format(status=2, rank=0)), ("", text), (0, 1)) as nodes:
        nodes[1].job = dataclasses.replace(nodes[1].job, where=lambda key: f"the file of {key}")
        match = await failed_exit(nodes)
    details = {"where": "the file of init_checkpoint", "key": "init_checkpoint", "given": "/a"}
    assert match == Failure("no such file", "right", 1, 1, "start", 2, details=details)
    assert match.line == (
        "rank 1 on right (node rank 1): no such file, during start: init_checkpoint=/a (the file of init_checkpoint)"
    )


async def test_a_taken_port_is_that_of_the_node_that_says_so(tmp_path: Path) -> None:
    async with ended(tmp_path, ("", TAKEN), ("", ""), (1, 1)) as nodes:
        with pytest.raises(PortTaken) as caught:
            await failed_exit(nodes)
    assert caught.value.failure == Failure(
        "rendezvous port 29500 is taken", "right", 1, None, "start", 1, last_lines=(TAKEN.strip(),)
    )


@pytest.mark.parametrize(
    ("silent", "who", "lines"),
    [
        pytest.param({1}, ("right", 1, 1), ("import torch",), id="one rank"),
        pytest.param({0, 1}, (None, None, None), ("rank 0 on left:", "import flagperf"), id="several ranks"),
    ],
)
async def test_a_passed_deadline(
    tmp_path: Path, silent: set[int], who: tuple[str | None, int | None, int | None], lines: tuple[str, ...]
) -> None:
    host, node_rank, rank = who
    expected = Failure("no sign of life", host, node_rank, rank, "start", last_lines=lines)
    async with ended(tmp_path, ("", ""), ("import flagperf", "import torch"), (0, 0)) as nodes:
        assert await passed_deadline("no sign of life", silent, nodes) == expected
