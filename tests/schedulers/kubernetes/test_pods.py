"""The pods of a rendered run: what each would do, done by processes of this machine; and what comes back from them.

No cluster is at hand. The command of a pod is really run, as the manifests say it, on the files of their ConfigMaps;
only Kubernetes is missing. A script in the place of kubectl tells what the processes printed, and which words it got.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pods_of_kubectl import ended, kubectl_says

from flagperf.cli.main import run_command
from flagperf.contract.outcome import Failure
from flagperf.report import read_run
from flagperf.run.node_logs import LEFT_OUT
from flagperf.schedulers.kubernetes import kubectl
from flagperf.schedulers.kubernetes import logs as pod_logs

pytestmark = pytest.mark.long

POD_SH = Path(kubectl.__file__).with_name("pod.sh")
LIMITS = ("600", "2", "")  # seconds until the first step, and between two signs of progress; no monitors
MOST = 8 << 20  # bytes of a pod's logs here
NODE = "resnet50-pytorch-cpux2x1/round1"


@dataclass(frozen=True)
class Rendered:
    """A run of two pods, and what its manifests say."""

    folder: Path
    documents: Sequence[Mapping[str, Any]]

    @property
    def job(self) -> str:
        return str(self.documents[-1]["metadata"]["name"])

    @property
    def container(self) -> Mapping[str, Any]:
        result: Mapping[str, Any] = self.documents[-1]["spec"]["template"]["spec"]["containers"][0]
        return result

    def node_folder(self, rank: int) -> Path:
        return self.folder / NODE / f"{self.job}-{rank}_noderank{rank}"


@pytest.fixture
def rendered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Rendered:
    """Written by the command line, with what lets two pods find each other on one machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path / "run"
    words = ("nnodes=2", "max_steps=3", "log_freq=1", "num_workers=0", f"sample_dir={tmp_path}/sample")
    pods = ("cluster=kubernetes", "cluster.kubernetes.image=reg/image:1", f"cluster.work_dir={tmp_path}/work")
    meeting = ("+cluster.rendezvous.address=127.0.0.1", f"cluster.rendezvous.port={port}")
    assert run_command([*words, *pods, *meeting, f"runtime.python={sys.executable}", f"render={folder}"]) == 0
    file = folder / NODE / "manifests.yaml"
    assert capsys.readouterr().out == (
        f"kubectl apply -f {file}\nflagperf report {folder} collect=true    # when the pods have ended\n"
    )
    return Rendered(folder, list(yaml.safe_load_all(file.read_text())))


def started(run: Rendered, rank: int, home: Path) -> subprocess.Popen[str]:
    """The process of a pod: its files where its volumes are mounted, its variables put in, as the kubelet does."""

    def there(text: str) -> str:
        text = text.replace("$(FLAGPERF_NODE_RANK)", str(rank)).replace("$$(", "$(")
        text = text.replace(f"{home}/work", f"{home}/work{rank}")
        return re.sub("^/flagperf/", f"{home}/pod{rank}/", text)  # the code of the ranks, too, lies in a `flagperf`

    mounts = [(item["name"], there(item["mountPath"]), item.get("subPath")) for item in run.container["volumeMounts"]]
    config = {name: text.encode() for name, text in run.documents[-3]["data"].items()}
    code = {name: base64.b64decode(text) for item in run.documents[:-3] for name, text in item["binaryData"].items()}
    content = {"config": config, "parts": code}
    for name, path, sub in mounts:
        if sub:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(content[name][sub])
        elif not path.startswith("/dev"):
            Path(path).mkdir(parents=True, exist_ok=True)
            for file, data in content.get(name, {}).items():
                Path(path, file).write_bytes(data)
    env = {item["name"]: there(item["value"]) for item in run.container["env"] if "value" in item}
    command = [there(word) for word in (*run.container["command"], *run.container["args"])]
    image_variables = {"PATH": os.environ["PATH"], "HOME": str(home), "OMP_NUM_THREADS": "1", "OF_THE_IMAGE": "1"}
    return subprocess.Popen(
        command, env={**image_variables, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home
    )


@pytest.mark.slow
@pytest.mark.torch
def test_a_training_in_two_pods(rendered: Rendered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [started(rendered, rank, tmp_path) for rank in range(2)]
    try:
        outputs = [pod.communicate(timeout=280)[0] for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
    assert [pod.returncode for pod in pods] == [0, 0], outputs
    answers = {rank: (outputs[rank], ended(0)) for rank in range(2)}
    asked = kubectl_says(tmp_path, rendered.job, answers, monkeypatch)
    assert run_command(["report", str(rendered.folder), "collect=true"]) == 0
    assert asked.read_text().splitlines() == [
        f"get pods -l flagperf.job={rendered.job} -o json",
        f"logs {rendered.job}-0-abcde",
        f"logs {rendered.job}-1-abcde",
    ]
    (job,) = read_run(rendered.folder)
    (result,) = job.results
    assert (result.status, result.verdict, result.reasons, result.seconds) == ("finished", "VALID", (), 60.0)
    assert [rank["rank"] for rank in result.values["ranks"]] == [0, 1]
    logs = {path.name for path in rendered.node_folder(1).iterdir()}
    assert logs >= {"cpu_monitor.log", "mem_monitor.log", "host_monitor.log"}
    assert [name for name in logs if name.startswith(".")] == []
    assert set(result.monitors["nodes"][rendered.node_folder(1).name]) >= {"cpu", "mem"}
    while subprocess.run(["pgrep", "-f", f"{tmp_path}/pod./pod/monitors.sh"], capture_output=True).stdout:
        time.sleep(0.1)  # they end with the pod
    assert run_command(["report", str(rendered.folder), "collect=true"]) == 0  # again: nothing is asked
    assert len(asked.read_text().splitlines()) == 3
    assert run_command(["report", str(rendered.folder)]) == 0
    assert "\n**1 job: 1 VALID" in (rendered.folder / "report.md").read_text()
    logs = [(rendered.node_folder(rank) / "start_pytorch_task.log").read_text() for rank in range(2)]
    lines = [next(line for line in log.splitlines() if line.startswith(LEFT_OUT)) for log in logs]
    assert lines == [f"{LEFT_OUT}OF_THE_IMAGE"] * 2


def pod_output(name: str, home: Path, *command: str) -> str:
    """What pod.sh prints when it runs a command in the place of the ranks' launcher; `name`: of the log folder."""
    return printed(pod(name, home, *command))


def pod(name: str, home: Path, *command: str) -> subprocess.Popen[str]:
    parts, code = home / "parts", home / "code"
    parts.mkdir(exist_ok=True)
    code.mkdir(exist_ok=True)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        tar.add(POD_SH, "package/file")
    (parts / "code.tar.gz.00").write_bytes(stream.getvalue()[:100])
    (parts / "code.tar.gz.01").write_bytes(stream.getvalue()[100:])
    logs = home / name
    places = (parts, code, logs, logs / "start_pytorch_task.log", logs / ".scratch")
    return subprocess.Popen(
        ["sh", POD_SH, *places, *LIMITS, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def printed(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0]


def test_what_a_pod_does(tmp_path: Path) -> None:
    work = f'cat {tmp_path}/code/package/file >{tmp_path}/copy; mkdir "$0/.scratch"; echo out; echo err >&2; exit 7'
    ran = pod("n_noderank0", tmp_path, "sh", "-c", work, str(tmp_path / "n_noderank0"))
    output = printed(ran)
    first, begin, *archive, end = output.splitlines()
    assert (tmp_path / "copy").read_bytes() == POD_SH.read_bytes()
    assert (ran.returncode, first, begin, end) == (
        7,
        f"the ranks start; their logs are in {tmp_path}/n_noderank0",
        "-----BEGIN FLAGPERF LOGS-----",
        "-----END FLAGPERF LOGS-----",
    )
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode("".join(archive)))) as tar:
        assert sorted(tar.getnames()) == ["n_noderank0", "n_noderank0/start_pytorch_task.log"]
        log = tar.extractfile("n_noderank0/start_pytorch_task.log")
        assert log is not None
        assert log.read() == b"out\nerr\n"


def test_a_pod_that_is_stopped_stops_the_ranks_and_prints_their_logs(tmp_path: Path) -> None:
    wait = 'trap "echo stopped; exit 3" TERM; echo ready; while :; do sleep 0.1; done'
    ran = pod("n_noderank0", tmp_path, "sh", "-c", wait)
    log = tmp_path / "n_noderank0/start_pytorch_task.log"
    while not (log.exists() and log.read_text()):
        time.sleep(0.05)
    ran.send_signal(signal.SIGTERM)
    assert printed(ran).endswith("-----END FLAGPERF LOGS-----\n")
    assert (ran.returncode, log.read_text()) == (3, "ready\nstopped\n")


def test_code_that_cannot_be_laid_out(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "part").write_text("no archive")
    words = ["sh", POD_SH, broken, tmp_path, tmp_path / "logs", tmp_path / "logs/l", tmp_path / "s", *LIMITS, "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "gzip" in done.stderr


@pytest.mark.parametrize(
    ("last_line", "reason"),
    [
        pytest.param("STEP_END", "hang: no progress for 2 s (deadlines.stall)", id="ranks that hang"),
        pytest.param(
            "WAITING",
            "hang: no progress for 2 s (deadlines.stall)",
            marks=pytest.mark.slow,
            id="ranks that wait for a rank elsewhere",
        ),
    ],
)
def test_ranks_that_hang_are_stopped_and_named(
    last_line: str,
    reason: str,
    rendered: Rendered,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ['[PerfLog] {"event": "STEP_END"}', f'[PerfLog] {{"event": "{last_line}"}}']
    pods = []
    for rank in range(2):
        name, home = rendered.node_folder(rank).name, tmp_path / f"pod{rank}"
        home.mkdir()
        log = home / name / f"rank{rank}.out.log"
        script = f"""printf '%s\\n' '{lines[0]}' >{log}
            while sleep 0.3; do [ {last_line} = STEP_END ] || echo '{lines[1]}' >>{log}; done"""
        pods.append(pod(name, home, "sh", "-c", script))
    answers = {rank: (printed(ran), ended(143)) for rank, ran in enumerate(pods)}
    assert [ran.returncode for ran in pods] == [143, 143]
    kubectl_says(tmp_path, rendered.job, answers, monkeypatch)
    assert run_command(["report", str(rendered.folder), "collect=true"]) == 0
    capsys.readouterr()
    (job,) = read_run(rendered.folder)
    failure = job.results[0].failure
    assert failure is not None
    assert (failure.cause, failure.phase, failure.node_rank) == (reason, "training", 0)


TORCHRUN = """\
  time      : 2026-01-01_12:00:59
  host      : pod
  rank      : 1 (local_rank: 0)
  exitcode  : 3 (pid: 7)
"""
BEGIN, END = "-----BEGIN FLAGPERF LOGS-----\n", "-----END FLAGPERF LOGS-----\n"
LOST: dict[str, tuple[str, dict[str, Any], Failure]] = {
    "a pod that was killed": (
        "the ranks start\n",
        ended(137, "OOMKilled"),
        Failure(
            "its pod was ended before it could print its logs: OOMKilled", "JOB-1", 1, phase="collect", exit_status=137
        ),
    ),
    "a pod that was evicted": (
        "",
        {"phase": "Failed", "reason": "Evicted"},
        Failure("its pod was ended before it could print its logs: Evicted", "JOB-1", 1, phase="collect"),
    ),
    "an output that was rotated": (
        f"abcd\n{END}",
        ended(0),
        Failure(
            "the pod's output has lost its beginning: it is longer than the kubelet keeps (containerLogMaxSize)"
            ": Completed",
            "JOB-1",
            1,
            phase="collect",
            exit_status=0,
        ),
    ),
    "an output that is damaged": (
        f"{BEGIN}abcd\n{END}",
        ended(0),
        Failure(
            "the logs that its pod printed are damaged: Not a gzipped file (b'i\\xb7'): Completed",
            "JOB-1",
            1,
            phase="collect",
            exit_status=0,
        ),
    ),
    "an output that would fill the disk": (
        f"{BEGIN}{base64.b64encode(gzip.compress(bytes(MOST + 1))).decode()}\n{END}",
        ended(0),
        Failure(
            "the logs that its pod printed are damaged: unpacked they have more than 8 MiB: Completed",
            "JOB-1",
            1,
            phase="collect",
            exit_status=0,
        ),
    ),
}


@pytest.mark.parametrize(("output", "status", "failure"), LOST.values(), ids=LOST.keys())
def test_logs_that_are_lost(
    output: str,
    status: dict[str, Any],
    failure: Failure,
    rendered: Rendered,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The node whose logs are lost is told, and the round is INVALID."""
    monkeypatch.setattr(pod_logs, "LARGEST", MOST)
    well = pod_output(rendered.node_folder(0).name, tmp_path, "true")
    kubectl_says(tmp_path, rendered.job, {0: (well, ended(0)), 1: (output, status)}, monkeypatch)
    assert run_command(["report", str(rendered.folder), "collect=true"]) == 3
    capsys.readouterr()
    (job,) = read_run(rendered.folder)
    result = job.results[0]
    assert result.failure is not None
    answers = json.loads(json.dumps(result.failure.__dict__).replace(rendered.job, "JOB"))
    assert Failure(**{**answers, "last_lines": tuple(answers["last_lines"])}) == failure
    assert (result.status, result.verdict) == ("failed", "INVALID")


def test_the_rank_that_failed_is_named(
    rendered: Rendered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other node, whose rank followed, is not."""
    log = "Traceback:\nValueError: no luck"
    ranks = (
        ("echo 'RuntimeError: Connection closed by peer' >{logs}/rank0.out.log; echo '{report}'; exit 1", 0, 1),
        (f"echo '{log}' >{{logs}}/rank1.out.log; echo '{{report}}'; exit 1", 1, 3),
    )
    answers = {}
    for script, rank, status in ranks:
        report = TORCHRUN.replace(": 1 (local", f": {rank} (local").replace("exitcode  : 3", f"exitcode  : {status}")
        logs = tmp_path / rendered.node_folder(rank).name
        output = pod_output(logs.name, tmp_path, "sh", "-c", script.format(logs=logs, report=report))
        answers[rank] = (output, ended(1))
    kubectl_says(tmp_path, rendered.job, answers, monkeypatch)
    assert run_command(["report", str(rendered.folder), "collect=true"]) == 0
    capsys.readouterr()
    (job,) = read_run(rendered.folder)
    assert job.results[0].failure == Failure(
        "ValueError: no luck (exit code 3)",
        f"{rendered.job}-1",
        1,
        1,
        "training",
        3,
        last_lines=("Traceback:", "ValueError: no luck"),
    )


def test_pods_that_run_yet_and_one_that_is_gone(
    rendered: Rendered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    kubectl_says(tmp_path, rendered.job, {0: ("", waiting)}, monkeypatch)
    monkeypatch.setenv("COLUMNS", "300")
    assert run_command(["report", str(rendered.folder), "collect=true"]) == 3
    assert [line.rpartition("  failed ")[-1].strip() for line in capsys.readouterr().out.splitlines()[1:]] == [
        f"its pod {rendered.job}-0-abcde has not ended: Pending, ImagePullBackOff",
        "do: collect again later",
        "it has no pod",
        "do: apply the manifests; a removed pod has no logs",
    ]
    assert not rendered.node_folder(0).exists()


def test_without_kubectl(
    rendered: Rendered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert run_command(["report", str(rendered.folder), "collect=true"]) == 2
    assert capsys.readouterr().err == (
        "flagperf: kubectl is not on PATH\n  where:   command line\n"
        "  do:      install kubectl where you give this command, with access to the cluster\n"
    )
