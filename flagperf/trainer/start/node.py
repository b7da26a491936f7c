"""Starts the ranks of a node, for frameworks without a launcher of their own that is worth its time.

    python -m flagperf.trainer.start --nnodes 2 --nproc 8 --node-rank 0 --address 10.0.0.1 --port 29500 config.yaml

Each rank is `python -m flagperf.trainer config.yaml` with RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, and the
variables of the framework's `environment`. Their values are templates with the fields of `RankEnvironment`. A failure
of a rank is printed at once. Then, or when this process is stopped, all other ranks are stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from flagperf.contract.rank_environment import RankEnvironment
from flagperf.contract.regular import read_yaml

TRAINER = "flagperf.trainer"  # the module that a rank runs
GRACE = 5.0  # seconds from SIGTERM to SIGKILL of the other ranks
PATIENCE = 300.0  # seconds in which all nodes must have come to node 0
POLL = 0.05  # seconds
SETTLE = 1.0  # seconds from the first rank that fails to the end of the others: the one at fault may end last


def main(argv: Sequence[str]) -> int:
    """Start the ranks and wait for them. The exit status is 0 when each rank exits with 0."""
    options = _parse_options(argv)
    config = read_yaml(Path(options.config))
    signal.signal(signal.SIGTERM, _stop)
    try:
        nodes = _exchange_endpoints(options.nnodes, options.nproc, options.node_rank, options.address, options.port)
    except OSError as error:
        print(f"{errno.errorcode.get(error.errno or 0, '')} {error}: {options.address}:{options.port}", flush=True)
        return 1
    templates = config["framework"].get("environment") or {}
    command = [sys.executable, str(Path(__file__).with_name("uncached.py")), TRAINER, options.config]
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        with _stop_later():
            for rank in rank_environments(nodes, options.nproc, options.node_rank, options.address):
                environment = {**os.environ, **variables(rank, templates)}
                started[rank.rank] = subprocess.Popen(command, env=environment, start_new_session=True)
        return 0 if wait_all_succeeded(started) else 1
    finally:
        stop(started)


def _parse_options(argv: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m flagperf.trainer.start")
    for name in ("nnodes", "nproc", "node-rank", "port"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--address", required=True, help="of node 0")
    parser.add_argument("config", help="config.yaml, which the ranks read")
    return parser.parse_args(argv)


# ---------------------------------------------------------------- where the ranks are


def _exchange_endpoints(nnodes: int, nproc: int, node_rank: int, address: str, port: int) -> list[list[str]]:
    """Free endpoints (address:port) of each node: one for each rank, and one more on node 0.

    The other nodes send their ports to node 0. Node 0 sends the list of all nodes back.

    Raises:
        OSError: the port of node 0 is taken, or node 0 does not answer.
    """
    if nnodes == 1:
        return [_free_endpoints(address, nproc + 1)]
    if node_rank == 0:
        return _gather_endpoints(nnodes, _free_endpoints(address, nproc + 1), port)
    with _connect(address, port) as connection:
        endpoints = _free_endpoints(connection.getsockname()[0], nproc)
        connection.sendall(f"{json.dumps([node_rank, endpoints])}\n".encode())
        nodes: list[list[str]] = json.loads(connection.makefile().readline() or "null")
        if nodes is None:
            raise ConnectionError("node 0 ended")
        return nodes


def _free_endpoints(address: str, count: int) -> list[str]:
    """`count` endpoints of this node whose ports are free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("", 0))
        return [f"{address}:{listener.getsockname()[1]}" for listener in sockets]


def _gather_endpoints(nnodes: int, endpoints: list[str], port: int) -> list[list[str]]:
    """On node 0: receive the endpoints of the other nodes, and send the list of all nodes to each."""
    by_node = {0: endpoints}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("", port)))
        server.settimeout(PATIENCE)
        connections = []
        while len(by_node) < nnodes:
            connection = stack.enter_context(server.accept()[0])
            connection.settimeout(PATIENCE)
            node_rank, received = json.loads(connection.makefile().readline())
            by_node[node_rank] = received
            connections.append(connection)
        nodes = [by_node[node_rank] for node_rank in sorted(by_node)]
        for connection in connections:
            connection.sendall(f"{json.dumps(nodes)}\n".encode())
    return nodes


def _connect(address: str, port: int) -> socket.socket:
    """A connection to node 0, which may start later."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=PATIENCE)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(POLL)
        else:
            return connection


def rank_environments(
    nodes: Sequence[Sequence[str]], nproc: int, node_rank: int, address: str
) -> Iterator[RankEnvironment]:
    """The environment of each rank of a node."""
    endpoints = [endpoint for node in nodes for endpoint in node[:nproc]]
    for local_rank in range(nproc):
        rank = node_rank * nproc + local_rank
        yield RankEnvironment(
            rank=rank,
            local_rank=local_rank,
            node_rank=node_rank,
            nnodes=len(nodes),
            nproc=nproc,
            world_size=len(endpoints),
            address=address,
            port=int(nodes[0][nproc].rpartition(":")[2]),
            endpoint=endpoints[rank],
            endpoints=",".join(endpoints),
            endpoints_json=json.dumps(endpoints),
            threads=max(1, len(os.sched_getaffinity(0)) // nproc),
        )


def variables(rank: RankEnvironment, templates: Mapping[str, str]) -> dict[str, str]:
    """The variables of a rank: those of every framework's trainer, and those of this framework."""
    known = {
        "RANK": rank.rank,
        "WORLD_SIZE": rank.world_size,
        "LOCAL_RANK": rank.local_rank,
        "LOCAL_WORLD_SIZE": rank.nproc,
    }
    fields = asdict(rank)
    return {
        **{name: str(value) for name, value in known.items()},
        **{name: template.format(**fields) for name, template in templates.items()},
    }


# ---------------------------------------------------------------- how they end


def wait_all_succeeded(started: Mapping[int, subprocess.Popen[bytes]]) -> bool:
    """Wait for the end of all ranks; after a failure, wait only a moment. Returns whether all ranks succeeded.

    Prints the exit status of each failed rank, in the order of the failures.
    """
    reported: set[int] = set()
    until = math.inf
    while time.monotonic() < until and any(process.poll() is None for process in started.values()):
        _report_failures(started, reported)
        if reported and until == math.inf:
            until = time.monotonic() + SETTLE
        time.sleep(POLL)
    _report_failures(started, reported)
    if reported:
        stop(started)
        _report_failures(started, reported)
    return not reported


def _report_failures(started: Mapping[int, subprocess.Popen[bytes]], reported: set[int]) -> None:
    """Print the failures that are not reported yet, and add their ranks to `reported`."""
    for rank, process in started.items():
        if rank not in reported and process.poll():
            print(f"rank {rank} ended with exit status {process.returncode} at {time.strftime('%H:%M:%S')}", flush=True)
            reported.add(rank)


def stop(started: Mapping[int, subprocess.Popen[bytes]]) -> None:
    """End all ranks that still run."""
    running = [process for process in started.values() if process.poll() is None]
    for process in running:
        process.terminate()
    until = time.monotonic() + GRACE
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        process.kill()
        process.wait()


def _stop(number: int, _: Any) -> NoReturn:
    sys.exit(128 + number)


@contextlib.contextmanager
def _stop_later() -> Iterator[None]:
    """Delay a SIGTERM to the end of the block: a rank that starts at that moment would not be known, and go on."""
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, _stop)
    if received:
        _stop(received[0], None)
