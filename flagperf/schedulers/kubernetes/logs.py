"""Brings the logs of a round from its ended pods, and finds how each node's part ended.

pod.sh prints the logs. A pod keeps its output, and nothing is removed here.
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
from typing import IO, Any

from flagperf.config.files.search_path import CONF, find
from flagperf.config.schema.keys import KEYS
from flagperf.config.schema.platform import Failures
from flagperf.contract.build import build
from flagperf.contract.outcome import Failure, Outcome
from flagperf.contract.regular import read_mapping, read_yaml
from flagperf.errors import FlagperfError, HostError
from flagperf.hosts.findings import Row, failed_row
from flagperf.plan.values import CONFIG
from flagperf.results import parts
from flagperf.run.blame import RankExit, cause, first_cause, last_lines, raised, rank_exits, signal_name
from flagperf.run.collecting import LogLocation
from flagperf.run.kept_files import by_umask, without_secrets
from flagperf.schedulers.kubernetes import kubectl
from flagperf.schedulers.kubernetes.kubectl import Pod
from flagperf.schedulers.kubernetes.monitors import record
from flagperf.schedulers.kubernetes.pods import JOB, selector

BEGIN, END = "-----BEGIN FLAGPERF LOGS-----", "-----END FLAGPERF LOGS-----"  # as pod.sh prints them
ROTATED = "the pod's output has lost its beginning: it is longer than the kubelet keeps (containerLogMaxSize)"
LARGEST = 1 << 30  # most bytes of a pod's unpacked logs
CHUNK = 1 << 20
STOPPED = "stopped.log"  # the reason, if pod.sh stopped the ranks
LAUNCHER = re.compile(r"start_(?P<framework>.+)_task\.log")


async def collect(locations: Sequence[LogLocation]) -> list[Row]:
    """Bring the missing logs of a round. Pods are asked one after another, because their output may have megabytes."""
    rows: list[Row] = []
    missing = [location for location in locations if not (location.folder / parts.FILE).exists()]
    pods = await pods_of(missing) if missing else {}
    for location in missing:
        name = location.node.name
        try:
            if name not in pods:
                advice = "apply the manifests; a removed pod has no logs"
                raise HostError(name, "it has no pod", advice=advice)
            outcome = await collect_pod(location, pods[name])
        except FlagperfError as error:
            rows.append(failed_row(name, "collect", error))
            continue
        parts.write(outcome, location.folder)
        if outcome.failure and outcome.failure.phase == "collect":
            rows.append(Row(name, "collect", "failed", outcome.failure.cause))
        else:
            rows.append(Row(name, "collect", "ok", f"the output of {pods[name].name} is in {location.folder}"))
    return rows


async def pods_of(locations: Sequence[LogLocation]) -> dict[str, Pod]:
    """Host name → pod, of the pods of one round.

    Raises:
        FlagperfError: kubectl is missing, or failed.
    """
    job = locations[0].node.name.rpartition("-")[0]
    return {f"{job}-{pod.rank}": pod for pod in await kubectl.pods(selector({JOB: job}), _namespace(locations[0]))}


async def collect_pod(location: LogLocation, pod: Pod) -> Outcome:
    """Bring the logs of an ended pod into the node's folder. Logs alone do not prove a good end of the training.

    Raises:
        HostError: the pod has not ended, or kubectl cannot get its output.
    """
    if not pod.has_ended:
        state = f"{pod.phase}, {pod.reason}" if pod.reason else pod.phase
        raise HostError(location.node.name, f"its pod {pod.name} has not ended: {state}", advice="collect again later")
    problem = _unpack(await kubectl.output(pod, _namespace(location)), location.folder)
    await asyncio.to_thread(record, location.folder, location.node.name)
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
    """Write the logs in a pod's output into the node's folder. Returns the problem of damaged logs, else None."""
    before, end_mark, _ = output.rpartition(END)
    _, begin_mark, archive = before.rpartition(f"{BEGIN}\n")
    folder.mkdir(parents=True, exist_ok=True)
    if not end_mark or not begin_mark:
        return ROTATED if end_mark else "its pod was ended before it could print its logs"
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
    """Unpack gzip. Raises TarError where the content is larger than LARGEST."""
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as source:
        while data := source.read(CHUNK):
            target.write(data)
            if target.tell() > LARGEST:
                raise tarfile.ReadError(f"unpacked they have more than {LARGEST >> 20} MiB")
    target.seek(0)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one file of the node's folder. Links, devices, sparse files and paths outside the folder are left out."""
    top, *rest = PurePosixPath(member.name).parts
    if member.isreg() and not member.issparse() and top == folder.name and rest and ".." not in rest:
        target, source = folder.joinpath(*rest), tar.extractfile(member)
        assert source is not None  # it is a plain file
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(source, file)


def _failure(location: LogLocation, pod: Pod, problem: str | None) -> Failure | None:
    """Why a node's part of a round failed; None where it ended well, or because of another node."""
    name, status = location.node.name, pod.exit_status
    if problem or (pod.phase != "Succeeded" and status is None):
        problem_text = f"{problem or 'its pod was ended'}{f': {pod.reason}' if pod.reason else ''}"
        return Failure(problem_text, name, pod.rank, phase="collect" if problem else "training", exit_status=status)
    if not status:
        return None
    if reason := _text(location.folder / STOPPED).strip():
        return Failure(reason, name, pod.rank, phase="training", exit_status=status)
    launcher = next(location.folder.glob("start_*_task.log"), None)
    match = LAUNCHER.fullmatch(launcher.name) if launcher else None
    if launcher is None or match is None:
        return Failure(cause(status), name, pod.rank, phase="start", exit_status=status)
    report, patterns = _text(launcher), _failures(match["framework"])
    exits = rank_exits(report, pod.rank * _nproc(location), patterns)
    rank_end = first_cause(exits, lambda rank: _rank_log(location, rank), patterns)
    if rank_end is not None:
        return _rank_failure(location, pod, rank_end)
    if exits:
        return None
    return Failure(cause(status), name, pod.rank, None, "training", status, last_lines=last_lines(report))


def _rank_failure(location: LogLocation, pod: Pod, end: RankExit) -> Failure:
    """The failure of a rank that did not end because of another rank."""
    log, status = _rank_log(location, end.rank), end.exit_status
    reason = raised(log) if status > 0 else None
    return Failure(
        cause(status, reason),
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
    nproc: Any = read_mapping(file := location.folder.parent / CONFIG).get("nproc")
    KEYS["nproc"].check("nproc", nproc, lambda _: str(file))
    return int(nproc)


def _failures(framework: str) -> Failures:
    """The failure patterns of a shipped framework. A round's configuration does not have them."""
    path = find(f"framework/{framework}", [CONF])
    section = read_yaml(path).get("failures") if path else None
    return build(Failures, section or {}, "framework.failures", lambda _: str(path))
