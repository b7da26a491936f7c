"""A real Slurm cluster on one machine: munged, slurmctld and two slurmd, without systemd, on free ports.

    python tests/cluster/slurm_lab.py [docker]    two nodes, until Ctrl-C; prints how to reach them

Needs root, and Debian's packages munge, slurmctld, slurmd and slurm-client. The nodes have this machine's files, but
for /srv and /run, where each has its own. `start_docker` gives each a docker daemon of its own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from hosts import IMAGE, empty_image

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch")
NODES = ("n1", "n2")
BOOT_SECONDS = 30.0
LOST = 3  # seconds after which the controller calls a node down that does not answer

OWN_PLACES = 'mount -t tmpfs none /srv && mount -t tmpfs -o mode=755 none /run && exec "$0" "$@"'
DOCKERD = "dockerd --iptables=false --ip6tables=false --bridge=none --data-root={root}/docker.{node}"

CONF = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
StateSaveLocation={root}/state
SlurmctldPidFile={root}/slurmctld.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdPidFile={root}/slurmd.%n.pid
SlurmdLogFile={root}/slurmd.%n.log
SlurmdSpoolDir={root}/spool.%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=1
SlurmdTimeout={lost}
MessageTimeout=2
TCPTimeout=1
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SchedulerParameters=bf_interval=5,sched_min_interval=0
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=4 RealMemory=1000 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=4 RealMemory=1000 Gres=gpu:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9
"""


def why_not() -> str | None:
    """Why this machine cannot hold the cluster; None: it can."""
    if os.geteuid() != 0:
        return "a Slurm cluster needs root"
    missing = [program for program in PROGRAMS if not shutil.which(program, path=_PATH)]
    return f"a Slurm cluster needs {', '.join(missing)} (make packages)" if missing else None


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class SlurmLab:
    """The cluster, while the block runs. `env`: what a user's commands need to find it."""

    def __enter__(self) -> SlurmLab:
        self.root = Path(tempfile.mkdtemp(prefix="flagperf-slurm-"))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._docker: dict[str, int] = {}  # process of slurmd in whose place a node's docker is
        self.env = {"SLURM_CONF": str(self.root / "slurm.conf")}
        try:
            self._write()
            key, seed = self.root / "munge.key", self.root / "munge.seed"
            self._start(
                "munged", "--foreground", "--force", f"--key-file={key}", f"--seed-file={seed}",
                f"--socket={self.root}/munge.socket", f"--pid-file={self.root}/munged.pid",
            )  # fmt: skip
            _until(lambda: (self.root / "munge.socket").exists(), "munged")
            self._start("slurmctld", "-D", "-f", self.env["SLURM_CONF"])
            self.repair()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self.run("scancel", "--user=root", timeout=10)
            _until(lambda: not self.queue(), "the queue")
        for name in reversed(tuple(self._running)):
            self.kill(name, signal.SIGTERM)
        shutil.rmtree(self.root, ignore_errors=True)

    def _write(self) -> None:
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.root / name).mkdir()
        (self.root / "munge.key").write_bytes(secrets.token_bytes(1024))
        (self.root / "munge.key").chmod(0o600)
        (self.root / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
        host = socket.gethostname().partition(".")[0]
        ports = dict(zip(("ctld", *NODES), _free_ports(3), strict=True))
        (self.root / "slurm.conf").write_text(CONF.format(root=self.root, host=host, lost=LOST, **ports))

    def repair(self) -> None:
        """Every node in order and idle, and nothing in the queue."""
        for node in NODES:
            if (running := self._running.get(node)) is None or running.poll() is not None:
                slurmd = ("slurmd", "-D", "-N", node, "-f", self.env["SLURM_CONF"])
                self._start("unshare", "--mount", "sh", "-c", OWN_PLACES, *slurmd, name=node)
        if self.queue():
            self.run("scancel", "--user=root")
        _until(self._in_order, "the nodes")

    def start_docker(self) -> None:
        """A docker daemon on each node that has none, with `IMAGE`, no container, and an empty /srv."""
        for node in NODES:
            name, slurmd = f"dockerd.{node}", self._running[node].pid
            if (running := self._running.get(name)) and (running.poll() is not None or self._docker[node] != slurmd):
                self.kill(name, signal.SIGTERM)
            if name not in self._running:
                dockerd = DOCKERD.format(root=self.root, node=node).split()
                self._start("nsenter", f"--mount=/proc/{slurmd}/ns/mnt", *dockerd, name=name)
                self._docker[node] = slurmd
        for node in NODES:
            _until(partial(self.on, node, "docker", "version"), f"dockerd of {node}")
            if not self.on(node, "docker", "images", "-q", IMAGE):
                self.on(node, "docker", "import", "-", IMAGE, stdin=empty_image())
            if left := self.on(node, "docker", "ps", "-aq").split():
                self.on(node, "docker", "rm", "-f", *left)
            self.on(node, "sh", "-c", "rm -rf /srv/*")

    def on(self, node: str, *argv: str, stdin: bytes = b"") -> str:
        """What a command prints that a person gives on a node; nothing where it fails."""
        inside = self._running.get(f"dockerd.{node}") or self._running[node]  # the first also where slurmd is gone
        there = ("nsenter", f"--mount=/proc/{inside.pid}/ns/mnt", *argv)
        done = subprocess.run(there, input=stdin, capture_output=True, env={**os.environ, "PATH": _PATH})
        return "" if done.returncode else done.stdout.decode()

    def _in_order(self) -> bool:
        states = self.run("sinfo", "--noheader", "-N", "--partition=main", "-o", "%N %T").split()
        for node, state in zip(states[::2], states[1::2], strict=True):
            if state.startswith(("down", "drain")):
                self.run("scontrol", "update", f"nodename={node}", "state=resume")
        return states == ["n1", "idle", "n2", "idle"]

    def run(self, *argv: str, timeout: float = 30) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, env={**os.environ, **self.env, "PATH": _PATH}
        )
        return done.stdout

    def queue(self) -> list[str]:
        """The jobs that Slurm has not done with."""
        return self.run("squeue", "--noheader", "--array", "-o", "%i %T").splitlines()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon of the cluster: munged, slurmctld, n1 or n2, dockerd.n1 or dockerd.n2."""
        process = self._running.pop(name)
        process.send_signal(number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self, *argv: str, name: str | None = None) -> None:
        log = (self.root / f"{name or argv[0]}.out").open("ab")
        with log:
            self._running[name or argv[0]] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.env, "PATH": _PATH},
                start_new_session=True,
            )


def _until(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + BOOT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not in order within {BOOT_SECONDS:g} s")
        time.sleep(0.1)


def _free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as held:
        ends = [held.enter_context(socket.socket()) for _ in range(count)]
        for end in ends:
            end.bind(("127.0.0.1", 0))
        return [end.getsockname()[1] for end in ends]


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with SlurmLab() as cluster:
        if sys.argv[1:] == ["docker"]:
            cluster.start_docker()
        print("\n".join(f"export {name}={value}" for name, value in cluster.env.items()), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
