"""The runtime `docker`: one container for the ranks of a node. create → start → wait → inspect → remove."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from flagperf.config.parts.image import entry_of
from flagperf.config.parts.needs import needs_of
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.docker.daemon import ANSWER, DockerHost, DockerRefusal
from flagperf.docker.image_supply import ImageSupply
from flagperf.docker.leftovers import container_states
from flagperf.docker.one_command import give, remove, run_to_end, with_command
from flagperf.docker.process import DockerProcess, start_keeper
from flagperf.errors import HostError
from flagperf.hosts.environment import parse_answer, query_argv
from flagperf.hosts.leftovers import this_owner
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Process, Transport
from flagperf.plan.container import owned, sdk_arguments
from flagperf.plan.values import Container, NodePlan, Plan

if TYPE_CHECKING:
    from docker import DockerClient

SHORT = 10.0  # seconds
OTHERS_FILES = script(__file__, "others_files.sh")

OPTIONS = "adapt the container options of runtime, vendor or cluster; dry_run=true shows the docker line"
NEED_ROOT = ("mqueue", "rlimit")  # limits of a user's own daemon: the host's /dev/shm, higher limits
ROOTLESS = "with a rootless daemon, the cluster's file needs container: {ipc: private, ulimits: {memlock: null}}"

T = TypeVar("T")

log = logging.getLogger(__name__)

# Versions in the images. Keys: host, ID of the image, query and container options. Later rounds and jobs reuse them.
_versions: dict[tuple[str, ...], dict[str, str]] = {}


class DockerRuntime:
    """The container of one node in one round."""

    def __init__(self, job: JobConfig, plan: Plan, node: NodePlan, transport: Transport, images: ImageSupply) -> None:
        self.job, self.transport, self.images = job, transport, images
        self.docker = DockerHost(transport, patience=job.cluster.ssh.reconnect)
        self.facts: Mapping[str, str] = {}
        self._created = False
        self._starting: asyncio.Task[None] | None = None
        self._keeper: Process | None = None
        self.adopt_plan(plan, node)

    def adopt_plan(self, plan: Plan, node: NodePlan) -> None:
        """Use this plan from now on."""
        assert node.container is not None
        self.plan, self.node, self.container = plan, node, node.container

    async def check(self) -> None:
        """Remove the containers of dead runs."""
        await self._remove_leftovers()

    async def prepare(self) -> None:
        """Bring the image to the host, and read the versions in the image."""
        await self.images.supply(self.docker, self.node.rank)
        facts = await self._ask(partial(image_facts, reference=self.container.image))
        query = (self.node.launch.argv[0], str(needs_of(self.job)), str(self.job.container))
        key = (self.transport.host, facts["image_id"], *query)
        if key not in _versions:
            _versions[key] = await image_versions(self.job, self.docker, self.node)
        self.facts = {**facts, **_versions[key]}

    async def launch(self) -> Process:
        """Start the container and its keeper."""
        folders = [mount.source for mount in self.container.mounts if not mount.read_only]
        await self.transport.run(Command(("mkdir", "-p", *folders)), timeout=SHORT)
        self._keeper = await start_keeper(self.transport, self.docker.socket, self.container.name)
        self._starting = asyncio.create_task(self._start(owned(self.container, this_owner())))
        await asyncio.shield(self._starting)  # a cancellation does not stop the daemon
        return DockerProcess(self.docker, self.container, self._keeper, self.plan.deadlines.stop)

    async def _start(self, container: Container) -> None:
        created = await self._ask(lambda client: client.containers.create(**sdk_arguments(container)))
        self._created = True  # from now on this process must remove the container
        await self._ask(lambda _: created.start())

    async def hand_over(self) -> None:
        """Give this user the files that the container's user, mostly root, has made in this user's folders."""
        options = self.container.options
        writable = (mount.source for mount in self.container.mounts if not mount.read_only)
        made = [folder for folder in writable if folder not in options.mounts]
        found = await self.transport.run(shell(OTHERS_FILES, *made), timeout=SHORT)
        owner, *folders = found.stdout.splitlines() or [""]
        if not folders:
            return
        giving = partial(give, container=self.container, options=options, folders=folders, owner=owner)
        try:
            status, output = await self._ask(giving)
        except HostError as error:
            status, output = 1, error.problem
        if status != 0:
            log.warning("%s: files of the container belong to another user: %s", self.transport.host, output.strip())

    async def clean(self) -> None:
        """Remove the container and its keeper, if they exist."""
        try:
            if self._starting is not None:
                while not (await asyncio.wait({self._starting}, timeout=ANSWER))[0]:
                    await self.docker.call(lambda _: None)  # raises DaemonError where the daemon does not answer
                with contextlib.suppress(HostError):  # `launch` has raised this error, unless it was cancelled
                    await self._starting
        finally:
            await self._remove()

    async def _remove(self) -> None:
        """Remove the container, and then its keeper."""
        try:
            if self._created:
                await self._ask(lambda client: remove(client, self.container.name))
                self._created = False
        finally:
            if self._keeper is not None:
                await self._keeper.stop()
                self._keeper = None

    async def close(self) -> None:
        """Close the connection to the daemon."""
        await self.docker.close()

    async def _remove_leftovers(self) -> None:
        """Remove containers of dead runs, and this launcher's own container whose name is needed now."""
        for name, state in (await container_states(self._ask)).items():
            if state == "dead" or (state == "this" and name == self.container.name):
                log.warning("%s: removing %s, left behind by a run that died", self.transport.host, name)
                await self._ask(partial(remove, name=name))

    async def _ask(self, work: Callable[[DockerClient], T]) -> T:
        """Let the daemon do work. Raises HostError where the daemon refuses."""
        try:
            return await self.docker.call(work, again=False)
        except DockerRefusal as error:
            raise refusal(self.transport.host, self.container, error) from error


async def image_versions(job: JobConfig, docker: DockerHost, node: NodePlan) -> dict[str, str]:
    """Versions of Python and of the framework's packages in the image of a node's container.

    Raises:
        HostError: the image's Python does not start, or lacks something that the ranks need.
    """
    container, needs = node.container, needs_of(job)
    assert container is not None and job.container is not None
    query = with_command(container, job.container, query_argv(node.launch.argv[0], needs))
    try:
        status, output = await docker.call(partial(run_to_end, container=query), again=False)
    except DockerRefusal as error:
        raise refusal(docker.host, container, error) from error
    key = f"vendor.image.{entry_of(job.vendor, job.framework)[0]}"
    advice = f"take an image that has it ({key}.name), or build on this one: {key}.base={container.image}"
    return parse_answer(docker.host, f"image {container.image}", needs, status, output, advice)


def image_facts(client: DockerClient, reference: str) -> dict[str, str]:
    """Facts for sys_info.log: version of docker, and name, ID and registry digest of the image."""
    image = client.images.get(reference)
    digests = ", ".join(image.attrs.get("RepoDigests") or ())
    return {
        "docker": client.version()["Version"],
        "image": reference,
        "image_id": str(image.id),
        "image_digest": digests or "none: the image does not come from a registry",
    }


def refusal(host: str, container: Container, error: DockerRefusal) -> HostError:
    """The error for a container that the daemon refuses."""
    if error.status == 409:
        return HostError(
            host,
            f"another container has the name {container.name}",
            advice=f"another run uses this container; if no run does: docker rm -f {container.name}",
        )
    if error.status == 404:
        return HostError(host, f"image {container.image} is missing on the host", advice="run again")
    problem = error.explanation
    advice = ROOTLESS if any(part in problem for part in NEED_ROOT) else OPTIONS
    return HostError(host, f"docker refuses the container: {problem}", advice=advice)
