"""Faults injected for real while flagperf runs on two docker hosts: each has its cause named, its exit code, and
leaves nothing on any host while the logs are kept."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from _pytest.mark import ParameterSet
from flagperf_run import DOCKER, FAKE, OURS, User, assert_no_files, assert_nothing_left, cluster_file
from hosts import IMAGE, TestCluster

from flagperf.hosts.facts import PORTS

LONG = "max_steps=600"  # two minutes: the fault comes first
NAME = "resnet50-pytorch-cpux2x1"
FAULTS = Path(__file__).parents[1] / "faults"


@dataclass(frozen=True)
class Fault:
    """What happens in the middle of a run, and what is said of it."""

    happens: Callable[[TestCluster], object]
    cause: str  # regular expression
    words: tuple[str, ...] = ()
    host: str = "h2 (node rank 1)"
    keeps: Literal["nothing", "container", "all"] = "nothing"  # what a host that is lost has until `flagperf clean`


def start(user: User, *words: str, scenario: str = "fine", run_name: str = "run") -> subprocess.Popen[str]:
    """A run on both hosts that has done its first steps."""
    process = user.start(*FAKE, *DOCKER, "nnodes=2", LONG, *words, scenario=scenario, run_name=run_name)
    for node in ("h1_noderank0/rank0", "h2_noderank1/rank1"):
        wait_for(user.home / "result" / run_name / NAME / f"round1/{node}.out.log", '"step": 2', process)
    return process


def wait_for(log: Path, text: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200  # a busy machine may take a minute to the first step
    while not (log.exists() and text in log.read_text()):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.05)


def finish(process: subprocess.Popen[str]) -> str:
    """What it printed. How soon a fault is named is measured by benchmarks/failure_report.py."""
    output, _ = process.communicate(timeout=200)  # it would train for longer; a busy machine takes its time
    return output


def container(action: str, host: int = 1) -> Callable[[TestCluster], object]:
    return lambda lab: lab.hosts[host].output("sh", "-c", f"docker {action} $(docker ps -q)")


def kill_daemon(lab: TestCluster) -> None:
    lab.hosts[1].stop("dockerd", signal.SIGKILL)


def kill_shim(lab: TestCluster) -> None:
    lab.hosts[1].output("sh", "-c", 'kill -9 $(pgrep -f "containerd-shim.* -id $(docker ps -q --no-trunc)")')


def restart_daemon(lab: TestCluster) -> None:
    lab.hosts[1].stop("dockerd")
    lab.hosts[1].run("rm", "-f", "/run/docker.pid")
    lab.hosts[1].start_dockerd()


GONE = "lost docker daemon: the docker daemon does not run"
LOST = r"lost host: lost: no ssh connection for 4 s \("

MIDDLE = {
    "daemon stopped": Fault(lambda lab: lab.hosts[1].stop("dockerd"), GONE, keeps="container"),
    "daemon killed": Fault(kill_daemon, GONE, keeps="container"),
    "daemon restarted": Fault(
        restart_daemon, "the launcher of the ranks ended: the docker daemon was restarted, and stopped its containers"
    ),
    "power lost": Fault(lambda lab: lab.hosts[1].power_off(), LOST, keeps="all"),
    "network cut": Fault(lambda lab: lab.hosts[1].cut(), LOST, keeps="all"),
    "power of both lost": Fault(
        lambda lab: [host.power_off() for host in lab.hosts],
        r"h1: lost: no ssh connection for \d+ s \(.*\); h2: lost: no ssh connection for \d+ s \(.*\)",
        host="lost 2 hosts",
        keeps="all",
    ),
    "sshd killed": Fault(lambda lab: lab.hosts[1].stop("sshd", signal.SIGKILL), LOST, keeps="all"),
    "container frozen": Fault(
        container("pause", 0),
        r"hang: no progress for 4 s \(deadlines.stall\): the container is frozen \(docker pause\)",
        ("deadlines.stall=4",),
        "h1 (node rank 0)",
    ),
    "container removed": Fault(container("rm -f"), "the launcher of the ranks ended: someone removed the container"),
    "container killed": Fault(
        container("kill"), r"the launcher of the ranks ended: someone sent the container signal 9 \(docker kill\)"
    ),
    "shim killed": Fault(kill_shim, "the launcher of the ranks ended: its containerd-shim ended, and docker ends "),
}


SLOW = {
    "container killed",
    "shim killed",
    "daemon killed",
    "daemon stopped",
    "daemon restarted",
    "network cut",
    "power lost",
    "power of both lost",
    "rank is killed",
    "sshd killed",
    "exits",
    "is killed",
    "container is removed",
    "container is stopped",
    "torchrun is killed",
    "another image",
    "no room for logs",
    "container frozen",
    "docker hangs",
}  # each much like another one


def table(faults: Mapping[str, object]) -> list[ParameterSet]:
    return [
        pytest.param(fault, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, fault in faults.items()
    ]


@pytest.mark.parametrize("fault", table(MIDDLE))
def test_a_fault_in_the_middle(lab: TestCluster, tmp_path: Path, fault: Fault) -> None:
    user = User(lab, tmp_path, steps=True)
    process = start(user, *fault.words)
    fault.happens(lab)
    output = finish(process)
    assert process.returncode == 5
    assert re.search(f"{re.escape(fault.host)}: {fault.cause}", output), output
    assert_logs_kept(tmp_path / "result/run", fault.cause)
    settle(lab)
    if fault.keeps != "all":
        assert_no_files(lab)
    if fault.keeps != "nothing":
        assert user.run("clean", "cluster=lab").exit_code == 0
    assert_nothing_left(lab)


def assert_logs_kept(folder: Path, cause: str) -> None:
    """Every rank's steps, and the cause in the log of the run."""
    logs = {path.name: path.read_text() for path in (folder / NAME / "round1").glob("*/rank*.out.log")}
    assert {name: '"STEP_END"' in text for name, text in logs.items()} == {"rank0.out.log": True, "rank1.out.log": True}
    assert re.search(cause, (folder / "flagperf_run.log").read_text())


def settle(lab: TestCluster) -> None:
    """Give the hosts back what they lost, and the time to notice that their launcher is gone."""
    for host in lab.hosts:
        host.bring_back()
    wait_until(lambda: not any(host.run("pgrep", "-f", OURS).stdout for host in lab.hosts))


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.2)


RANKS = {
    "raises": ("raise", r"the launcher of the ranks ended: RuntimeError: as asked \(exit code 1\)"),
    "exits": ("exit", "the launcher of the ranks ended: exit code 7"),
    "is killed": ("kill", "the launcher of the ranks ended: signal SIGKILL"),
    "runs out of memory": (
        "memory",
        "the launcher of the ranks ended: out of memory: the container reached its limit of 200m",
    ),
}


@pytest.mark.parametrize("fault", table(RANKS))
def test_a_rank_that(lab: TestCluster, tmp_path: Path, fault: tuple[str, str]) -> None:
    scenario, cause = fault
    user = User(lab, tmp_path, steps=True)
    words = ("nnodes=2", LONG, "runtime.container.memory=200m", "oversubscribe=true")
    done = user.run(*FAKE, *DOCKER, *words, scenario=f"{scenario}@1")
    assert (done.exit_code, re.search(rf"h2 \(node rank 1\): {cause}", done.output) is not None) == (5, True), (
        done.output
    )
    assert f"now: {scenario}" in done.output
    assert_logs_kept(done.folder, cause)
    assert_nothing_left(lab)


def kill_rank(lab: TestCluster) -> None:
    lab.hosts[1].output("sh", "-c", "kill -9 $(grep -lsz '^RANK=1$' /proc/[0-9]*/environ | cut -d/ -f3)")


ENDED = r"h2 \(node rank 1\): the launcher of the ranks ended: "
REAL = {  # each breaks the connection of rank 0 on h1
    "rank is killed": (kill_rank, r"rank 1 on h2 \(node rank 1\): signal SIGKILL"),
    "container is removed": (container("rm -f"), ENDED + r"someone removed the container"),
    "container is stopped": (container("stop"), ENDED + r"someone stopped the container \(docker stop\)"),
    "torchrun is killed": (
        lambda lab: lab.hosts[1].output("pkill", "-9", "-f", "torch.distributed.run"),
        ENDED + "signal SIGKILL",
    ),
}


@pytest.mark.parametrize("fault", table(REAL))
def test_a_real_training_whose(
    lab: TestCluster, tmp_path: Path, fault: tuple[Callable[[TestCluster], object], str]
) -> None:
    happens, cause = fault
    words = ("model=resnet50", "size=tiny", "nnodes=2", "num_workers=0", "log_freq=1", "max_steps=5000")
    process = User(lab, tmp_path).start(*DOCKER, *words)
    logs = tmp_path / "result/run" / NAME / "round1"
    wait_for(logs / "h2_noderank1/rank1.out.log", '"STEP_END"', process)
    happens(lab)
    output = finish(process)
    assert process.returncode == 5
    assert re.search(f"failed  {cause}", output), output
    assert_logs_kept(tmp_path / "result/run", cause)
    assert (logs / "h1_noderank0/start_pytorch_task.log").stat().st_size > 0
    assert_nothing_left(lab)


@pytest.mark.slow
def test_a_rank_that_leaves_with_0_before_it_has_finished(lab: TestCluster, tmp_path: Path) -> None:
    """With tests/faults/workload.py in the trainer's place."""
    image = f"+vendor.image.torchrun.name={IMAGE}"
    words = (image, "model=collective", "nnodes=2", "task.fault=leave", f"code_dir={FAULTS}")
    done = User(lab, tmp_path).run(*words, *DOCKER, "--config-dir", str(FAULTS / "conf"))
    cause = "rank 1 on h2 (node rank 1): exit code 0 before the training had ended, during training"
    assert (done.exit_code, f"failed  {cause}\n" in done.output) == (5, True), done.output
    assert_nothing_left(lab)


BEFORE = {
    "host unreachable": Fault(
        lambda lab: lab.hosts[1].cut(),
        r"no answer from 10[.\d]+\n  do:      is it switched on",
        words=("deadlines.connect=2",),
    ),
    "sshd stopped": Fault(lambda lab: lab.hosts[1].stop("sshd", 9), r"the ssh port refuses connections: 10[.\d]+"),
    "host key changed": Fault(
        lambda lab: (lab.hosts[1].stop("sshd", 9), lab.hosts[1].new_host_key(), lab.hosts[1].start_sshd()),
        r"the host key of 10[.\d]+ has changed: .*known_hosts has ssh-ed25519 SHA256:\S+, "
        "the host shows ssh-ed25519 SHA256:",
    ),
    "docker stopped": Fault(
        lambda lab: lab.hosts[1].stop("dockerd"), "the docker daemon does not run\n  do:      start it"
    ),
    "docker hangs": Fault(
        lambda lab: lab.hosts[1].freeze_dockerd(),
        "the docker daemon does not answer\n  do:      read dockerd's log",
    ),
    "image missing": Fault(
        lambda lab: lab.hosts[1].output("docker", "rmi", IMAGE), f"image {IMAGE} is missing, and cluster.image.policy"
    ),
    "another image": Fault(
        lambda lab: lab.hosts[1].output("sh", "-c", f"tar c -C / srv | docker import - {IMAGE}"),
        f"{IMAGE} differs from the image of the same name on h1\n  do:      remove it there",
    ),
    "no room for logs": Fault(
        lambda lab: lab.hosts[1].output(
            "sh", "-c", "mkdir /srv/flagperf; mount -t tmpfs -o size=8m,mode=700 none /srv/flagperf"
        ),
        r"\d+ MiB are free in /srv/flagperf/run-\w+/.*, logs need 64 MiB",
    ),
    "mount missing": Fault(
        lambda _: None,
        r"docker refuses the container: .*bind source path does not exist: /srv/none",
        words=("+cluster.container.mounts={/srv/none: /none}",),
    ),
}


@pytest.mark.parametrize("fault", table(BEFORE))
def test_what_refuses_a_start(lab: TestCluster, tmp_path: Path, fault: Fault) -> None:
    user = User(lab, tmp_path, steps=True)
    fault.happens(lab)
    done = user.run(*FAKE, *DOCKER, "nnodes=2", LONG, *fault.words)
    assert done.exit_code == 3
    assert re.search(f"(flagperf: |\n)(h1, )?h[12]: {fault.cause}", done.output), done.output
    assert re.search(f"h[12]: {fault.cause}", done.log)
    lab.write_known_hosts()
    settle(lab)
    assert_nothing_left(lab)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_two_entries_of_one_host(lab: TestCluster, tmp_path: Path, shared: bool) -> None:
    first = cluster_file(lab)["nodes"][0] | {"shared": shared}
    user = User(lab, tmp_path, steps=True, nodes=[{**first, "name": name} for name in ("h1", "again")])
    done = user.run(*FAKE, *DOCKER, "nnodes=2", LONG)
    assert done.exit_code == 2
    assert "flagperf: two nodes are one host\n  where:   hosts h1 and again\n" in done.output
    row = r"again +host +failed +the host of h1, too"
    assert re.search(row, user.run("doctor", *FAKE, *DOCKER, "nnodes=2", "cluster=lab").output)
    assert_nothing_left(lab)


def test_a_wrong_key_for_two_hosts(lab: TestCluster, tmp_path: Path) -> None:
    ssh = cluster_file(lab)["ssh"] | {"key": str(lab.hosts[0].root / "host_key")}
    done = User(lab, tmp_path, steps=True, ssh=ssh).run(*FAKE, *DOCKER, "nnodes=2", LONG)
    assert done.exit_code == 3
    of_each = (rf"{host.name}: {host.address} does not accept the login\n  do:      try: ssh .*" for host in lab.hosts)
    said = "\n".join(["2 hosts cannot be used, in phase 'connect':", *of_each])
    assert re.search(f"flagperf: {said}", done.output), done.output
    assert re.search(said, done.log)
    assert re.search(said, (done.folder / "report.md").read_text())
    assert_nothing_left(lab)


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, id="Ctrl-C"), pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.slow)],
)
def test_an_interrupted_launcher_stops_all_and_keeps_the_logs(lab: TestCluster, tmp_path: Path, number: int) -> None:
    process = start(User(lab, tmp_path, steps=True))
    process.send_signal(number)
    output = finish(process)
    assert process.returncode == 130, output
    assert '"step": 2' in (tmp_path / "result/run" / NAME / "round1/h2_noderank1/rank1.out.log").read_text()
    assert_nothing_left(lab)


@pytest.mark.parametrize(
    ("scenario", "interrupted"),
    [
        pytest.param("fine", True, id="a second Ctrl-C"),
        pytest.param("hang@0", False, id="Ctrl-C after a failure", marks=[pytest.mark.slow]),
    ],
)
def test_an_interrupt_while_a_run_is_stopped_skips_no_cleaning(
    lab: TestCluster, tmp_path: Path, scenario: str, interrupted: bool
) -> None:
    user = User(lab, tmp_path, steps=True)
    process = start(user, "deadlines.stall=5", scenario=scenario)
    if interrupted:
        process.send_signal(signal.SIGINT)
    log = tmp_path / "result/run/flagperf_run.log"
    wait_for(log, "stop    ", process)
    process.send_signal(signal.SIGINT)
    output = finish(process)
    assert process.returncode == 130, output
    result = json.loads((tmp_path / "result/run" / NAME / "round1/result.json").read_text())
    assert (result["status"], result["failure"] is None) == ("interrupted", interrupted)
    assert_nothing_left(lab)


@pytest.mark.slow
def test_a_launcher_that_stood_still_goes_on(lab: TestCluster, tmp_path: Path) -> None:
    ssh = cluster_file(lab)["ssh"] | {"reconnect": 300.0}
    process = start(User(lab, tmp_path, steps=True, ssh=ssh), "deadlines.stall=5")
    process.send_signal(signal.SIGSTOP)
    there = "sh", "-c", "cat /srv/flagperf/run-*/*/round1/*/rank0.out.log"
    goal = 50 + lab.hosts[0].output(*there).count("STEP_END")  # ten seconds of training
    wait_until(lambda: lab.hosts[0].output(*there).count("STEP_END") >= goal)
    process.send_signal(signal.SIGCONT)
    wait_for(tmp_path / "result/run" / NAME / "round1/h1_noderank0/rank0.out.log", f'"step": {goal + 30}', process)
    process.send_signal(signal.SIGINT)
    assert "failed" not in finish(process)
    assert process.returncode == 130
    assert_nothing_left(lab)


@pytest.mark.slow
def test_hosts_end_a_training_whose_launcher_stands_still_for_too_long(lab: TestCluster, tmp_path: Path) -> None:
    process = start(User(lab, tmp_path, steps=True))
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: not any(host.run("pgrep", "-f", OURS).stdout for host in lab.hosts))
    process.send_signal(signal.SIGCONT)
    output = finish(process)
    assert process.returncode == 5, output
    cause = r"the launcher stood still for \d+ s: hosts end a training if the launcher is gone for 4 s "
    assert re.search(rf"failed  {cause}\(cluster.ssh.reconnect\), during training", output), output
    assert_nothing_left(lab)


def freeze_files(lab: TestCluster) -> None:
    """Let the file service of h1 hang, for the connections that are open."""
    assert lab.hosts[0].run("pkill", "-STOP", "-f", "@internal-sftp").returncode == 0


@pytest.mark.slow
def test_a_file_service_that_hangs_loses_no_training(lab: TestCluster, tmp_path: Path) -> None:
    process = start(User(lab, tmp_path, steps=True), "deadlines.stall=100")
    freeze_files(lab)
    output = finish(process)
    assert process.returncode == 0, output
    assert_nothing_left(lab)


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_a_file_service_that_hangs(lab: TestCluster, tmp_path: Path) -> None:
    process = start(User(lab, tmp_path, steps=True), "deadlines.stall=100")
    freeze_files(lab)
    process.send_signal(signal.SIGINT)
    output = finish(process)
    assert process.returncode == 130, output
    assert '"step": 2' in (tmp_path / "result/run" / NAME / "round1/h1_noderank0/rank0.out.log").read_text()
    assert_nothing_left(lab)


@contextlib.contextmanager
def file_service(lab: TestCluster, command: str) -> Iterator[None]:
    """New connections to h1 have this file service meanwhile."""
    config = Path(f"{lab.hosts[0].root}/sshd_config")
    text = config.read_text()
    config.write_text(text.replace("internal-sftp", command))
    lab.hosts[0].output("pkill", "-HUP", "-o", "-x", "sshd")
    try:
        yield
    finally:
        config.write_text(text)
        lab.hosts[0].output("pkill", "-HUP", "-o", "-x", "sshd")


@pytest.mark.slow
def test_a_file_service_that_never_answers_is_refused(lab: TestCluster, tmp_path: Path) -> None:
    with file_service(lab, "/bin/sleep 600"):
        done = User(lab, tmp_path, steps=True).run(*FAKE, *DOCKER, "nnodes=2", LONG)
    assert done.exit_code == 3, done.output
    assert "h1: its files do not answer: nothing moved for 30 s\n" in done.output
    assert_nothing_left(lab)


@pytest.mark.slow
def test_a_daemon_that_hangs_while_ranks_finish_loses_no_training(lab: TestCluster, tmp_path: Path) -> None:
    user = User(lab, tmp_path, steps=True)
    process = start(user, "max_steps=30")
    lab.hosts[1].freeze_dockerd()
    output = finish(process)
    assert process.returncode == 0, output
    result = json.loads((tmp_path / "result/run" / NAME / "round1/result.json").read_text())
    assert (result["status"], result["failure"]) == ("finished", None)
    assert (
        "h2: phase 'clean': the docker daemon does not answer" in (tmp_path / "result/run/flagperf_run.log").read_text()
    )
    settle(lab)
    assert user.run("clean", "cluster=lab").exit_code == 0
    assert_nothing_left(lab)


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_a_daemon_that_hangs(lab: TestCluster, tmp_path: Path) -> None:
    user = User(lab, tmp_path, steps=True)
    process = start(user)
    lab.hosts[1].freeze_dockerd()
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    output = finish(process)
    assert process.returncode == 130, output
    assert (
        "h2: phase 'clean': the docker daemon does not answer" in (tmp_path / "result/run/flagperf_run.log").read_text()
    )
    assert time.monotonic() - began < 50  # ten on an idle machine; a single call of docker's SDK would wait for sixty
    settle(lab)
    assert_no_files(lab)
    assert user.run("clean", "cluster=lab").exit_code == 0
    assert_nothing_left(lab)


def test_a_killed_launcher_is_noticed_by_the_hosts_and_cleaned_after_by_the_next_run(
    lab: TestCluster, tmp_path: Path
) -> None:
    user = User(lab, tmp_path, steps=True)
    process = start(user)
    process.kill()
    process.communicate()
    settle(lab)  # training ends by itself
    left = lab.hosts[0].output("docker", "ps", "-a", "--format", "{{.Names}}").split()
    assert len(left) == 1
    (tmp_path / "result/run").rename(tmp_path / "result/first")
    done = user.run(*FAKE, *DOCKER, "nnodes=2", "max_steps=3")
    assert done.exit_code == 0, done.output
    assert f"h1: removing {left[0]}, left behind by a run that died" in done.log
    assert_nothing_left(lab)


@pytest.mark.slow
def test_two_runs_of_one_name_leave_each_other_alone(lab: TestCluster, tmp_path: Path) -> None:
    first, second = User(lab, tmp_path / "first", steps=True), User(lab, tmp_path / "second", steps=True)
    processes = [start(user) for user in (first, second)]
    processes[0].send_signal(signal.SIGINT)
    assert "interrupted" in finish(processes[0])
    log = second.home / "result/run" / NAME / "round1/h1_noderank0/rank0.out.log"
    goal = 5 + max(int(step) for step in re.findall(r'"step": (\d+)', log.read_text()))
    wait_for(log, f'"step": {goal}', processes[1])
    processes[1].send_signal(signal.SIGINT)
    assert "interrupted" in finish(processes[1])
    assert_nothing_left(lab)


def fill(lab: TestCluster) -> None:
    lab.hosts[1].run("dd", "if=/dev/zero", "of=/srv/flagperf/filler", "bs=1M")


def test_the_disk_of_a_host_fills_up(lab: TestCluster, tmp_path: Path) -> None:
    lab.hosts[1].output("sh", "-c", "mkdir /srv/flagperf; mount -t tmpfs -o size=80m,mode=700 none /srv/flagperf")
    process = start(User(lab, tmp_path, steps=True))
    fill(lab)
    output = finish(process)
    assert process.returncode == 5, output
    assert re.search(r"h2 \(node rank 1\): disk full: no space left for /srv/flagperf/run-\w+/", output), output
    assert_nothing_left(lab, but_files=("filler",))


class FullDisk:
    """A small disk that something else fills."""

    said = "no space is left for results"

    def __init__(self, folder: Path) -> None:
        self.folder, self._filler = folder, folder / "filler"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "none", folder], check=True)

    def fail(self) -> None:
        with self._filler.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
                file.flush()

    def mend(self) -> None:
        self._filler.unlink()

    def remove(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=True)


class FaultyDisk(FullDisk):
    """A disk that Linux makes read-only because of an error on it."""

    said = "the disk of the results became read-only"

    def __init__(self, folder: Path) -> None:
        self.folder, self._image = folder, folder.with_suffix(".img")
        with self._image.open("wb") as file:
            file.truncate(200 << 20)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True)
        self._mount()

    def _mount(self) -> None:
        done = subprocess.run(["mount", "-o", "loop,errors=remount-ro", self._image, self.folder])
        if done.returncode:
            pytest.skip("needs a loop device")

    def fail(self) -> None:
        subprocess.run(["sync", "-f", self.folder], check=True)
        device = subprocess.check_output(["findmnt", "-no", "SOURCE", self.folder], text=True).strip()
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")

    def mend(self) -> None:
        subprocess.run(["umount", self.folder], check=True)
        self._mount()


def stays(output: str, host: str, rank: int, run: Path) -> bool:
    """Whether the run says that the logs of a host stay there, where, and what brings them."""
    place = rf"/srv/flagperf/run-\w+/{NAME}/round1/{host}_noderank{rank}"
    left = rf"{host}: logs could not be collected and stay there, in {place}; to bring them: "
    return re.search(left + re.escape(f"flagperf report {run} collect=true"), output) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "disk",
    [pytest.param(FullDisk, id="fills up"), pytest.param(FaultyDisk, id="becomes read-only", marks=pytest.mark.slow)],
)
def test_the_disk_of_the_launcher(lab: TestCluster, tmp_path: Path, disk: type[FullDisk]) -> None:
    """One message; the logs stay on the hosts, and are brought when the disk is in order."""
    user = User(lab, tmp_path, steps=True)
    (tmp_path / "result").mkdir()
    results = disk(tmp_path / "result")
    run = tmp_path / "result/run"
    try:
        process = start(user)
        results.fail()
        output = finish(process)
        assert process.returncode == 3, output
        assert output.count(disk.said) == 1 and "Traceback" not in output, output
        told = [stays(output, host, rank, run) for host, rank in (("h1", 0), ("h2", 1))]
        there = [host.run("sh", "-c", "ls -A /srv/flagperf/run-*").stdout.split() for host in lab.hosts]
        assert there == [[".uncollected", NAME] if left else [] for left in told]
        assert any(told) and (disk is FullDisk or all(told))  # a short log may still fit on a full disk
        cleaned = user.run("clean", "cluster=lab").output
        assert cleaned.count("logs that were not collected stay") == sum(told), cleaned
        assert cleaned.count("flagperf report RUN_DIR collect=true collects the logs") == sum(told), cleaned
        results.mend()
        brought = user.run("report", str(run), "collect=true")
        assert brought.exit_code == 0, brought.output
        assert brought.output.count("and removed there") == sum(told), brought.output
        logs = [path.read_text() for path in sorted(run.glob(f"{NAME}/round1/*/rank*.out.log"))]
        assert ['"STEP_END"' in text for text in logs] == [True, True]
        assert "**1 job: 1 INVALID.**" in (run / "report.md").read_text()
        again = user.run("report", str(run), "collect=true")
        assert (again.exit_code, again.output.partition("\n")[0]) == (0, "nothing is left to collect")
    finally:
        results.remove()
    assert_nothing_left(lab)


def test_a_hang_is_told(lab: TestCluster, tmp_path: Path) -> None:
    user = User(lab, tmp_path, steps=True)
    done = user.run(*FAKE, *DOCKER, "nnodes=2", LONG, "deadlines.stall=3", scenario="hang@0")
    assert done.exit_code == 5
    cause = r"rank 0 on h1 \(node rank 0\): hang: no progress for 3 s \(deadlines.stall\)"
    assert re.search(cause, done.output), done.output
    assert_logs_kept(done.folder, cause)
    assert_nothing_left(lab)


@pytest.mark.slow
def test_a_configured_port_that_is_taken(lab: TestCluster, tmp_path: Path) -> None:
    user = User(lab, tmp_path, rendezvous={"port": 29511})
    script = "import socket, time; s = socket.create_server(('', 29511)); time.sleep(60)"
    lab.hosts[0].output("sh", "-c", f'{sys.executable} -c "{script}" >/dev/null 2>&1 &')
    try:
        words = ("model=resnet50", "size=tiny", "nnodes=2", "max_steps=1")
        done = user.run(*DOCKER, *words)
        assert done.exit_code == 5
        assert "h1 (node rank 0): rendezvous port 29511 is taken" in done.output, done.output
        doctor = user.run("doctor", "cluster=lab", *DOCKER)
        assert doctor.exit_code == 3 and "port 29511 is taken" in doctor.output, doctor.output
    finally:
        lab.hosts[0].run("pkill", "-f", "create_server")
    assert_nothing_left(lab)


HOLD_ALL_PORTS = f"""
import pathlib, resource, socket, time

def hold(port):
    while True:  # connections of an earlier training keep their port for a minute after they were closed
        one = socket.socket()
        try:
            one.bind(("", port))
            return one
        except OSError:
            one.close()
            time.sleep(0.5)

resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
held = [hold(port) for port in {PORTS}]
pathlib.Path("/tmp/held").touch()
time.sleep(240)
"""


@pytest.mark.slow
def test_a_port_that_is_taken_after_the_look_is_replaced(lab: TestCluster, tmp_path: Path) -> None:
    """Ports are held without listening, which a look at listeners does not show, until torchrun has stumbled."""
    lab.hosts[0].output("sh", "-c", f"{sys.executable} -c '{HOLD_ALL_PORTS}' >/dev/null 2>&1 &")
    try:
        lab.hosts[0].output("timeout", "100", "sh", "-c", "until [ -e /tmp/held ]; do sleep 0.05; done")
        words = ("model=resnet50", "size=tiny", "nnodes=2", "max_steps=1", "num_workers=0")
        process = User(lab, tmp_path).start(*DOCKER, *words)
        wait_for(tmp_path / "result/run/flagperf_run.log", "; trying another", process)
    finally:
        lab.hosts[0].run("pkill", "-f", "tmp/held")
    output = finish(process)
    assert process.returncode == 0, output
    (first,) = (tmp_path / "result/run" / NAME).glob("round1/h1_noderank0/start_pytorch_task.port*.log")
    assert "EADDRINUSE" in first.read_text()
    assert_nothing_left(lab)


@pytest.mark.slow
def test_a_spare_host_replaces_a_lost_one(lab: TestCluster, tmp_path: Path) -> None:
    """The logs of the lost host are brought when it is back."""
    user, folder = User(lab, tmp_path, steps=True), tmp_path / "result/run"
    words = ("nnodes=1", "max_steps=60", "checkpoint_freq=5", "restarts=1")
    process = user.start(*FAKE, *DOCKER, *words)
    job = folder / "resnet50-pytorch-cpux1x1"
    wait_for(job / "round1/h1_noderank0/rank0.out.log", '"step": 2', process)
    lab.hosts[0].power_off()
    output = finish(process)
    assert process.returncode == 0, output
    assert "restart 1 of 1, on h2 in place of h1, from the beginning" in output
    result = json.loads((job / "round1/result.json").read_text())
    (restart,) = result["restarts"]
    assert (list(result["phases"]), restart["hosts"], restart["next_step"]) == (["h2_noderank0"], ["h1"], 0)
    assert re.match(r"lost: no ssh connection for 4 s", restart["failure"]["cause"].removeprefix("lost host: "))
    settle(lab)
    collected = user.run("report", str(folder), "collect=true").output
    assert re.search(r"h1 +collect +ok .*/round1/attempt1/h1_noderank0, and removed there", collected), collected
    assert user.run("clean", "cluster=lab").exit_code == 0
    assert_nothing_left(lab)


@pytest.mark.slow
def test_an_outage_that_is_survived_is_told_with_its_length(lab: TestCluster, tmp_path: Path) -> None:
    ssh = cluster_file(lab)["ssh"] | {"keepalive": 0.5, "reconnect": 60.0}
    user, folder = User(lab, tmp_path, steps=True, ssh=ssh), tmp_path / "result/run"
    process = user.start(*FAKE, *DOCKER, "nnodes=2", "max_steps=60")
    wait_for(folder / NAME / "round1/h2_noderank1/rank1.out.log", '"step": 2', process)
    lab.hosts[1].cut()
    wait_for(folder / "flagperf_run.log", "h2: the ssh connection dropped", process)
    time.sleep(2)  # that is how long it lasts, and longer
    lab.hosts[1].mend()
    output = finish(process)
    assert process.returncode == 0, output
    result = json.loads((folder / NAME / "round1/result.json").read_text())
    (outage,) = result["outages"]
    assert outage["host"] == "h2"
    assert 2 <= outage["seconds"] < result["seconds"]
    assert result["started"] < outage["began"] < result["started"] + result["seconds"]
    again = f"h2: connected again after {outage['seconds']:.1f} s"
    assert again in output and again in (folder / "flagperf_run.log").read_text()
    told = rf"round 1: h2 out of reach from \d\d:\d\d:\d\d on for {outage['seconds']:.1f} s"
    assert re.search(told, (folder / "report.md").read_text())
    assert re.search(told, (folder / "report.html").read_text())
    assert user.run("report", str(folder)).exit_code == 0
    assert re.search(told, (folder / "report.md").read_text())
    assert_nothing_left(lab)
