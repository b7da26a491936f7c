"""What kubectl tells of the pods of a round. It runs on this machine, with the user's own access to the cluster."""

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

POD_SCRIPT = Path(__file__).with_name("pod.sh").read_text("utf-8")  # with its header, for whoever reads the manifests
TIMEOUT = 300.0  # seconds for an answer; logs may have megabytes
INDEX = "batch.kubernetes.io/job-completion-index"  # annotation of a Job's pods


@dataclass(frozen=True)
class Pod:
    """A pod of a round, and how it ended."""

    name: str
    rank: int  # of its node
    phase: str  # Pending, Running, Succeeded, Failed, Unknown
    reason: str = ""  # of the phase, in a word: Evicted, OOMKilled, ImagePullBackOff …
    exit_status: int | None = None  # None: its container has not ended, or nobody knows
    began: float = 0.0  # of its container, seconds since the epoch
    ended: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


async def pods(selector: str, namespace: str | None) -> list[Pod]:
    """The pods with some labels, by node rank; of several for one rank the newest, which counts.

    Raises:
        ConfigError: kubectl is not there.
        HostError: it cannot tell.
    """
    answer = await _kubectl("get", "pods", *_space(namespace), "-l", selector, "-o", "json")
    try:
        items = sorted(json.loads(answer)["items"], key=lambda item: str(item["metadata"].get("creationTimestamp")))
        found = {pod.rank: pod for item in items if (pod := _pod(item))}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError("kubectl", f"its answer cannot be read: {error}") from None
    return [found[rank] for rank in sorted(found)]


async def output(pod: Pod, namespace: str | None) -> str:
    """What a pod has printed. Raises HostError where that cannot be had."""
    return await _kubectl("logs", *_space(namespace), pod.name)


async def _kubectl(*arguments: str) -> str:
    if shutil.which("kubectl") is None:
        advice = "install kubectl where you give this command, with access to the cluster"
        raise ConfigError("kubectl is not on PATH", advice=advice)
    done = await LocalTransport("kubectl").run(Command(("kubectl", *arguments)), timeout=TIMEOUT)
    if done.exit_status != 0:
        raise HostError("kubectl", done.stderr.strip() or f"exit status {done.exit_status} of {done.command.line()}")
    return done.stdout


def _space(namespace: str | None) -> tuple[str, ...]:
    return ("--namespace", namespace) if namespace else ()


def _pod(item: Mapping[str, Any]) -> Pod | None:
    """A pod as the API tells it; None for one that is of no Indexed Job."""
    meta, status = item["metadata"], item.get("status", {})
    rank = meta.get("annotations", {}).get(INDEX)
    if rank is None:
        return None
    state: dict[str, Any] = next((one.get("state", {}) for one in status.get("containerStatuses", ())), {})
    end, wait = state.get("terminated", {}), state.get("waiting", {})
    reason = str(status.get("reason") or end.get("reason") or wait.get("reason") or "")
    began, ended = (_seconds(end.get(key)) for key in ("startedAt", "finishedAt"))
    return Pod(meta["name"], int(rank), status.get("phase", "Unknown"), reason, end.get("exitCode"), began, ended)


def _seconds(moment: str | None) -> float:
    """A moment of RFC 3339 in UTC, as the API writes it, in seconds since the epoch; 0: not told."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else 0.0
