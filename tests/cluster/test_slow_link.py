"""`flagperf run probe=links` on four hosts: real ranks over a real network, in which one link is made slow."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hosts
import pytest
from flagperf_run import Done, User, word
from hosts import Host, TestCluster
from slow_cable import slow_cable

RATE = "200mbit"
PROCESS = ("runtime=process", f"runtime.python={sys.executable}", "oversubscribe=true", "fabric.largest=1m")


@pytest.fixture(scope="module")
def four() -> Iterator[TestCluster]:
    """Four hosts with sshd; their docker is not used."""
    if reason := hosts.why_not():
        pytest.skip(reason)
    with TestCluster(4) as cluster:
        for host in cluster.hosts:
            limit(host, RATE)
        yield cluster


def limit(host: Host, rate: str) -> None:
    """Let a host send with this rate at most. A link of the test must be slower than a busy processor."""
    words = ("dev", "eth0", "root", "tbf", "rate", rate, "burst", "64k", "latency", "400ms")
    host.output("tc", "qdisc", "replace", *words)


@contextmanager
def slow_host(host: Host) -> Iterator[None]:
    """A host sends with a tenth of the rate of the others."""
    limit(host, "20mbit")
    try:
        yield
    finally:
        limit(host, RATE)


def search(cluster: TestCluster, home: Path, nnodes: int, verb: str = "run") -> Done:
    place = ("cluster=lab", f"result_dir={word(home / 'result')}", "run_name=run", f"nnodes={nnodes}", "nproc=1")
    words = ("probe=links",) if verb == "run" else ("fabric=true",)
    return User(cluster, home).run(verb, *words, *PROCESS, *place, timeout=600)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_slow_link_is_located(four: TestCluster, tmp_path: Path) -> None:
    healthy = search(four, tmp_path / "healthy", 4, "doctor")
    assert healthy.exit_code == 0, healthy.output
    assert "No link between nodes is slow: 12 measured in 3 rounds of pairs." in healthy.output
    told = json.loads((healthy.folder / "probe.json").read_text())
    assert (told["hosts"], told["slow"], told["backend"]) == (["h1", "h2", "h3", "h4"], [], "gloo")
    assert len(told["searches"][0]["links"]) == 12

    with slow_host(four.hosts[2]):
        rate = search(four, tmp_path / "rate", 4)
    assert rate.exit_code == 3, rate.output
    assert "host h3: sending slow: bandwidth" in rate.output
    assert len(json.loads((rate.folder / "probe.json").read_text())["slow"]) == 1

    with slow_host(four.hosts[0]):
        pair = search(four, tmp_path / "pair", 2)
    assert "the link from host h1 to host h2 is slow: bandwidth" in pair.output

    with slow_cable(four, four.hosts[1], delay=0.02):
        delay = search(four, tmp_path / "delay", 4)
    assert delay.exit_code == 3, delay.output
    assert "host h2: both directions slow: latency" in delay.output
