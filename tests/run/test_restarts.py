"""What is a loss after which `restarts=N` starts a round again, from which checkpoint, and on which hosts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from example import example_job

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Failure, Outcome
from flagperf.errors import HostError
from flagperf.results.attempts import Attempt, read
from flagperf.run.restarts import Attempts, is_complete, is_loss

KILLED = Failure("signal SIGKILL", host="b", node_rank=1, rank=1, phase="training", signal="SIGKILL")
LOST = Failure("lost host: no answer", host="b", node_rank=1, phase="training")
GONE = HostError("b", "no answer")


def outcome(folder: Path, failure: Failure | None) -> Outcome:
    return Outcome("failed" if failure else "finished", folder, failure, (), {"a_noderank0": {"start": 1.0}}, 50.0, 2.0)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(KILLED, True, id="a killed rank"),
        pytest.param(LOST, True, id="a lost host"),
        pytest.param(Failure("hang: no progress for 60 s", phase="start"), True, id="a hang at the start"),
        pytest.param(None, False, id="no failure"),
        pytest.param(Failure("no such file", phase="training", details={"where": "f"}), False, id="a refused value"),
        pytest.param(Failure("TrainingError: training diverged", phase="training"), False, id="a diverged loss"),
        pytest.param(Failure("no space left", phase="collect"), False, id="after the training"),
        pytest.param(Failure("lost allocation: PREEMPTED", phase="training"), False, id="a scheduler took all hosts"),
    ],
)
def test_losses(tmp_path: Path, failure: Failure | None, expected: bool) -> None:
    assert is_loss(outcome(tmp_path, failure)) is expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(["a", "b"], True, id="all"),
        pytest.param(["a"], False, id="a part is on a lost host"),
        pytest.param([], False, id="none"),
    ],
)
def test_complete_checkpoints(tmp_path: Path, files: list[str], expected: bool) -> None:
    checkpoint = tmp_path / "step000000004.dcp"
    checkpoint.mkdir()
    for name in files:
        (checkpoint / name).touch()
    assert is_complete(checkpoint) is False  # no hashes
    (tmp_path / "step000000004.dcp.sha256").write_text("".join(f"0  {checkpoint.name}/{name}\n" for name in "ab"))
    assert is_complete(checkpoint) is expected


def job_with(*hosts: str, restarts: int) -> JobConfig:
    cluster = replace(example_job().cluster, nodes=tuple(Node(name, name) for name in hosts))
    return example_job(cluster=cluster, nnodes=2, restarts=restarts)


@pytest.mark.parametrize(
    ("hosts", "ends", "used", "said"),
    [
        pytest.param("ab", [None], ["ab"], [], id="no loss"),
        pytest.param("ab", [LOST, None], ["ab", "ab"], ["on the same hosts"], id="no spare host"),
        pytest.param("abc", [KILLED, None], ["ab", "ab"], ["on the same hosts"], id="a rank: the same hosts"),
        pytest.param("abc", [LOST, None], ["ab", "ac"], ["on c in place of b"], id="a host: the spare one"),
        pytest.param(
            "abc",
            [KILLED, KILLED, None],
            ["ab", "ab", "ac"],
            ["on the same hosts", "on c in place of b"],
            id="a rank, twice on a host",
        ),
        pytest.param(
            "abc",
            [KILLED, GONE, None],
            ["ab", "ab", "ac"],
            ["on the same hosts", "on c in place of b"],
            id="a host that cannot be used in a restart",
        ),
        pytest.param(
            "abc",
            [LOST, replace(LOST, host="c"), LOST],
            ["ab", "ac", "ab"],
            ["on c in place of b", "on b in place of c"],
            id="no restart is left",
        ),
    ],
)
def test_hosts(
    tmp_path: Path, hosts: str, ends: list[Failure | HostError | None], used: list[str], said: list[str]
) -> None:
    remarks: list[str] = []
    attempts = Attempts(job_with(*hosts, restarts=2), tmp_path / "run/job/round1", remarks.append)
    seen: list[str] = []

    async def execute(job: JobConfig) -> Outcome:
        seen.append("".join(node.name for node in job.cluster.nodes[:2]))
        attempts.folder.mkdir(parents=True, exist_ok=True)
        (attempts.folder / "config.yaml").touch()
        if isinstance(end := ends[len(seen) - 1], HostError):
            raise end
        return outcome(attempts.folder, end)

    done = asyncio.run(attempts.run(execute))
    assert (done.failure, seen) == (ends[-1], used)
    beginning = "from the beginning: there is no complete checkpoint"
    assert remarks == [f"restart {number} of 2, {on}, {beginning}" for number, on in enumerate(said, 1)]
    assert ("restarts" in done.phases["a_noderank0"]) is bool(said)


def test_a_host_that_cannot_be_used_at_the_start_fails_the_round(tmp_path: Path) -> None:
    async def execute(_: JobConfig) -> Outcome:
        raise GONE

    with pytest.raises(HostError, match="b: no answer"):
        asyncio.run(Attempts(job_with("a", "b", "c", restarts=2), tmp_path, print).run(execute))


def test_checkpoints(tmp_path: Path) -> None:
    """The newest complete one counts. An attempt without one leaves that of the attempt before."""
    folder, resumed = tmp_path / "run/job/round1", []

    async def execute(job: JobConfig) -> Outcome:
        resumed.append(job.resume and Path(job.resume).relative_to(folder))
        checkpoints = folder / "checkpoint"
        checkpoints.mkdir(parents=True)
        for step in {1: (4, 8), 2: ()}.get(len(resumed), ()):
            (checkpoints / f"step{step:09d}.pt").touch()
            (checkpoints / f"step{step:09d}.pt.sha256").write_text(f"0  step{step:09d}.pt\n")
        return outcome(folder, KILLED if len(resumed) < 3 else None)

    asyncio.run(Attempts(job_with("a", "b", restarts=3), folder, print).run(execute))
    assert resumed == [None, Path("attempt1/checkpoint"), Path("attempt1/checkpoint")]
    assert [read(folder / f"attempt{number}") for number in (1, 2)] == [Attempt(KILLED, ("a", "b"), 50.0, 2.0, 8)] * 2
