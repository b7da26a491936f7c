"""The state of a Slurm job, by the answers of the controller."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence

from flagperf.errors import HostError
from flagperf.schedulers.slurm.commands import ask
from flagperf.user import name_of

SETTLE = 20.0  # seconds for the final state of a job that is being ended
POLL = 0.5  # seconds between two queries
FRESH = 1.0  # seconds for which an answer is reused: all nodes of a job ask at the same time
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
UNSETTLED = "it is being ended (COMPLETING)"  # the text of `ending` for a job without a final state
# While a job is being ended, Slurm shows the reason but not the state.
REASONS = {"TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL", "Preempted": "PREEMPTED", "OutOfMemory": "OUT_OF_MEMORY"}


log = logging.getLogger(__name__)


class LostAllocation(HostError):
    """Slurm took the nodes away."""

    lost = "allocation"


class SlurmJob:
    """One job, for all its nodes.

    Args:
        number: ID.
        nodes: names of the used nodes.
    """

    def __init__(self, number: int, nodes: Sequence[str]) -> None:
        self.number, self.nodes = number, nodes
        self._checked = float("-inf")
        self._lock = asyncio.Lock()
        self._ended: LostAllocation | None = None

    async def check(self) -> None:
        """Raise LostAllocation, with the reason, where the job has ended or lost its nodes."""
        async with self._lock:
            if self._ended is None and time.monotonic() - self._checked > FRESH:
                try:
                    self._ended = await self._find_loss()
                except HostError as error:  # a busy controller must not end a training
                    log.warning("the state of job %d is unknown: %s", self.number, error.problem)
                self._checked = time.monotonic()
        if self._ended is not None:
            raise self._ended

    async def _find_loss(self) -> LostAllocation | None:
        fields, down = await job_fields(self.number), {}
        inside = os.environ.get("SLURM_JOB_ID") == str(self.number)  # inside the job it cannot end before this process
        if fields.get("JobState") not in GOES_ON:
            down = await self._down()  # before other queries: a node may come back
            fields = await _final_fields(self.number, 0 if inside else SETTLE)
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
        """Nodes that Slurm does not use any more → state and reason."""
        nodes, line = ",".join(self.nodes), "%N|%T|%E"
        lines = (await ask("sinfo", "--noheader", "-N", f"--nodes={nodes}", "-o", line)).splitlines()
        down = {}
        for node, state, reason in (text.split("|", 2) for text in lines):
            suffix = "" if reason in ("", "none") else f", {reason}"
            if state.startswith("completing") and suffix:
                state = "down"  # Slurm does not show this state while the job is being ended
            if UNUSABLE.match(state):
                down[node] = state + suffix
        return down


async def _final_fields(number: int | str, seconds: float) -> dict[str, str]:
    """Slurm's fields of a job with its final state, or after `seconds` without a final state."""
    deadline = time.monotonic() + seconds
    while (fields := await job_fields(number)).get("JobState") == "COMPLETING" and time.monotonic() < deadline:
        await asyncio.sleep(POLL)
    return fields


async def final_ending(number: int | str) -> str | None:
    """Why a job ended, as text; None where Slurm does not know, or not within `SETTLE`."""
    try:
        fields = await asyncio.wait_for(_final_fields(number, SETTLE), 2 * SETTLE)
        state = await with_canceller(fields.get("JobState", ""), number)
    except (HostError, asyncio.TimeoutError):
        return None
    return None if state in ("", *UNENDED) else ending(state, fields)


async def is_over(number: int) -> bool:
    """Whether a job has ended, or Slurm does not know it any more."""
    try:
        return (await job_fields(number)).get("JobState") not in UNENDED
    except HostError:  # no Slurm here, or a busy controller
        return False


def ending(state: str, fields: Mapping[str, str]) -> str:
    """Why a job ended, as text."""
    if not state:
        return "Slurm does not know it any more"
    sentence = ENDINGS.get(state.partition(" ")[0], "it ended").format_map({"TimeLimit": "unknown", **fields})
    return f"{sentence} ({state})"


async def with_canceller(state: str, number: int | str) -> str:
    """A job's final state; "CANCELLED by NAME" where the site's accounting knows the user."""
    if state not in ("CANCELLED", ""):
        return state
    try:
        state_text = await ask(
            "sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={number}", "--format=State"
        )
    except HostError:
        return state
    match = re.fullmatch(r"CANCELLED by (\d+)", state_text.strip())
    return f"CANCELLED by {name_of(int(match[1]))}" if match else state_text.strip() or state


async def job_fields(number: int | str) -> dict[str, str]:
    """The fields of `scontrol show job`; empty for a forgotten job.

    Args:
        number: ID; for a task of an array also both numbers: 12_3.

    Raises:
        HostError: the controller does not answer.
    """
    try:
        text = await ask("scontrol", "--oneliner", "show", "job", str(number))
    except HostError as error:
        if re.search("Invalid job id|not found", error.problem):  # the second text is for a task of an array
            return {}
        raise
    # Slurm also shows all tasks of an array for one ID.
    tasks = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in text.splitlines()]
    if "_" in str(number):
        return next(iter(tasks), {})
    return next((fields for fields in tasks if fields.get("JobId") == str(number)), {})


async def host_names(nodes: str) -> tuple[str, ...]:
    """The names in a list of nodes such as n[1-4]."""
    return tuple((await ask("scontrol", "show", "hostnames", nodes)).split())
