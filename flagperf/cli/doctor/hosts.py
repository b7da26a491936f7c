"""flagperf doctor: check that a job can run on its cluster, with advice for each problem

usage: flagperf doctor [OVERRIDES…] [fabric=true | offline=true]

words:
  OVERRIDES…    the same as those of the run: vendor=, hardware=, cluster=, nnodes= …
  fabric=true   if no check fails, also start the ranks and search for a slow link between them, as run probe=links does
  offline=true  list what the run would download instead: packages, images, data, git

options: --config-dir

examples:
  flagperf doctor model=glm vendor=nvidia hardware=A100 nnodes=2 nproc=8 cluster=lab data_dir=/data/glm
  flagperf doctor model=glm vendor=nvidia hardware=A100 cluster=lab offline=true
  flagperf doctor vendor=nvidia hardware=A100 nnodes=16 nproc=8 cluster=lab fabric=true

exit codes: 0, 2, 3
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from flagperf.cli.cluster import look_at_cluster
from flagperf.cli.data import other_data
from flagperf.cli.doctor.docker import DockerChecks
from flagperf.cli.doctor.software import plan_of_node
from flagperf.config.parts.data_layout import DATA_DIR
from flagperf.config.rules.secrets import read_secrets
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.contract.sample_data import is_sample_folder
from flagperf.docker.blocking import in_thread
from flagperf.errors import ConfigError
from flagperf.hosts.connect import make_transports
from flagperf.hosts.facts import Facts, read_facts
from flagperf.hosts.findings import Check, Finding, Row, failed_row, look
from flagperf.hosts.leftovers import FolderState, claimed_folders
from flagperf.hosts.monitors.running import ask_once
from flagperf.hosts.transport import MOST_CLOCK, Transport
from flagperf.plan.plan import make_plan
from flagperf.run import preflight
from flagperf.run.runtime import environment
from flagperf.schedulers.interface import scheduler

FABRIC, OFFLINE = "fabric", "offline"
MOST_NAME = 1.0  # seconds for looking up a host's own name
LEAST_SHM = 1024**2  # KiB of /dev/shm, through which data loader processes pass batches
LOOK_TIMEOUT = 30.0  # seconds
LOOK_UP = 'getent hosts "$(uname -n)" >/dev/null'
DATA_ADVICE = "bring the data there, or say where it lies: data_dir, or the node's own data_dir in the cluster's file"


def main(options: argparse.Namespace) -> int:
    """Print a line for each check of the job's cluster, or for each download; search for a slow link on request."""
    offline, fabric = word_of(options, OFFLINE), word_of(options, FABRIC)
    if offline:
        from flagperf.cli.doctor.offline import examine_offline

        return look_at_cluster(options, examine_offline)
    code = look_at_cluster(options, examine)
    if not fabric:
        return code
    if code:
        print("The links are not measured: a check failed. Solve the problem, and repeat the command with fabric=true.")
        return code
    from flagperf.cli import run  # heavy, and no part of the other checks

    options.arguments += ["probe=links"]
    return run.main(options)


def word_of(options: argparse.Namespace, key: str) -> bool:
    """Take a word of doctor such as fabric=true out of the overrides: whether the command has it; ConfigError."""
    words = [word for word in options.arguments if word.startswith(f"{key}=")]
    options.arguments = [word for word in options.arguments if word not in words]
    if words and (given := words[-1].removeprefix(f"{key}=")) != "true":
        raise ConfigError("unknown value", key=key, given=given, allowed="true")
    return bool(words)


async def examine(job: JobConfig) -> list[Row]:
    """Check every host of the cluster. Problems become rows, and raise no errors."""
    of_scheduler = await scheduler(job.cluster.source).examine(job)
    if of_scheduler is not None:
        return [*of_scheduler, *_cluster_rows(job)]
    transports = make_transports(job, job.cluster.nodes)
    hosts = [_Host(job, *pair) for pair in zip(job.cluster.nodes, transports, strict=True)]
    await asyncio.gather(*(host.examine() for host in hosts))
    rows = [row for host in hosts for row in host.rows]
    return [*_cluster_rows(job), *rows, *_folder_rows(hosts), *_image_rows(hosts)]


class _Host:
    """The checks of a host."""

    def __init__(self, job: JobConfig, node: Node, transport: Transport) -> None:
        self.job, self.node, self.transport = job, node, transport
        self.rows: list[Row] = []
        self.facts = Facts({})
        self.docker = DockerChecks(job, node, transport, self._claimed)
        self._claims: asyncio.Future[dict[str, FolderState]] | None = None
        self._connection = AsyncExitStack()

    async def examine(self) -> None:
        async with self._connection:
            if not await self._check("ssh", self._ssh) or not await self._check("host", self._host):
                return
            checks = asyncio.gather(*(look(self.node.name, *check) for check in self._checks()))
            for rows in await asyncio.gather(checks, self.docker.rows()):
                self.rows += rows

    def _checks(self) -> list[tuple[str, Check]]:
        """The checks that do not depend on each other."""
        return [
            ("clock", self._clock),
            ("own name", self._own_name),
            ("disk", self._disk),
            *([] if self.transport.same_files else [("work_dir", self._work_folder)]),
            ("memory", self._memory),
            ("shm", self._shm),
            ("devices", self._devices),
            ("data", self._data),
            ("interface", self._interface),
            ("port", self._port),
            *([("monitor", self._monitor)] if self.job.vendor.monitor else []),
            *([("python", self._python)] if self.job.image is None else []),
        ]

    async def _check(self, name: str, check: Check) -> bool:
        """Make a check and add its row. Returns False where the check failed."""
        self.rows.append(row := await look(self.node.name, name, check))
        return row.state != "failed"

    async def _ssh(self) -> Finding:
        began = time.monotonic()
        await self._connection.enter_async_context(self.transport)
        if self.transport.local:
            return Finding("this machine")
        text = f"reached in {1000 * (time.monotonic() - began):.0f} ms"
        if not self.job.cluster.ssh.strict:
            return Finding(text, "its host key is not checked; remove ssh.strict: false from the cluster's file")
        return Finding(f"{text}, host key known")

    async def _host(self) -> Finding:
        first = self.node is self.job.cluster.nodes[0]
        devices, claims = self.job.vendor.device_files, "" if self.transport.same_files else self._work_dir
        self.facts = await read_facts(self.transport, self._work_dir, devices, ports=first, work_dir=claims)
        return Finding(f"{self.facts.fields['os']}, {self.facts.fields['kernel']}")

    async def _clock(self) -> Finding:
        offset = self.transport.clock_offset
        text = f"{offset:+.2f} s from this machine's"
        return Finding(text, "set it by NTP" if abs(offset) > MOST_CLOCK else "")

    async def _own_name(self) -> Finding:
        began = time.monotonic()
        done = await self.transport.run(Command(("sh", "-c", LOOK_UP)), timeout=LOOK_TIMEOUT)
        seconds = time.monotonic() - began
        advice = "add the host's own name to its /etc/hosts"
        if done.exit_status != 0:
            return Finding(f"{self.facts.fields['host']} does not resolve ({seconds:.1f} s)", advice)
        return Finding(f"resolves in {seconds:.2f} s", advice if seconds > MOST_NAME else "")

    async def _disk(self) -> Finding:
        preflight.check_room(self.node.name, self._work_dir, self.facts)
        return Finding(f"{_gib(self.facts, 'disk_free_kib')} free in {self._work_dir}")

    async def _work_folder(self) -> Finding:
        await self._claimed()
        return Finding(f"{self._work_dir}: only this user can reach into it")

    async def _claimed(self) -> dict[str, FolderState]:
        """The folders that runs claimed on the host. Two checks need them; the host is asked once."""
        if self._claims is None:
            query = claimed_folders(self.transport, self.job.cluster.work_dir, claims=self.facts.claims)
            self._claims = asyncio.ensure_future(query)
        return await self._claims

    async def _memory(self) -> Finding:
        preflight.check_ranks(self.job, self.node.name, self.facts)
        free, total = _gib(self.facts, "memory_available_kib"), _gib(self.facts, "memory_kib")
        return Finding(f"{free} of {total} available")

    async def _shm(self) -> Finding:
        options = self.job.container
        if options is not None and options.ipc != "host":
            return Finding(f"{options.shm_size or '64m'} in the container")
        kib = self.facts.number("shm_kib")
        small = kib is not None and kib < LEAST_SHM
        return Finding(_gib(self.facts, "shm_kib"), "enlarge /dev/shm there, or use num_workers=0" if small else "")

    async def _devices(self) -> Finding:
        preflight.check_devices(self.job, self.node.name, self.facts)
        if shared := preflight.shared_cores(self.job, self.facts):
            return Finding(shared, "choose a smaller nproc; the run works, but its figures have little meaning")
        if self.job.vendor.device_files is None:
            return Finding(f"{self.facts.fields['cores']} cores; vendor {self.job.vendor.name} counts no devices")
        return Finding(f"{self.facts.devices} for {self.job.nproc} ranks a node")

    async def _data(self) -> Finding:
        folder = self.node.data_dir or self.job.data_dir
        if folder == DATA_DIR:
            return Finding("not checked: no data_dir is given", skipped=True)
        try:
            await preflight.check_data(self.job, self.transport, folder)
        except ConfigError as error:
            advice = "\n".join(filter(None, [DATA_ADVICE, error.advice]))
            raise ConfigError(
                error.problem, key="data_dir", given=folder, allowed=error.allowed, advice=advice
            ) from error
        if is_sample_folder(self.job.config):
            return Finding(f"{folder} (made when it is needed)")
        is_countable = self.transport.local and folder == self.job.data_dir and self.job.extent is not None
        difference = await in_thread(partial(other_data, self.job)) if is_countable else ""
        return Finding(f"{folder}: {difference}" if difference else folder, DATA_ADVICE if difference else "")

    async def _interface(self) -> Finding:
        if self.transport.local:
            return Finding("not needed")
        configured = self.job.cluster.rendezvous.interface
        if name := configured or self.facts.interface(self.transport.address):
            return Finding(f"{name} has {self.transport.address}")
        advice = "name it in the cluster's file: rendezvous.interface"
        return Finding(f"none has the address {self.transport.address}", advice)

    async def _port(self) -> Finding:
        port = self.job.cluster.rendezvous.port
        if port is None:
            return Finding("flagperf will choose a free port")
        if port in self.facts.listening and self.node is self.job.cluster.nodes[0]:
            raise ConfigError(f"port {port} is taken", advice="choose another rendezvous.port, or null")
        return Finding(f"{port} is free")

    async def _monitor(self) -> Finding:
        tool = self.job.vendor.monitor
        assert tool is not None
        try:
            text, remarks = await ask_once(tool, self.job.hardware, self.transport)
            return Finding(f"{tool.command[0]}: {text}", "; ".join(remarks))
        except ValueError as error:
            advice = "install it, or correct vendor.monitor; a run works without it"
            return Finding(f"{tool.command[0]}: {error}", advice)

    async def _python(self) -> Finding:
        plan = plan_of_node(self.job, self.node)
        versions = await environment(self.job, self.transport, plan.launch, plan.wrapper)
        return Finding(", ".join(f"{name} {version}" for name, version in versions.items()))

    @property
    def _work_dir(self) -> str:
        return self.job.result_dir if self.node.same_files else self.job.cluster.work_dir


def _cluster_rows(job: JobConfig) -> list[Row]:
    """Rows on errors of the job's plan on the cluster, and on secrets that cannot be read."""
    rows = []
    checks: dict[str, Callable[[], object]] = {
        "cluster": lambda: make_plan(job, 1),
        "secrets": lambda: read_secrets(job.cluster, lambda _: f"cluster {job.cluster.name}"),
    }
    for name, check in checks.items():
        try:
            check()
        except ConfigError as error:
            rows.append(failed_row(job.cluster.name, name, error))
    return rows


def _folder_rows(hosts: list[_Host]) -> list[Row]:
    """A row for each host that another node has, too, and for each that would write into the folder of another host."""
    return [
        Row(double.name, "host", "failed", f"the host of {double.earlier}, too", preflight.ONE_HOST)
        if double.one_host
        else Row(double.name, "work_dir", "failed", f"the work_dir of {double.earlier}, too", preflight.ONE_FOLDER)
        for double in preflight.doubles((host.node, host.facts) for host in hosts)
    ]


def _image_rows(hosts: list[_Host]) -> list[Row]:
    """A row for each host whose image differs from that of the first host that has one."""
    with_image = [host for host in hosts if host.docker.layers is not None]
    problem = f"another image than on {with_image[0].node.name}" if with_image else ""
    return [
        Row(host.node.name, "image", "failed", problem, "remove it on one of them")
        for host in with_image
        if host.docker.layers != with_image[0].docker.layers
    ]


def _gib(facts: Facts, name: str) -> str:
    kib = facts.number(name)
    return "unknown" if kib is None else f"{kib / 1024**2:.1f} GiB"
