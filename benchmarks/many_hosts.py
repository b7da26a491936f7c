"""A run on many hosts and `flagperf clean`: the time of each phase, and the memory of the launcher.

    python benchmarks/many_hosts.py [HOSTS] [LOGIN]

One process answers as sshd of all hosts. Each host has an address of its own on this loopback, and a login takes LOGIN
seconds. The process runs no shells: it gives the answers of a host, takes and gives files, and writes the logs of a
training of some seconds. So the figures are those of the launcher. Linux only: each address of 127.0.0.0/8 is here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import asyncssh
import yaml
from limits import say

from flagperf.contract.perflog import PerfLog
from flagperf.docker.daemon import ENDPOINT, LOOK
from flagperf.hosts.payload import UNPACK
from flagperf.hosts.ssh.clock import CLOCK
from flagperf.hosts.ssh.process import START, STOP

MOST_MEMORY = 1024.0  # MiB
TRAINING, STEPS = 5.0, 10  # seconds, and steps in them
WORK = "/srv/flagperf"  # on each host
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Host:
    """What the server knows of one host."""

    def __init__(self, address: str, root: Path) -> None:
        self.address, self.root = address, root
        self.running: dict[str, asyncio.Event] = {}  # folder of a long command → set when it is asked to end
        root.mkdir(parents=True, exist_ok=True)

    def path(self, path: str) -> Path:
        """Where the server keeps a file of the host."""
        return self.root / path.lstrip("/")

    def answer(self, argv: list[str]) -> str:
        """What a short command prints. The server does what matters for the files of a run."""
        if argv[:2] == ["sh", "-s"]:
            return facts(tuple(argv[3:])).replace(BOOT_ID, f"{self.address}-boot").replace("127.0.0.1", self.address)
        if argv[0] == "mkdir":
            self.path(argv[-1]).mkdir(parents=True, exist_ok=True)
        elif argv[0] == "rm":
            shutil.rmtree(self.path(argv[-1]), ignore_errors=True)
        elif argv[:3] == ["sh", "-c", UNPACK]:
            self.path(argv[-1]).unlink()
        elif argv[:3] == ["sh", "-c", STOP]:
            self.running[argv[-1]].set()
        elif argv[:3] == list(ENDPOINT.argv[:3]):
            return "unix:///run/docker.sock\n"
        elif argv[:3] == ["sh", "-c", LOOK]:
            return "absent\n"
        elif "python" in argv[0] or "python" in argv[-1]:
            return once(tuple(argv))
        return ""

    async def start(self, channel: asyncssh.SSHServerProcess[str], log: str) -> None:
        """A long command: the launcher of the ranks, which ends by itself, or monitors."""
        folder = f"/tmp/flagperf-process.{len(self.running)}"
        ended = self.running[folder] = asyncio.Event()
        channel.stdout.write(f"{folder}\n")
        logs = self.path(log).parent
        logs.mkdir(parents=True, exist_ok=True)
        if "_task.log" in log:
            self.path(log).touch()
            await train(logs)
        else:
            await ended.wait()
        channel.stdout.write("0\n")


@cache
def facts(arguments: tuple[str, ...]) -> str:
    """The facts of this machine."""
    from flagperf.hosts.facts import SCRIPT

    words = ["sh", "-s", "--", "/tmp", *arguments[1:3], ""]
    return subprocess.run(words, input=SCRIPT, capture_output=True, text=True, check=True).stdout


@cache
def once(argv: tuple[str, ...]) -> str:
    """What a command prints here: the versions of the ranks' packages."""
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


async def train(logs: Path) -> None:
    """Write the log of a node's only rank, as a training would."""
    rank = int(logs.name.rpartition("noderank")[2])
    (logs.parent / "checkpoint").mkdir(exist_ok=True)
    log = PerfLog(rank, os.open(logs / f"rank{rank}.out.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    log.log("SUBMIT_INFO", {"vendor": "cpu", "case": "resnet50", "config": {}})
    log.log("TRAIN_START")
    for step in range(1, STEPS + 1):
        await asyncio.sleep(TRAINING / STEPS)
        log.log("STEP_END", {"step": step, "epoch": 1, "loss": 1.0, "learning_rate": 0.1, "throughput": 5.0})
    log.log("TRAIN_END")
    log.log("FINISHED", {"global_steps": STEPS, "stop_reason": "max_steps", "final_loss": 1.0})


def serve(port: int, folder: Path, login: float) -> None:
    """Answer as sshd of every address of 127.0.0.0/8."""
    hosts: dict[str, Host] = {}

    def host(connection: asyncssh.SSHServerConnection) -> Host:
        address = connection.get_extra_info("sockname")[0]
        if address not in hosts:
            hosts[address] = Host(address, folder / "hosts" / address)
        return hosts[address]

    class Login(asyncssh.SSHServer):
        async def begin_auth(self, username: str) -> bool:  # noqa: ARG002
            await asyncio.sleep(login)
            return True

    async def handle(channel: asyncssh.SSHServerProcess[str]) -> None:
        here, argv = host(channel.channel.get_connection()), shlex.split(channel.command or "")
        try:
            if argv == list(CLOCK.argv):  # the shell that tells the time runs one more command
                while not (line := (await channel.stdin.readline()).strip()) and not channel.stdin.at_eof():
                    channel.stdout.write(f"{time.time():.9f}\n")
                argv = shlex.split(line)
            if argv[:1] == ["timeout"]:
                argv = argv[4:]
            if START in argv:
                await here.start(channel, argv[argv.index(START) + 5])
            elif argv:
                channel.stdout.write(here.answer(argv))
            channel.exit(0)
        except (OSError, asyncssh.Error):
            channel.close()

    async def main() -> None:
        await asyncssh.create_server(
            Login,
            "0.0.0.0",
            port,
            server_host_keys=[str(folder / "host_key")],
            authorized_client_keys=str(folder / "key.pub"),
            process_factory=handle,
            sftp_factory=lambda channel: asyncssh.SFTPServer(
                channel, chroot=os.fsencode(host(channel.get_connection()).root)
            ),
            encoding="utf-8",
            backlog=4096,
        )
        print("ready", flush=True)
        await asyncio.Event().wait()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    asyncio.run(main())


@contextlib.contextmanager
def server(folder: Path, login: float) -> Iterator[int]:
    for key in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, __file__, "serve", str(port), str(folder), str(login)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield port
        finally:
            process.kill()


def write_cluster(folder: Path, hosts: int, port: int) -> None:
    """The file of the cluster, and the known keys of its hosts."""
    addresses = [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(hosts)]
    key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"[{address}]:{port} {key}" for address in addresses))
    nodes = [{"name": f"n{number}", "address": address, "port": port} for number, address in enumerate(addresses)]
    ssh = {"key": str(folder / "key"), "known_hosts": str(folder / "known_hosts"), "config": "/dev/null"}
    cluster = {"title": "many hosts", "nodes": nodes, "ssh": ssh, "work_dir": WORK, "rendezvous": {"interface": "lo"}}
    (folder / "conf/cluster").mkdir(parents=True)
    (folder / "conf/cluster/many.yaml").write_text(yaml.safe_dump(cluster))


def flagperf(folder: Path, *words: str) -> tuple[str, float, float]:
    """What a command prints, its seconds, and the MiB that it needed. The figures of this training count for nobody."""
    began = time.perf_counter()
    words = ("--config-dir", str(folder / "conf"), *words)
    with subprocess.Popen(
        [sys.executable, "-c", "from flagperf.cli.main import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    ) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 5) or " failed " in text or "warning" in text:
        for log in folder.glob("result/*/flagperf_run.log"):
            print(log.read_text()[-5000:])
        raise SystemExit(f"exit code {process.returncode}: flagperf {shlex.join(words)}\n{text[-5000:]}")
    return text, time.perf_counter() - began, usage.ru_maxrss / 1024


def main(hosts: int, login: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server(folder, login) as port:
            write_cluster(folder, hosts, port)
            run = ("model=resnet50", "size=tiny", "cluster=many", f"nnodes={hosts}", "nproc=1", "runtime=process")
            text, seconds, memory = flagperf(folder, *run, f"runtime.python={sys.executable}", f"max_steps={STEPS}")
            print(text)
            print(f"run on {hosts} hosts: {seconds:.1f} s, {memory:.0f} MiB")
            text, seconds, of_clean = flagperf(folder, "clean", "cluster=many")
            print(text[-300:])
            print(f"clean on {hosts} hosts: {seconds:.1f} s, {of_clean:.0f} MiB")
    say(f"memory of the launcher, {hosts} hosts", max(memory, of_clean), MOST_MEMORY, "MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
    else:
        given = [*sys.argv[1:], *("1000", "1")[len(sys.argv) - 1 :]]
        main(int(given[0]), float(given[1]))
