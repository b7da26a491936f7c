"""One node in one round: the work of each phase."""

from __future__ import annotations

import asyncio
import logging
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from flagperf.config.parts.data_layout import moved
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.contract.perflog import Event
from flagperf.contract.regular import yaml_text
from flagperf.contract.sys_info import CLOCK
from flagperf.errors import HostError
from flagperf.hosts.facts import Facts, add_tool, read_facts, sys_info
from flagperf.hosts.leftovers import claim, keep, remove_dead_folders
from flagperf.hosts.monitors.running import running
from flagperf.hosts.page_caches import CLEARED, clear_page_caches
from flagperf.hosts.payload import send_code, send_secrets
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import MOST_CLOCK, Process, Transport
from flagperf.plan.container import data_dir_on
from flagperf.plan.plan import SCRATCH
from flagperf.plan.values import CONFIG, ENVIRONMENT, NodePlan, Plan
from flagperf.run import preflight
from flagperf.run.bringing import bring
from flagperf.run.node_logs import NodeLogs
from flagperf.run.runtime import Runtime
from flagperf.run.times import PhaseTimes

VMSTAT = "/proc/vmstat"  # has the kernel's count of processes that it killed for lack of memory
LOOKS = 10  # attempts to see a file of this machine on a host, one a second
FULL_LOG = script(__file__, "full_log.sh")
SHORT = 10.0  # seconds for a command that makes or removes a folder

log = logging.getLogger(__name__)


class NodeRun:
    """Does a node's part of a round, phase by phase. `flagperf.run.execute` calls the phases."""

    facts: Facts
    about: Mapping[str, str]  # lines of sys_info.log
    logs: NodeLogs  # of the last attempt to start the ranks

    def __init__(
        self, job: JobConfig, plan: Plan, rank: int, transport: Transport, runtime: Runtime, round_folder: Path
    ) -> None:
        self.job, self.rank, self.transport, self.runtime = job, rank, transport, runtime
        self.folder = round_folder / Path(plan.nodes[rank].log_dir).name
        self.times = PhaseTimes()
        self.exit_status: int | None = None
        self.ended: float | None = None  # time.monotonic of the observed end of the ranks' launcher
        self.process: Process | None = None
        self.say: Callable[[str], object] = log.info  # takes messages about long work
        self.brings_code = True  # false: another node of the round with the same files brings the code
        self.checkpoints: Sequence[Path] = ()  # to send to another host
        self.claimed = False  # true: the host has a folder that this run made
        self.uncollected = False  # true: the host has logs that are not on this machine
        self._monitors = AsyncExitStack()
        self.adopt_plan(plan)

    def adopt_plan(self, plan: Plan) -> None:
        """Use this plan from now on."""
        self.plan = plan
        self.runtime.adopt_plan(plan, self.node)

    @property
    def node(self) -> NodePlan:
        """The node's part of the plan."""
        return self.plan.nodes[self.rank]

    @property
    def host(self) -> str:
        """The node's name."""
        return self.node.node.name

    @property
    def shown_phases(self) -> tuple[str, ...]:
        """The phases that may take long."""
        image = ("image",) if self.node.container is not None or not self.transport.same_files else ()
        reached = () if self.transport.local else ("connect",)
        files = () if self.transport.same_files else ("send", "collect", "clean")
        return ("check", "start", "stop", *image, *reached, *files)

    async def check(self) -> None:
        """Refuse a host on which the round cannot work. Raises ConfigError or HostError."""
        await self.look()
        preflight.check_devices(self.job, self.host, self.facts)
        preflight.check_ranks(self.job, self.host, self.facts)
        if shared := preflight.shared_cores(self.job, self.facts):
            log.warning("%s: %s", self.host, shared)
        if abs(offset := self.transport.clock_offset) > MOST_CLOCK:
            log.warning("%s: its clock is %+.2f s from the launcher's; times are corrected by that", self.host, offset)
        preflight.check_room(self.host, self.node.case_dir, self.facts)
        await preflight.check_data(self.job, self.transport, self.node.node.data_dir or self.job.data_dir)
        if not self.transport.same_files:
            await remove_dead_folders(self.transport, self.job.cluster.work_dir, make=True, claims=self.facts.claims)
        await self.runtime.check()

    async def look(self) -> None:
        """Read the facts of the host."""
        ports = self.rank == 0  # the ranks meet at a free port of this node
        devices, work_dir = self.job.vendor.device_files, "" if self.transport.same_files else self.job.cluster.work_dir
        self.facts = await read_facts(self.transport, self.node.case_dir, devices, ports=ports, work_dir=work_dir)

    async def ran_out_of_memory(self) -> bool:
        """Whether the host's kernel has killed a process for lack of memory since the facts were read."""
        before = self.facts.number("oom_kills")
        done = await self.transport.run(Command(("awk", "/^oom_kill /{print $2}", VMSTAT)), timeout=SHORT)
        return before is not None and done.stdout.strip().isdigit() and int(done.stdout) > before

    async def filled_its_log(self, rank: int) -> bool:
        """Whether a rank's log is as long as a file of this user may be on the host: the rank could say no more."""
        return (await self.transport.run(shell(FULL_LOG, self.logs.of_rank(rank)), timeout=SHORT)).exit_status == 0

    async def prepare(self) -> None:
        """Prepare what takes long and is no part of the measured start."""
        await self.runtime.prepare()
        self.about = {**self.facts.fields, CLOCK: f"{self.transport.clock_offset:+.3f}", **self.runtime.facts}
        if self.job.clear_caches:
            self.about["page_caches"] = await clear_page_caches(self.transport)

    @property
    def caches_cleared(self) -> bool:
        """Whether `prepare` cleared the host's page caches."""
        return self.about.get("page_caches") == CLEARED

    async def send(self) -> None:
        """Make the log folder and bring what the ranks read: the configuration and, to another host, the code."""
        if self.transport.same_files:
            await self._check_files()
        else:
            await claim(self.transport, str(Path(self.node.case_dir).parent))
            self.claimed = True
        await self._do("mkdir", "-p", self.node.log_dir)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "sys_info.log").write_text(sys_info(self.about), encoding="utf-8")
        if tool := self.job.vendor.monitor:  # it may take seconds to answer: the start does not wait for it
            asking = asyncio.create_task(add_tool(self.folder / "sys_info.log", self.transport, tool))
            self._monitors.callback(asking.cancel)
        await self._send_config()
        if self.node.sent_code and self.brings_code:
            await send_code(self.transport, self.node.sent_code, self.job.code_dirs)
        if not self.transport.same_files and self.job.resume:
            for path in self.checkpoints:
                await self.transport.put(path, f"{self.plan.config['resume']}/{path.name}")

    async def _check_files(self) -> None:
        """Refuse a host without the files of this machine. A network file system may show a new file after seconds."""
        config = self.folder.with_name(CONFIG)
        for _ in range(0 if self.transport.local else LOOKS):
            seen = await self.transport.read(str(config))
            if seen and config.read_bytes().startswith(seen):
                return
            await asyncio.sleep(1)
        if not self.transport.local:
            problem = f"it has other files than this machine: {config} is missing there, or differs"
            raise HostError(
                self.host, problem, advice="remove shared: true: flagperf then sends and collects the files"
            )

    async def _send_config(self) -> None:
        """Bring config.yaml and environment.sh. Without a container config.yaml has the host's own data folder."""
        if self.transport.same_files and not self.node.own_config:
            return
        source, host_data_dir = self.folder.parent / CONFIG, data_dir_on(self.job, self.node.node)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            if host_data_dir != self.job.data_dir and self.node.container is None:
                file.write(yaml_text(moved(self.plan.config, self.job.data_dir, host_data_dir)))
                file.flush()
                source = Path(file.name)
            await self.transport.put(source, self.node.config_file)
        await self.transport.put(self.folder.with_name(ENVIRONMENT), self.node.environment_file)

    async def launch(self) -> None:
        """Start the monitors, the ranks' launcher, and reading the logs."""
        self.exit_status = self.ended = None
        self.logs = NodeLogs(
            self.plan, self.node, self.transport, self.folder, self.job.mask, self.job.framework.failures.exits
        )
        await self._monitors.enter_async_context(running(self.job, self.node, self.transport, self.folder))
        self.uncollected = not self.transport.same_files
        if self.node.secrets:
            await send_secrets(self.transport, self.node.secrets_file, self.job.secrets)
        self.process = await self.runtime.launch()
        self.times.launched()

    async def events(self) -> list[tuple[int, Event]]:
        """New events of the ranks since the last call: rank and event."""
        events = await self.logs.events()
        for rank, event in events:
            if rank == self.node.ranks[0]:
                self.times.observe(event)
        return events

    async def wait(self) -> None:
        """Wait until the ranks' launcher has ended."""
        assert self.process is not None
        self.exit_status = await self.process.wait()
        self.ended = time.monotonic()

    @property
    def failed(self) -> bool:
        """Whether the ranks' launcher has ended with a failure, or said that a rank has."""
        return self.logs.noticed or (self.ended is not None and self.exit_status != 0)

    async def stop(self) -> None:
        """Stop training, then the monitors."""
        try:
            if self.process is not None:
                await self.process.stop()
                with suppress(HostError):  # the training reports a lost host
                    await self.runtime.hand_over()
                    await self._do("rm", "-rf", f"{self.node.log_dir}/{SCRATCH}")
        finally:
            await self._monitors.aclose()

    async def collect(self) -> None:
        """Bring this node's logs and checkpoints to the round's folder on this machine, without secrets."""
        if not self.claimed and not self.transport.same_files:
            return
        complete = await bring(self.transport, self.node.log_dir, self.folder, self.job.mask, say=self.say)
        self.uncollected = not complete

    async def clean(self) -> None:
        """Remove everything that this round made on the host, except logs that could not be collected."""
        try:
            await self.runtime.clean()
        finally:  # remove the folder also if the docker daemon has ended
            if self.uncollected:
                await self._keep()
            elif self.claimed:
                await self._do("rm", "-rf", str(Path(self.node.case_dir).parent))
                self.claimed = False
            elif self.transport.same_files:
                paths = [self.node.sent_code] if self.node.sent_code and self.brings_code else []
                paths += [self.node.secrets_file] if self.node.secrets else []
                if paths:
                    await self._do("rm", "-rf", *paths)

    async def _keep(self) -> None:
        """Leave the logs on the host, and log their folder. A lost host may have them when it is back."""
        run_folder = self.folder.parent.parent.parent
        log.warning(
            "%s: logs could not be collected and stay there, in %s; to bring them: flagperf report %s collect=true",
            *(self.host, self.node.log_dir, shlex.quote(str(run_folder))),
        )
        if self.node.secrets:
            await self._do("rm", "-f", self.node.secrets_file)
        await keep(self.transport, str(Path(self.node.case_dir).parent), self.node.case_dir)

    async def _do(self, *argv: str) -> None:
        """Run a short command that must succeed."""
        done = await self.transport.run(Command(argv), timeout=SHORT)
        if done.exit_status != 0:
            raise HostError(self.host, done.stderr.strip() or f"the connection was lost during: {done.command.line()}")
