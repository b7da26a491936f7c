"""A running container as a Process."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from flagperf.docker import discard
from flagperf.docker.daemon import MISSING, DaemonError, DockerHost, DockerRefusal
from flagperf.errors import HostError
from flagperf.hosts.shell import MARKED, script, shell
from flagperf.hosts.transport import Process, Transport, negative_signal
from flagperf.plan.container import MARK
from flagperf.plan.values import Container

if TYPE_CHECKING:
    from docker import DockerClient

KEEPER = MARKED + script(__file__, "keeper.sh")
KEEPER_GRACE = 3.0  # seconds
REMOVED = "someone removed the container"
RESTARTED = "the docker daemon was restarted, and stopped its containers"
KEPT_EVENTS = 256  # by a daemon since its start
SHIM_ENDED = "its containerd-shim ended, and docker ends a container without this process"
UNKNOWN = "255"  # exit code in the event of a container that docker ended because its shim was lost


async def start_keeper(transport: Transport, socket: str, name: str) -> Process:
    """Start a process on the host that kills the container's processes when it is stopped or the launcher dies.

    The keeper needs no docker, so it also works after the end of the daemon. Where the host has Python, the keeper then
    asks the daemon to remove the container: the launcher may have lost the host for good.
    """
    python, program = transport.python, Path(discard.__file__).read_text("utf-8")
    remove = (python, "-I", "-S", "-c", program, socket, name) if python else ()
    return await transport.start(shell(KEEPER, f"{MARK}={name}", *remove), log="/dev/null", grace=KEEPER_GRACE)


class DockerProcess(Process):
    """A started container, as a Process."""

    def __init__(self, docker: DockerHost, container: Container, keeper: Process, grace: float) -> None:
        self._docker, self._name, self._options = docker, container.name, container.options
        self._keeper, self._grace = keeper, grace
        self._ended = asyncio.create_task(self._wait())

    @override
    async def wait(self) -> int | None:
        return await asyncio.shield(self._ended)

    @override
    async def stop(self) -> None:
        if not self._ended.done():
            try:
                await self._docker.call(self._stop)
            except HostError:
                await self._keeper.stop()
                self._ended.cancel()
        await asyncio.wait({self._ended})

    @override
    async def reason(self) -> str | None:
        await self._docker.transport.check_held()
        try:
            return await self._reason()
        except DockerRefusal as error:
            if error.status != MISSING:
                raise self._unknown(error) from error
            return REMOVED

    async def _reason(self) -> str | None:
        """The reason, by the daemon's words. Raises DockerRefusal where the daemon refuses to tell."""
        state = (await self._docker.call(lambda client: client.api.inspect_container(self._name)))["State"]
        if state["OOMKilled"]:
            limit = f" of {self._options.memory}" if self._options.memory else ""
            return f"out of memory: the container reached its limit{limit}"
        if state["Paused"]:
            return "the container is frozen (docker pause)"
        if not state["Running"] and (event := await self._docker.call(partial(self._outside_event, state["ExitCode"]))):
            return event
        return state["Error"] or None

    async def _wait(self) -> int | None:
        try:
            answer = await self._docker.call(lambda client: client.api.wait(self._name, timeout=None))
        except DockerRefusal as error:
            if error.status != MISSING:
                raise self._unknown(error) from error
            return None
        except HostError:
            return None
        return negative_signal(int(answer["StatusCode"]))

    def _unknown(self, error: DockerRefusal) -> DaemonError:
        """The error of a daemon that answers, and does not tell how the container ended."""
        problem = f"the docker daemon tells nothing about the container: {error.explanation}"
        return DaemonError(self._docker.host, problem, advice="read dockerd's log there")

    def _outside_event(self, status: int, client: DockerClient) -> str | None:
        """What another program did to the ended container; None: nothing. Takes a second at most.

        The daemon keeps its last 256 events. It sends the events up to the end of the current second of its clock. By
        then it has sent the removal of the container, too.
        """
        now = datetime.fromisoformat(re.sub(r"\.\d+", "", client.info()["SystemTime"]).replace("Z", "+00:00"))
        filters = {"type": "container", "container": self._name}
        events = list(client.events(since=1, until=int(now.timestamp()) + 1, filters=filters, decode=True))
        actions = [event["Action"] for event in events]
        signals = [event["Actor"]["Attributes"]["signal"] for event in events if event["Action"] == "kill"]
        if "destroy" in actions:
            return REMOVED
        if "stop" in actions or "restart" in actions:
            return "someone stopped the container (docker stop)"
        if signals:
            return f"someone sent the container signal {signals[0]} (docker kill)"
        if "start" not in actions and not self._keeps_older(client, now):
            return RESTARTED
        died = [event["Actor"]["Attributes"].get("exitCode") for event in events if event["Action"] == "die"]
        return SHIM_ENDED if died[-1:] == [UNKNOWN] and status != int(UNKNOWN) else None

    def _keeps_older(self, client: DockerClient, now: datetime) -> bool:
        """Whether the daemon may have forgotten events for want of room."""
        return len(list(client.events(since=1, until=int(now.timestamp()) + 1, decode=True))) >= KEPT_EVENTS

    def _stop(self, client: DockerClient) -> Any:
        from docker.errors import APIError

        try:
            container = client.containers.get(self._name)
            if container.status == "paused":
                container.unpause()
            container.stop(timeout=round(self._grace))
        except APIError as error:
            if error.status_code not in (404, 409):  # the container has ended
                raise
