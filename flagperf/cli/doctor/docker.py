"""The checks of `flagperf doctor` on a host's docker: the daemon, the image, its Python, and leftovers of dead runs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial

from flagperf.cli.doctor.software import plan_of_node, started_modules, starting
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.docker.daemon import DaemonError, DockerHost, DockerRefusal, NoDocker
from flagperf.docker.image_supply import image_layers
from flagperf.docker.leftovers import container_states
from flagperf.docker.one_command import run_to_end, with_command
from flagperf.docker.runtime import image_versions, refusal
from flagperf.errors import ConfigError
from flagperf.hosts import leftovers
from flagperf.hosts.findings import Finding, Row, look
from flagperf.hosts.transport import Transport

LOOK_TIMEOUT = 30.0  # seconds
BUILDER = "docker --version && docker buildx version >/dev/null"
BUILDX_SINCE = 23  # from this version of docker, BuildKit needs the plug-in buildx


Claimed = Callable[[], Awaitable[dict[str, leftovers.FolderState]]]  # returns the folders that runs claimed on a host


class DockerChecks:
    """The checks of a host that need its docker. They run one after another."""

    def __init__(self, job: JobConfig, node: Node, transport: Transport, claimed: Claimed) -> None:
        self.job, self.node, self.transport, self.claimed = job, node, transport, claimed
        self.layers: list[str] | None = None  # of the image; None: the host has no such image
        self._docker = DockerHost(transport)
        self._answers = False
        self._unseen = ""  # the reason why its containers could not be listed

    async def rows(self) -> list[Row]:
        """A row for each check of the daemon, of the image, of its Python, and of leftover containers."""
        checks = [("docker", self._daemon), ("leftovers", self._leftovers)]
        if self.job.image is not None:
            checks[1:1] = [("image", self._image), ("python", self._python)]
        try:
            return [await look(self.node.name, *check) for check in checks]
        finally:
            await self._docker.close()

    async def _daemon(self) -> Finding:
        try:
            info = await self._docker.call(lambda client: client.version())
        except DaemonError as error:
            self._unseen = "" if isinstance(error, NoDocker) else error.problem
            if self.job.image is not None:
                raise
            unneeded = f"runtime={self.job.runtime.name} needs none"
            if isinstance(error, NoDocker):
                return Finding(f"{error.problem}; {unneeded}")
            return Finding(error.problem, f"{error.advice}; {unneeded}")
        self._answers = True
        return Finding(f"version {info['Version']}")

    async def _image(self) -> Finding:
        image = self.job.image
        assert image is not None
        if not self._answers:
            return Finding("not checked: docker does not answer", skipped=True)
        self.layers = await image_layers(self._docker, image.reference)
        if self.layers is not None:
            return Finding(f"{image.reference} is there")
        if image.policy == "present":
            problem, advice = f"{image.reference} is not there", "load it there, or choose another image policy"
            raise ConfigError(problem, advice=advice)
        builds = image.policy == "build" and self.node is self.job.cluster.nodes[0]
        return Finding(
            f"{image.reference} is not there yet; policy {image.policy} gets it",
            await self._missing_builder() if builds else "",
        )

    async def _python(self) -> Finding:
        """The check that the image's Python starts, and imports the first modules of the ranks."""
        if self.layers is None:
            return Finding("not checked: the image is not there", skipped=True)
        plan = plan_of_node(self.job, self.node)
        assert plan.container is not None and self.job.container is not None
        await image_versions(self.job, self._docker, plan)
        container = with_command(plan.container, self.job.container, starting(self.job, plan.launch).argv)
        try:
            status, output = await self._docker.call(partial(run_to_end, container=container), again=False)
        except DockerRefusal as error:
            raise refusal(self.node.name, container, error) from error
        return Finding(f"the image's Python starts, and imports {started_modules(self.node.name, status, output)}")

    async def _missing_builder(self) -> str:
        """Advice on a missing program for a build; "" where nothing is missing."""
        done = await self.transport.run(Command(("sh", "-c", BUILDER)), timeout=LOOK_TIMEOUT)
        version = re.search(r"version (\d+)", done.stdout)
        if version is None:
            return "the image is built here: install the docker command, with BuildKit"
        if done.exit_status != 0 and int(version[1]) >= BUILDX_SINCE:
            return "the image is built here: install docker's plug-in buildx"
        return ""

    async def _leftovers(self) -> Finding:
        states: dict[str, leftovers.FolderState] = {}
        if not self.transport.same_files:
            states |= await self.claimed()
            states |= dict.fromkeys(await leftovers.dead_process_folders(self.transport), "dead")
        if self._answers:
            states |= {
                f"container {name}": state for name, state in (await container_states(self._docker.call)).items()
            }
        dead, kept = ([item for item, state in states.items() if state == wanted] for wanted in ("dead", "kept"))
        unseen = f"; containers were not checked: {self._unseen}" if self._unseen else ""
        texts = [f"of dead runs: {', '.join(dead)}"] if dead else []
        advice = [f"flagperf clean cluster={self.job.cluster.name}"] if dead else []
        if kept:
            texts.append(f"logs that were not collected: {', '.join(kept)}")
            advice.append(leftovers.advice(kept))
        if texts:
            return Finding("; ".join(texts) + unseen, "\n".join(advice))
        return Finding((f"{len(states)} of other runs" if states else "none") + unseen, skipped=bool(unseen))
