"""All checks of a run and of the doctor on many hosts, against asyncssh and ansible that only run `true` there.

    python benchmarks/fanout.py [HOSTS] [ROUNDS]

The hosts are one sshd on this loopback, with one connection for each, whose shells read no start files. Needs Debian's
openssh-server. Where ansible is not on PATH its line is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import asyncssh
from limits import say

from flagperf.cli.doctor.hosts import examine
from flagperf.config.compose import compose
from flagperf.config.schema.cluster import Cluster, Node, Ssh
from flagperf.config.schema.values import JobConfig
from flagperf.hosts.connect import make_transports
from flagperf.plan.plan import make_plan
from flagperf.run.node_run import NodeRun
from flagperf.run.runtime import make_runtimes

LIMITS = {"checks of a run": 1.5, "flagperf doctor": 4.0}  # times asyncssh's `true`
LIMIT_ANSIBLE = 0.1  # times ansible's

SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/sshd.pid
UsePAM no
StrictModes no
PermitRootLogin yes
MaxStartups 1000
Subsystem sftp internal-sftp
SetEnv PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME={folder}
"""


@dataclass(frozen=True)
class Sshd:
    port: int
    key: Path
    known_hosts: Path


@contextlib.contextmanager
def sshd() -> Iterator[Sshd]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (folder / "sshd_config").write_text(SSHD.format(port=port, folder=folder))
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}")
        Path("/run/sshd").mkdir(exist_ok=True)
        server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", folder / "sshd_config", "-E", folder / "log"])
        try:
            while not (folder / "sshd.pid").exists():
                time.sleep(0.01)
            yield Sshd(port, folder / "key", folder / "known_hosts")
        finally:
            server.terminate()
            server.wait()


def run_on(server: Sshd, hosts: int, folder: str) -> JobConfig:
    nodes = tuple(Node(f"h{number}", "127.0.0.1", server.port, getpass.getuser()) for number in range(hosts))
    ssh = Ssh(key=str(server.key), known_hosts=str(server.known_hosts), config="/dev/null")
    cluster = Cluster("loopback", "one sshd", nodes, ssh=ssh, work_dir=folder)
    overrides = [f"runtime.python={sys.executable}", f"sample_dir={folder}"]
    return replace(compose(overrides), nnodes=hosts, cluster=cluster)


async def true(server: Sshd, hosts: int) -> None:
    """asyncssh alone: connect, run `true`, as many at a time as flagperf connects."""
    gate = asyncio.Semaphore(8)

    async def one_host() -> None:
        async with gate:
            connection = await asyncssh.connect(
                "127.0.0.1",
                server.port,
                client_keys=[str(server.key)],
                known_hosts=str(server.known_hosts),
                config=[],
            )
        async with connection:
            await connection.run("true", check=True)

    await asyncio.gather(*(one_host() for _ in range(hosts)))


async def checks(job: JobConfig, folder: Path) -> None:
    """The phases `connect` and `check` of a run."""
    plan = make_plan(job, 1, folder)
    transports = make_transports(job, job.cluster.nodes)
    runtimes = make_runtimes(job, plan, range(job.nnodes), transports)

    async def one_host(rank: int) -> None:
        async with transports[rank]:
            await NodeRun(job, plan, rank, transports[rank], runtimes[rank], folder).check()

    await asyncio.gather(*(one_host(rank) for rank in range(job.nnodes)))


def ansible(server: Sshd, hosts: int, folder: Path) -> None:
    """Its module `command`, as people run a command with it, on as many hosts at a time."""
    inventory = folder / "inventory"
    inventory.write_text(
        "".join(f"h{number} ansible_host=127.0.0.1 ansible_port={server.port}\n" for number in range(hosts))
    )
    options = f"-o UserKnownHostsFile={server.known_hosts} -o ControlMaster=no -o ControlPath=none"
    subprocess.run(
        ["ansible", "all", "-i", inventory, "-f", "8", "-m", "command", "-a", "true"],
        check=True,
        capture_output=True,
        env={**os.environ, "ANSIBLE_PRIVATE_KEY_FILE": str(server.key), "ANSIBLE_SSH_ARGS": options},
    )


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main(hosts: int, rounds: int) -> None:
    with sshd() as server, tempfile.TemporaryDirectory() as name:
        folder, run = Path(name), run_on(server, hosts, name)
        works: dict[str, Callable[[], object]] = {
            "asyncssh, true": lambda: asyncio.run(true(server, hosts)),
            "checks of a run": lambda: asyncio.run(checks(run, folder)),
            "flagperf doctor": lambda: asyncio.run(examine(run)),
        }
        if shutil.which("ansible"):
            works["ansible, true"] = lambda: ansible(server, hosts, folder)
        asyncio.run(true(server, 2))  # imports and caches
        times: dict[str, list[float]] = {work: [] for work in works}
        for work in [*works] * rounds:  # in turns: other work on the machine reaches them all
            times[work].append(seconds(works[work]))
        medians = {work: statistics.median(values) for work, values in times.items()}
        base = medians["asyncssh, true"]
        for work, median in medians.items():
            print(f"{work:18} {hosts} hosts {median:6.2f} s   {median / base:5.2f} x asyncssh")
        for work, limit in LIMITS.items():
            say(f"{work}, {hosts} hosts", medians[work] / base, limit, "x asyncssh running true")
        if "ansible, true" in medians:
            ratio = medians["checks of a run"] / medians["ansible, true"]
            say(f"checks of a run, {hosts} hosts", ratio, LIMIT_ANSIBLE, "x ansible running true")


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], *("64", "5")[len(sys.argv) - 1 :])))
