"""A job of Slurm: what has become of it, in its controller's words."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import re
import time
from collections.abc import Mapping, Sequence

from flagperf.errors import HostError
from flagperf.schedulers.slurm.commands import ask

SETTLE = 20.0  # seconds in which a job that is being ended gets its final state
POLL = 0.5  # seconds between two looks
FRESH = 1.0  # seconds for which an answer holds: all nodes of a job ask at the same time
GOES_ON = ("RUNNING", "CONFIGURING")
UNENDED = (*GOES_ON, "PENDING", "SUSPENDED", "COMPLETING", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
UNUSABLE = re.compile(r"down|drain|fail|not_resp|.*\*")  # states of a node
ENDINGS = {
    "TIMEOUT": "its time limit of {TimeLimit} was reached",
    "DEADLINE": "its deadline was reached",
    "PREEMPTED": "it was preempted by another job",
    "CANCELLED": "it was cancelled (scancel)",
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node did not boot",
    "OUT_OF_MEMORY": "it used more memory than it asked for",
    "REVOKED": "it was revoked",
    "REQUEUED": "it was requeued",
    "PENDING": "it was requeued",
    "SUSPENDED": "it was suspended",
    "COMPLETED": "it ended",
    "COMPLETING": "it is being ended",
}
UNSETTLED = "it is being ended (COMPLETING)"  # what `ending` says of a job whose final state is not there yet
# While a job is being ended its state is not shown yet, but the reason is.
REASONS = {"TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL", "Preempted": "PREEMPTED", "OutOfMemory": "OUT_OF_MEMORY"}


log = logging.getLogger(__name__)


class LostAllocation(HostError):
    """Slurm took the nodes away."""

    lost = "allocation"


class SlurmJob:
    """One job, for all its nodes.

    Args:
        number: its id.
        nodes: names of those that are used.
    """

    def __init__(self, number: int, nodes: Sequence[str]) -> None:
        self.number, self.nodes = number, nodes
        self._asked = float("-inf")
        self._lock = asyncio.Lock()
        self._ended: LostAllocation | None = None

    async def check(self) -> None:
        """Raises LostAllocation where the job is known not to go on, which says why."""
        async with self._lock:
            if self._ended is None and time.monotonic() - self._asked > FRESH:
                try:
                    self._ended = await self._look()
                except HostError as error:  # a busy controller is no reason to end a training, nor to hide why it ended
                    log.warning("it is not known what has become of job %d: %s", self.number, error.problem)
                self._asked = time.monotonic()
        if self._ended is not None:
            raise self._ended

    async def _look(self) -> LostAllocation | None:
        fields, down = await job_fields(self.number), {}
        inside = os.environ.get("SLURM_JOB_ID") == str(self.number)  # then it is not over before this process is
        if fields.get("JobState") not in GOES_ON:
            down = await self._down()  # at once: a node may come back
            fields = await _settled(self.number, 0 if inside else SETTLE)
        state = fields.get("JobState", "")
        if state in GOES_ON:
            return None
        state = REASONS.get(fields.get("Reason", ""), state) if state == "COMPLETING" else state
        host = f"Slurm job {self.number}"
        if state == "NODE_FAIL" and down:
            named = "; ".join(f"Slurm calls {node} {of_node}" for node, of_node in down.items())
            return LostAllocation(next(iter(down)) if len(down) == 1 else host, f"{named} (job {self.number}: {state})")
        return LostAllocation(host, ending(await with_canceller(state, self.number), fields))

    async def _down(self) -> dict[str, str]:
        """Which nodes Slurm does not use any more, and why."""
        nodes, line = ",".join(self.nodes), "%N|%T|%E"
        told = (await ask("sinfo", "--noheader", "-N", f"--nodes={nodes}", "-o", line)).splitlines()
        found = {}
        for node, state, reason in (text.split("|", 2) for text in told):
            why = "" if reason in ("", "none") else f", {reason}"
            if state.startswith("completing") and why:
                state = "down"  # which is not shown while the job is being ended there
            if UNUSABLE.match(state):
                found[node] = state + why
        return found


async def _settled(number: int | str, seconds: float) -> dict[str, str]:
    """What Slurm says of a job once its state is final, or of one that is still being ended after so long."""
    deadline = time.monotonic() + seconds
    while (fields := await job_fields(number)).get("JobState") == "COMPLETING" and time.monotonic() < deadline:
        await asyncio.sleep(POLL)
    return fields


async def final_ending(number: int | str) -> str | None:
    """Why a job ended, in words; None where Slurm does not say that within `SETTLE`, or not any more."""
    try:
        fields = await asyncio.wait_for(_settled(number, SETTLE), 2 * SETTLE)
        state = await with_canceller(fields.get("JobState", ""), number)
    except (HostError, asyncio.TimeoutError):
        return None
    return None if state in ("", *UNENDED) else ending(state, fields)


async def is_over(number: int) -> bool:
    """Whether a job is known to have ended, or not known to Slurm any more."""
    try:
        return (await job_fields(number)).get("JobState") not in UNENDED
    except HostError:  # no Slurm here, or a busy controller
        return False


def ending(state: str, fields: Mapping[str, str]) -> str:
    """Why a job ended, in words."""
    if not state:
        return "Slurm does not know it any more"
    why = ENDINGS.get(state.partition(" ")[0], "it ended").format_map({"TimeLimit": "unknown", **fields})
    return f"{why} ({state})"


async def with_canceller(state: str, number: int | str) -> str:
    """A job's final state, as "CANCELLED by NAME" where the site's accounting knows that, and also what it forgot."""
    if state not in ("CANCELLED", ""):
        return state
    try:
        told = await ask("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={number}", "--format=State")
    except HostError:
        return state
    found = re.fullmatch(r"CANCELLED by (\d+)", told.strip())
    try:
        return f"CANCELLED by {pwd.getpwuid(int(found[1])).pw_name}" if found else told.strip() or state
    except KeyError:  # a user whom this machine does not know
        return f"CANCELLED by user {found[1]}" if found else state


async def job_fields(number: int | str) -> dict[str, str]:
    """What `scontrol show job` says of a job; nothing of one that it has forgotten.

    Args:
        number: its id; of a task of an array also both numbers, 12_3.

    Raises:
        HostError: the controller does not answer.
    """
    try:
        text = await ask("scontrol", "--oneliner", "show", "job", str(number))
    except HostError as error:
        if re.search("Invalid job id|not found", error.problem):  # the second of a task of an array
            return {}
        raise
    tasks = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in text.splitlines()]  # all of an array, of one id too
    if "_" in str(number):
        return next(iter(tasks), {})
    return next((fields for fields in tasks if fields.get("JobId") == str(number)), {})


async def host_names(nodes: str) -> tuple[str, ...]:
    """The names that a list of nodes such as n[1-4] stands for."""
    return tuple((await ask("scontrol", "show", "hostnames", nodes)).split())
