"""Hosts whose clocks differ from the launcher's: times are corrected, and people are told."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from flagperf_run import FAKE, User
from hosts import Host, TestCluster
from test_doctor_clean import job
from test_ssh import ssh_of
from test_vendor import WORDS, with_acme

from flagperf.cli.doctor.hosts import examine
from flagperf.config.schema.cluster import Node
from flagperf.hosts.ssh.transport import SshTransport
from flagperf.results.rank_log import read_rank_logs

SOURCE = Path(__file__).with_name("other_clock.c")
CLOCKS = {"h1": 3600, "h2": -120}  # seconds ahead
SLACK = 1.0  # seconds by which a busy machine may measure wrong


def approximately(clocks: float | Mapping[str, float]) -> Any:
    return pytest.approx(clocks, abs=SLACK)


def set_clock(host: Host, seconds: int) -> None:
    """Every program that is started over ssh sees another time; containers do not, for dockerd starts them."""
    library = host.root / "other_clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    config = host.root / "sshd_config"
    own = f" LD_PRELOAD={library} CLOCK_AHEAD={seconds}\n"
    config.write_text(re.sub(r"^(SetEnv PATH=\S+).*\n", rf"\1{own}", config.read_text(), flags=re.MULTILINE))
    host.stop("sshd")
    host.start_sshd()


@pytest.fixture
def apart(lab: TestCluster) -> Iterator[TestCluster]:
    """A cluster whose first host is an hour ahead, and whose second one is two minutes behind."""
    for host, seconds in zip(lab.hosts, CLOCKS.values(), strict=True):
        set_clock(host, seconds)
    yield lab
    for host in lab.hosts:
        set_clock(host, 0)


def test_the_offset_is_measured_at_connect(apart: TestCluster) -> None:
    async def measured(host: Host) -> float:
        async with SshTransport(Node(host.name, host.address, user="root"), ssh_of(apart), timeout=15) as transport:
            return transport.clock_offset

    assert {host.name: asyncio.run(measured(host)) for host in apart.hosts} == approximately(CLOCKS)


@pytest.mark.slow
def test_a_run_on_hosts_whose_clocks_differ(apart: TestCluster, tmp_path: Path) -> None:
    user = with_acme(User(apart, tmp_path, steps=True))
    acme = user.config_dir / "vendor/acme.yaml"  # whose ranks see the host's time
    acme.write_text(acme.read_text().replace('["ACME_*"]', '["ACME_*", LD_PRELOAD, CLOCK_AHEAD]'))
    done = user.run(*WORDS, *FAKE, "runtime=process", "max_steps=30", "monitor.interval=0.3")
    assert done.exit_code == 0, done.output
    (folder,) = done.folder.glob("*/round1")
    result = done.result(folder.parent.name)
    assert result["clocks"] == approximately({"h1_noderank0": 3600, "h2_noderank1": -120})
    for node, monitors in result["monitors"]["nodes"].items():
        known = {name: monitors[name]["coverage"] for name in ("cpu", "mem")}
        known["acme"] = monitors["acme"]["power"]["coverage"]
        assert min(known.values()) > 0.5, (node, known)
    assert result["monitors"]["energy"]["devices"]["energy_j"] > 0
    times = [event.time_ms / 1000 for log in read_rank_logs(folder) for event in log.events]
    began, ended = result["started"], result["started"] + result["seconds"]
    assert began - SLACK < min(times) <= max(times) < ended + SLACK
    report = (done.folder / "report.md").read_text()
    for host, seconds in CLOCKS.items():
        said = re.search(rf"{host}: its clock is ([-+\d.]+) s from the launcher's", done.log)
        noted = re.search(rf"the clock of {host}_noderank\d was ([-+\d.]+) s from the launcher's", report)
        assert said and noted and float(said[1]) == approximately(seconds) == float(noted[1]), (done.log, report)


def test_doctor_tells_of_a_clock(apart: TestCluster, tmp_path: Path) -> None:
    found = asyncio.run(examine(job(User(apart, tmp_path), "runtime=process")))
    clocks = {row.host: row for row in found if row.check == "clock"}
    assert {name: (row.state, row.advice) for name, row in clocks.items()} == dict.fromkeys(
        CLOCKS, ("warning", "set it by NTP")
    )
    offsets = {name: float(row.text.partition(" s from this machine's")[0]) for name, row in clocks.items()}
    assert offsets == approximately(CLOCKS)
