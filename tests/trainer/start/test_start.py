"""The starter of ranks: real ranks of the toy case on one node and on two, and what it says when one fails."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import toy
import yaml

from flagperf.contract.perflog import Event
from flagperf.contract.rank_environment import RankEnvironment
from flagperf.trainer.start.node import rank_environments, variables

pytestmark = pytest.mark.torch

RENDEZVOUS = {"MASTER_ADDR": "{address}", "MASTER_PORT": "{port}"}


def starter(folder: Path, config: dict[str, Any], *, nodes: int = 1, node: int = 0, port: int = 0) -> Any:
    """The starter of one node, of two ranks in all."""
    config["framework"] |= {"environment": RENDEZVOUS}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    argv = (
        ("--nnodes", nodes),
        ("--nproc", 2 // nodes),
        ("--node-rank", node),
        ("--address", "127.0.0.1"),
        ("--port", port),
    )
    words = [str(word) for pair in argv for word in pair]
    return subprocess.Popen(
        [sys.executable, "-m", "flagperf.trainer.start", *words, str(folder / "config.yaml")],
        env={**os.environ, "FLAGPERF_LOG_DIR": str(folder), "PYTHONPATH": str(Path(toy.__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def rank_logs(folder: Path) -> list[list[Event]]:
    return [toy.read_log(folder / f"rank{rank}.out.log") for rank in range(2)]


def checksums(folder: Path) -> set[str]:
    """Parameters of both ranks after the training, as each rank tells of both."""
    finished = [toy.values(events, "FINISHED")[0] for events in rank_logs(folder)]
    return {rank["parameters_checksum"] for value in finished for rank in value["ranks"]}


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ranks_train_together(tmp_path: Path, nodes: int) -> None:
    port, config = free_port(), toy.config(max_steps=3)
    started = [starter(tmp_path, config, nodes=nodes, node=node, port=port) for node in range(nodes)]
    assert [(process.communicate()[0], process.returncode) for process in started] == [("", 0)] * nodes
    assert len(checksums(tmp_path)) == 1
    assert [len(value["ranks"]) for value in toy.values(rank_logs(tmp_path)[0], "FINISHED")] == [2]


@pytest.mark.slow
def test_a_rank_that_fails_is_told_and_ends_the_others(tmp_path: Path) -> None:
    process = starter(tmp_path, toy.config(max_epochs=None, max_time=600))
    while not all((tmp_path / f"rank{rank}.out.log").exists() for rank in range(2)) or not all(
        toy.values(events, "STEP_END") for events in rank_logs(tmp_path)
    ):
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()[0]
    ranks = children(process.pid)
    os.kill(ranks[1], signal.SIGKILL)
    said, _ = process.communicate()
    assert "rank 1 ended with exit status -9 at " in said
    assert process.returncode == 1
    assert [rank for rank in ranks.values() if Path(f"/proc/{rank}").exists()] == []


@pytest.mark.parametrize("ranks", [pytest.param(1, id="while it starts them"), pytest.param(2, id="afterwards")])
def test_a_starter_that_is_stopped_stops_its_ranks(tmp_path: Path, ranks: int) -> None:
    process = starter(tmp_path, toy.config(max_epochs=None, max_time=600))
    while len(children(process.pid)) < ranks:
        assert process.poll() is None, process.communicate()[0]
    process.terminate()
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    config = os.fsencode(tmp_path / "config.yaml")
    commands = {path.parent.name: _bytes(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
    assert [process for process, command in commands.items() if config in command] == []


def _bytes(path: Path) -> bytes:
    """What a file below /proc holds: nothing after the end of its process."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def children(parent: int) -> dict[int, int]:
    """Rank → process, of the processes that a starter has made."""
    found = {}
    for name in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        variables = _bytes(Path(f"/proc/{name}/environ")).split(b"\0")
        found |= {int(one[5:]): int(name) for one in variables if one.startswith(b"RANK=")}
    return found


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        process = starter(tmp_path, toy.config(), nodes=2, port=taken.getsockname()[1])
        said, _ = process.communicate()
    assert (said.split()[0], process.returncode) == ("EADDRINUSE", 1)


NODES = [["10.0.0.1:7001", "10.0.0.1:7002", "10.0.0.1:7003"], ["10.0.0.2:8001", "10.0.0.2:8002"]]
ALL = "10.0.0.1:7001,10.0.0.1:7002,10.0.0.2:8001,10.0.0.2:8002"


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{rank} {local_rank} {node_rank} {nnodes} {nproc} {world_size}", "3 1 1 2 2 4"),
        ("{address}:{port}", "10.0.0.1:7003"),
        ("{endpoint} {endpoints}", f"10.0.0.2:8002 {ALL}"),
        ('{{"worker": {endpoints_json}}}', '{"worker": ["' + ALL.replace(",", '", "') + '"]}'),
    ],
)
def test_what_a_template_may_name(template: str, value: str) -> None:
    place = rank_environments_of(NODES)[1]
    assert variables(place, {"OWN": template}) == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "OWN": value,
    }


def rank_environments_of(nodes: Sequence[Sequence[str]]) -> list[RankEnvironment]:
    return list(rank_environments(nodes, nproc=2, node_rank=1, address="10.0.0.1"))
