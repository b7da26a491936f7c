"""Brings the logs of a round from its pods once they have ended, and says how each node's part of it ended.

pod.sh prints them. What a pod has printed stays there as long as the pod does: nothing is removed here.
"""

from __future__ import annotations

import asyncio
import binascii
import gzip
import io
import re
import shutil
import tarfile
import tempfile
import zlib
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from flagperf.config.files.search_path import CONF, find
from flagperf.config.schema.platform import Failures
from flagperf.contract.build import build
from flagperf.contract.outcome import Failure, Outcome
from flagperf.contract.regular import read_yaml
from flagperf.errors import FlagperfError, HostError
from flagperf.hosts.findings import Row, failed_row
from flagperf.plan.values import CONFIG
from flagperf.results import parts
from flagperf.run.blame import RankExit, cause, first_cause, last_lines, raised, rank_exits, signal_name
from flagperf.run.collecting import LogLocation
from flagperf.run.kept_files import by_umask, without_secrets
from flagperf.schedulers.kubernetes import kubectl
from flagperf.schedulers.kubernetes.kubectl import Pod
from flagperf.schedulers.kubernetes.pods import JOB, selector

BEGIN, END = "-----BEGIN FLAGPERF LOGS-----", "-----END FLAGPERF LOGS-----"  # as pod.sh prints them
ROTATED = "the pod's output has lost its beginning: it is longer than the kubelet keeps (containerLogMaxSize)"
LARGEST = 1 << 30  # bytes that the logs of a pod may have, unpacked
CHUNK = 1 << 20
LAUNCHER = re.compile(r"start_(?P<framework>.+)_task\.log")


async def collect(locations: Sequence[LogLocation]) -> list[Row]:
    """What the pods of a round have printed that is not here yet. They are asked one after another, as each may tell
    megabytes.
    """
    rows: list[Row] = []
    missing = [location for location in locations if not (location.folder / parts.FILE).exists()]
    pods = await pods_of(missing) if missing else {}
    for location in missing:
        name = location.node.name
        try:
            if name not in pods:
                advice = "apply the manifests; a pod that was removed tells nothing"
                raise HostError(name, "it has no pod", advice=advice)
            outcome = await collect_pod(location, pods[name])
        except FlagperfError as error:
            rows.append(failed_row(name, "collect", error))
            continue
        parts.write(outcome, location.folder)
        if outcome.failure and outcome.failure.phase == "collect":
            rows.append(Row(name, "collect", "failed", outcome.failure.cause))
        else:
            rows.append(Row(name, "collect", "ok", f"what {pods[name].name} printed is in {location.folder}"))
    return rows


async def pods_of(locations: Sequence[LogLocation]) -> dict[str, Pod]:
    """Host name → pod, of the pods of one round.

    Raises:
        FlagperfError: kubectl is not there, or cannot tell.
    """
    job = locations[0].node.name.rpartition("-")[0]
    return {f"{job}-{pod.rank}": pod for pod in await kubectl.pods(selector({JOB: job}), _namespace(locations[0]))}


async def collect_pod(location: LogLocation, pod: Pod) -> Outcome:
    """Bring the logs of a pod that has ended into the node's folder. They are no proof that its training went well.

    Raises:
        HostError: the pod has not ended, or its output cannot be had.
    """
    if not pod.has_ended:
        state = f"{pod.phase}, {pod.reason}" if pod.reason else pod.phase
        raise HostError(location.node.name, f"its pod {pod.name} has not ended: {state}", advice="collect again later")
    problem = _unpack(await kubectl.output(pod, _namespace(location)), location.folder)
    await asyncio.to_thread(without_secrets, location.folder, location.mask)
    await asyncio.to_thread(by_umask, location.folder)
    failure = await asyncio.to_thread(_failure, location, pod, problem)
    return Outcome(
        status="failed" if failure or pod.phase != "Succeeded" else "finished",
        folder=location.folder.parent,
        failure=failure,
        exit_statuses=(pod.exit_status,),
        phases={},
        started=pod.began,
        seconds=max(0.0, pod.ended - pod.began),
    )


def _namespace(location: LogLocation) -> str | None:
    return location.cluster.kubernetes.namespace if location.cluster.kubernetes else None


def _unpack(output: str, folder: Path) -> str | None:
    """Write the logs that a pod has printed into the node's folder; what is wrong with them, or None."""
    before, found, _ = output.rpartition(END)
    _, begun, archive = before.rpartition(f"{BEGIN}\n")
    folder.mkdir(parents=True, exist_ok=True)
    if not found or not begun:
        return ROTATED if found else "its pod was ended before it could print its logs"
    try:
        with tempfile.TemporaryFile() as plain:
            _decompress(b64decode(archive), plain)
            with tarfile.open(fileobj=plain, mode="r:") as tar:
                for member in tar:
                    _extract(tar, member, folder)
    except (tarfile.TarError, EOFError, OSError, zlib.error, binascii.Error) as error:
        return f"the logs that its pod printed are damaged: {error}"
    return None


def _decompress(packed: bytes, target: IO[bytes]) -> None:
    """Raises TarError where a few bytes would fill the disk."""
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as source:
        while data := source.read(CHUNK):
            target.write(data)
            if target.tell() > LARGEST:
                raise tarfile.ReadError(f"unpacked they have more than {LARGEST >> 20} MiB")
    target.seek(0)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one file of the node's folder. Links, devices, holes and names that lead elsewhere are left out."""
    top, *rest = PurePosixPath(member.name).parts
    if member.isreg() and not member.issparse() and top == folder.name and rest and ".." not in rest:
        target, source = folder.joinpath(*rest), tar.extractfile(member)
        assert source is not None  # it is a plain file
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(source, file)


def _failure(location: LogLocation, pod: Pod, problem: str | None) -> Failure | None:
    """Why a node's part of a round failed; None where it went well, or only followed the failure of another node."""
    name, status = location.node.name, pod.exit_status
    if problem or (pod.phase != "Succeeded" and status is None):
        why = f"{problem or 'its pod was ended'}{f': {pod.reason}' if pod.reason else ''}"
        return Failure(why, name, pod.rank, phase="collect" if problem else "training", exit_status=status)
    if not status:
        return None
    launcher = next(location.folder.glob("start_*_task.log"), None)
    found = LAUNCHER.fullmatch(launcher.name) if launcher else None
    if launcher is None or found is None:
        return Failure(cause(status), name, pod.rank, phase="start", exit_status=status)
    report, says = _text(launcher), _failures(found["framework"])
    exits = rank_exits(report, pod.rank * _nproc(location), says)
    first = first_cause(exits, lambda rank: _rank_log(location, rank), says)
    if first is not None:
        return _rank_failure(location, pod, first)
    if exits:
        return None
    return Failure(cause(status), name, pod.rank, None, "training", status, last_lines=last_lines(report))


def _rank_failure(location: LogLocation, pod: Pod, end: RankExit) -> Failure:
    """A rank ended of itself."""
    log, status = _rank_log(location, end.rank), end.exit_status
    reason = raised(log) if status > 0 else None
    return Failure(
        f"{reason} ({cause(status)})" if reason else cause(status),
        location.node.name,
        pod.rank,
        end.rank,
        "training",
        exit_status=status if status >= 0 else None,
        signal=signal_name(status) if status < 0 else None,
        last_lines=last_lines(log),
    )


def _rank_log(location: LogLocation, rank: int) -> str:
    return _text(location.folder / f"rank{rank}.out.log")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _nproc(location: LogLocation) -> int:
    return int(read_yaml(location.folder.parent / CONFIG)["nproc"])


def _failures(framework: str) -> Failures:
    """How a shipped framework's launcher and ranks say why they ended; a round's configuration does not hold it."""
    path = find(f"framework/{framework}", [CONF])
    said = read_yaml(path).get("failures") if path else None
    return build(Failures, said or {}, "framework.failures", lambda _: str(path))
