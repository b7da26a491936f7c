"""Reads the pods of a round with kubectl, on this machine and with the user's own access to the cluster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from flagperf.contract.command import Command
from flagperf.errors import ConfigError, HostError
from flagperf.hosts.local import LocalTransport

POD_SCRIPT = Path(__file__).with_name("pod.sh").read_text("utf-8")  # with its header, for readers of the manifests
TIMEOUT = 300.0  # seconds for an answer; logs may be megabytes long
INDEX = "batch.kubernetes.io/job-completion-index"  # annotation of an Indexed Job's pods


@dataclass(frozen=True)
class Pod:
    """A pod of a round, with its state."""

    name: str
    rank: int  # of the pod's node
    phase: str  # Pending, Running, Succeeded, Failed, Unknown
    reason: str = ""  # of the phase, one word: Evicted, OOMKilled, ImagePullBackOff …
    exit_status: int | None = None  # None: the container has not ended, or its status is unknown
    began: float = 0.0  # start of the container, seconds since the epoch; 0: unknown
    ended: float = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether the pod will not run again."""
        return self.phase in ("Succeeded", "Failed")


async def pods(selector: str, namespace: str | None) -> list[Pod]:
    """The pods with these labels, ordered by node rank. Where several pods have one rank, the newest counts.

    Raises:
        ConfigError: kubectl is not installed.
        HostError: kubectl failed, or its answer cannot be read.
    """
    answer = await _kubectl("get", "pods", *_space(namespace), "-l", selector, "-o", "json")
    try:
        items = sorted(json.loads(answer)["items"], key=lambda item: str(item["metadata"].get("creationTimestamp")))
        by_rank = {pod.rank: pod for item in items if (pod := _pod(item))}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError("kubectl", f"its answer cannot be read: {error}") from None
    return [by_rank[rank] for rank in sorted(by_rank)]


async def output(pod: Pod, namespace: str | None) -> str:
    """The output of a pod. Raises HostError where kubectl cannot get the output."""
    return await _kubectl("logs", *_space(namespace), pod.name)


async def _kubectl(*arguments: str) -> str:
    if shutil.which("kubectl") is None:
        advice = "install kubectl where you give this command, with access to the cluster"
        raise ConfigError("kubectl is not on PATH", advice=advice)
    completed = await LocalTransport("kubectl").run(Command(("kubectl", *arguments)), timeout=TIMEOUT)
    if completed.exit_status != 0:
        status = f"exit status {completed.exit_status} of {completed.command.line()}"
        raise HostError("kubectl", completed.stderr.strip() or status)
    return completed.stdout


def _space(namespace: str | None) -> tuple[str, ...]:
    return ("--namespace", namespace) if namespace else ()


def _pod(item: Mapping[str, Any]) -> Pod | None:
    """A pod from its API object; None for a pod that belongs to no Indexed Job."""
    meta, status = item["metadata"], item.get("status", {})
    rank = meta.get("annotations", {}).get(INDEX)
    if rank is None:
        return None
    state: dict[str, Any] = next((container.get("state", {}) for container in status.get("containerStatuses", ())), {})
    end, wait = state.get("terminated", {}), state.get("waiting", {})
    reason = str(status.get("reason") or end.get("reason") or wait.get("reason") or "")
    began, ended = (_seconds(end.get(key)) for key in ("startedAt", "finishedAt"))
    return Pod(meta["name"], int(rank), status.get("phase", "Unknown"), reason, end.get("exitCode"), began, ended)


def _seconds(moment: str | None) -> float:
    """Seconds since the epoch of an RFC 3339 time in UTC; 0 for None."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else 0.0
