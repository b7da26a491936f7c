"""A kubectl on PATH that knows some pods."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.schedulers.kubernetes import kubectl

KUBECTL = """\
#!/bin/sh
echo "$*" >>{folder}/asked
for name; do :; done
case $1 in
    get) cat {folder}/pods.json ;;
    logs) cat {folder}/"$name".log ;;
esac
"""


def kubectl_says(home: Path, job: str, pods: Mapping[int, tuple[str, dict[str, Any]]], monkeypatch: Any) -> Path:
    """A kubectl on PATH that knows these pods: rank → what it printed, and its status. Returns what it is asked."""
    folder = home / "kubectl"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL.format(folder=folder))
    (folder / "kubectl").chmod(0o755)
    items = []
    for rank, (output, status) in pods.items():
        meta = {"name": f"{job}-{rank}-abcde", "annotations": {kubectl.INDEX: str(rank)}}
        items.append({"metadata": meta, "status": status})
        (folder / f"{job}-{rank}-abcde.log").write_text(output)
    (folder / "pods.json").write_text(json.dumps({"items": items}))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "asked"


def ended(exit_status: int, reason: str = "") -> dict[str, Any]:
    """The status of a pod whose container ended a minute after it began."""
    state = {"exitCode": exit_status, "startedAt": "2026-01-01T12:00:00Z", "finishedAt": "2026-01-01T12:01:00Z"}
    terminated = {**state, "reason": reason or ("Error" if exit_status else "Completed")}
    return {
        "phase": "Failed" if exit_status else "Succeeded",
        "containerStatuses": [{"state": {"terminated": terminated}}],
    }
