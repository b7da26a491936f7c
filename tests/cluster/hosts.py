"""A real cluster on one machine: hosts made of namespaces, each with its own sshd and docker daemon.

    python tests/cluster/hosts.py              two hosts, until Ctrl-C; prints how to reach them

A host has its own network, mount, uts, ipc and pid namespaces, a private /run, home, /tmp, /var/tmp, /srv,
/var/lib/docker and /etc/docker, and shares the rest of the file system. The bridge between them has a namespace of
its own: on a bridge in the root namespace Docker's FORWARD rule would cut the hosts off. Needs root, and Debian's
packages docker.io, openssh-server, iproute2 and tini.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path("/var/lib/flagperf-test-cluster")
PROGRAMS = ("dockerd", "sshd", "ssh-keygen", "ip", "nsenter", "unshare", "setpriv", "docker-init")
HOME = str(Path.home()).lstrip("/")  # empty on the hosts: no start files of a shell
OWN_PLACES = (HOME, "tmp", "var/tmp", "srv")  # each host has its own
IMAGE = "flagperf-test:empty"
AS_MADE_IMAGE = "flagperf-test:as-made"  # tells whether a test replaced IMAGE
OURS = "[f]lagperf-(process|[0-9a-f]{8})|[s]teps|[s]leep 3600"  # processes of a run, for pgrep
BOOT_SECONDS = 30.0

INIT = """
set -e
hostname {name}
mount --make-rprivate /
mount -t proc proc /proc
{keep_python}
for place in {own_places} var/lib/docker etc/docker; do
    mkdir -p {root}/$place /$place
    mount --bind {root}/$place /$place
done
chmod 1777 /tmp /var/tmp
{restore_python}
mount --bind {root}/hosts /etc/hosts
mount --bind {root}/resolv.conf /etc/resolv.conf
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd /run/lock /run/test-host
ip link set lo up
{sshd}
{dockerd}
exec docker-init -- sleep infinity
"""

END_PROCESSES = f"""
pkill -9 -f '{OURS}'
pgrep sleep | tail -n +2 | xargs -r kill -9
umount /srv/* 2>/dev/null
"""

AS_MADE = """
pgrep -x sshd && containers=$(docker ps -aq) && [ -z "$containers" ] &&
    set -- $(docker images --format '{{.Repository}}:{{.Tag}} {{.ID}}' | sort) &&
    [ "$# $1 $3 $2" = "4 flagperf-test:as-made flagperf-test:empty $4" ]
"""

EMPTY_DOCKER = """
docker ps -aq | xargs -r docker rm -f
docker images -q | sort -u | xargs -r docker rmi -f
"""

SSHD_CONFIG = """
Port 22
HostKey {root}/host_key
AuthorizedKeysFile {authorized}
PidFile /run/sshd.pid
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
SetEnv PATH=/usr/sbin:/usr/bin:/sbin:/bin
Subsystem sftp internal-sftp
"""


def why_not() -> str | None:
    """Why this machine cannot hold a test cluster; None: it can."""
    if os.geteuid() != 0:
        return "a test cluster needs root"
    missing = [program for program in PROGRAMS if not shutil.which(program, path=_PATH)]
    if missing:
        return f"a test cluster needs {', '.join(missing)} (Debian: docker.io openssh-server iproute2 tini)"
    probe = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        text=True,
    )
    return f"a test cluster needs namespaces: {probe.stderr.strip()}" if probe.returncode else None


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_ON_HOST = {"PATH": _PATH, "LANG": "C.UTF-8"}


def _do(*words: str | Path) -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, env={**os.environ, "PATH": _PATH}
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Host:
    """One host. `address` is reached from the machine itself and from the other hosts."""

    def __init__(self, name: str, address: str, netns: str, root: Path, authorized: Path) -> None:
        self.name, self.address, self.netns, self.root = name, address, netns, root
        self._authorized = authorized
        self._init: subprocess.Popen[bytes] | None = None

    def install(self, hosts_file: str) -> None:
        """Write what lies on its disk."""
        self.root.mkdir(parents=True)
        (self.root / "hosts").write_text(f"127.0.0.1 localhost\n{hosts_file}")
        (self.root / "resolv.conf").write_text("")
        (self.root / "sshd_config").write_text(SSHD_CONFIG.format(root=self.root, authorized=self._authorized))
        self.new_host_key()

    def new_host_key(self) -> None:
        for old in self.root.glob("host_key*"):
            old.unlink()
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.root / "host_key")

    @property
    def host_key(self) -> str:
        return " ".join((self.root / "host_key.pub").read_text().split()[:2])

    @property
    def alive(self) -> bool:
        return self._init is not None and self._init.poll() is None

    def boot(self, *, wait: bool = True) -> None:
        """Switch it on; returns when sshd and docker answer."""
        self.mend()
        log = self.root / "boot.log"
        keep, restore = self._python_lines()
        script = INIT.format(
            name=self.name,
            root=self.root,
            own_places=" ".join(OWN_PLACES),
            keep_python=keep,
            restore_python=restore,
            sshd=self._sshd_line(),
            dockerd=self._dockerd_line(),
        )
        namespaces = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        with log.open("ab") as output:
            self._init = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "nsenter",
                    f"--net=/run/netns/{self.netns}",
                    "unshare",
                    *namespaces,
                    "sh",
                    "-c",
                    script,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": _PATH, "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._ready():
            if not self.alive or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not boot:\n{(self.root / 'boot.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        probe = (
            "test -d /run/test-host && test -S /run/docker.sock && test -s /run/sshd.pid && docker version >/dev/null"
        )
        return self.alive and self._pid is not None and self.run("sh", "-c", probe).returncode == 0

    def _python_lines(self) -> tuple[str, str]:
        """Shell lines that bring Python back, read-only, into the emptied places, where it lies in one of them."""
        places = [path for path in image_mounts() if any(Path(path).is_relative_to(f"/{own}") for own in OWN_PLACES)]
        inside = [(place, f"{self.root}/python{index}") for index, place in enumerate(places)]
        return (
            "\n".join(f"mkdir -p {keep}; mount --bind {place} {keep}" for place, keep in inside),
            "\n".join(
                f"mkdir -p {place}; mount --bind {keep} {place}; mount -o remount,bind,ro {place}"
                for place, keep in inside
            ),
        )

    def _sshd_line(self) -> str:
        return f"/usr/sbin/sshd -f {self.root}/sshd_config -E {self.root}/sshd.log"

    def _dockerd_line(self) -> str:
        return f"dockerd --iptables=false --ip6tables=false --bridge=none >>{self.root}/dockerd.log 2>&1 &"

    def power_off(self) -> None:
        """Cut the power: every process of the host ends at once, nothing is said to anyone."""
        self.cut()
        if self._init is not None:
            os.killpg(self._init.pid, signal.SIGKILL)
            self._init.wait()
            self._init = None

    def cut(self) -> None:
        """Pull the network cable: packets vanish."""
        _do("ip", "netns", "exec", self.netns, "ip", "link", "set", "eth0", "down")

    def mend(self) -> None:
        _do("ip", "netns", "exec", self.netns, "ip", "link", "set", "eth0", "up")

    def start_sshd(self) -> None:
        self._check(self.run("sh", "-c", self._sshd_line()))

    def start_dockerd(self) -> None:
        self._check(self.run("sh", "-c", self._dockerd_line()))
        self.wait_ready()

    def freeze_dockerd(self, number: int = signal.SIGSTOP) -> None:
        """Let it hang; with SIGCONT it goes on."""
        self.run("pkill", f"-{int(number)}", "-x", "dockerd")

    def bring_back(self) -> None:
        """Plug it in, switch it on, and start what does not run; its disk and its docker stay as they are."""
        self.mend()
        if not self.alive:
            self.boot()
        self.freeze_dockerd(signal.SIGCONT)
        if self.run("pgrep", "-x", "sshd").returncode:
            self.start_sshd()
        if self.run("pgrep", "-x", "dockerd").returncode:
            self.run("rm", "-f", "/run/docker.pid")
            self.start_dockerd()
        self.wait_ready()

    def repair(self) -> None:
        """Empty its disk; where it is off or its docker is not as it was made, bring both back."""
        if self.alive:
            self.mend()
            self.freeze_dockerd(signal.SIGCONT)
            self.empty_disk()
            if self.run("sh", "-c", AS_MADE).returncode == 0:
                return
        self.bring_back()
        self.run("sh", "-c", EMPTY_DOCKER)
        self.empty_disk()
        self.import_image()

    def empty_disk(self) -> None:
        """End what runs left running, and remove their files."""
        self.run("sh", "-c", END_PROCESSES + on_files_of_runs("rm -rf"))

    def import_image(self) -> None:
        self.output("docker", "import", "-", IMAGE, stdin=empty_image())
        self.output("docker", "tag", IMAGE, AS_MADE_IMAGE)

    def stop(self, program: str, number: int = signal.SIGTERM) -> None:
        """Signal every process of that name on this host, and wait until none is left."""
        self.run("pkill", f"-{int(number)}", "-x", program)
        deadline = time.monotonic() + 20
        while self.run("pgrep", "-x", program).returncode == 0 and time.monotonic() < deadline:
            time.sleep(0.05)

    def run(self, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command on the host, as a person at its console."""
        done = subprocess.run(
            self._command(words), input=stdin if stdin is not None else b"", capture_output=True, env=_ON_HOST
        )
        return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command on the host. Its output and errors come through one pipe."""
        return subprocess.Popen(
            self._command(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_ON_HOST
        )

    def _command(self, words: Sequence[str]) -> list[str]:
        if self._pid is None:
            raise RuntimeError(f"{self.name} is off")
        return ["nsenter", "-t", str(self._pid), "--net", "--mount", "--uts", "--ipc", "--pid", *words]

    def output(self, *words: str, stdin: bytes | None = None) -> str:
        """Output of a command that must succeed on the host."""
        return self._check(self.run(*words, stdin=stdin))

    @staticmethod
    def _check(done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode:
            raise RuntimeError(f"{done.args}: {done.stderr or done.stdout}")
        return done.stdout

    @property
    def _pid(self) -> int | None:
        """The host's pid 1, as the machine sees it: the child of unshare."""
        if self._init is None:
            return None
        with contextlib.suppress(OSError, IndexError):
            return int(Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text().split()[0])
        return None


@contextlib.contextmanager
def in_place_of(host: Host, path: str, content: str | None) -> Iterator[None]:
    """A program of a host is another meanwhile; None: it cannot be run."""
    other = "/dev/null" if content is None else "/run/other-program"
    if content is not None:
        host.output("sh", "-c", f"cat >{other} && chmod +x {other}", stdin=content.encode())
    host.output("mount", "--bind", other, path)
    try:
        yield
    finally:
        host.output("umount", path)


class TestCluster:
    """Hosts h1, h2 …, up while its `with` block runs. Nothing of it is left afterwards."""

    __test__ = False  # not a test, whatever its name

    def __init__(self, size: int = 2) -> None:
        with _claiming():
            self._number = _claim_network()
            self.root = ROOT / str(self._number)
            shutil.rmtree(self.root, ignore_errors=True)
            self.root.mkdir(parents=True)
            (self.root / "made_by").write_text(str(os.getpid()))
        self.bridge = f"fpbed{self._number}"
        self.key = self.root / "key"
        self.known_hosts = self.root / "known_hosts"
        self.address = f"10.231.{self._number}.1"  # of the machine itself
        self.hosts = [
            Host(
                f"h{index}",
                f"10.231.{self._number}.{10 + index}",
                f"{self.bridge}h{index}",
                self.root / f"h{index}",
                self.root / "key.pub",
            )
            for index in range(1, size + 1)
        ]

    def __enter__(self) -> TestCluster:
        try:
            self._connect()
            _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key)
            names = "".join(f"{host.address} {host.name}\n" for host in self.hosts)
            for host in self.hosts:
                host.install(names)
                host.boot(wait=False)
            for host in self.hosts:
                host.wait_ready()
            self.write_known_hosts()
            for host in self.hosts:
                host.import_image()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write_known_hosts(self) -> None:
        self.known_hosts.write_text("".join(f"{host.address} {host.host_key}\n" for host in self.hosts))

    def repair(self) -> None:
        """Bring every host back to how it was made, whatever a test did to it; removes its containers."""
        for host in self.hosts:
            host.repair()
        self.write_known_hosts()

    def close(self) -> None:
        for host in self.hosts:
            if host.alive:
                host.stop("dockerd")
            host.power_off()
        for name in (*(host.netns for host in self.hosts), self.bridge):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        _remove_tree(self.root)
        with contextlib.suppress(OSError):
            ROOT.rmdir()

    def _connect(self) -> None:
        """The bridge and its cables; the namespace of the bridge was made when the number was claimed."""
        bridge = ("ip", "-n", self.bridge)
        _do(*bridge, "link", "add", "br0", "type", "bridge")
        _do(*bridge, "link", "set", "br0", "up")
        for host in self.hosts:
            _do("ip", "netns", "add", host.netns)
            _do(*bridge, "link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", host.netns)
            _do("ip", "-n", host.netns, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _do("ip", "-n", host.netns, "link", "set", "eth0", "up")
            _do(*bridge, "link", "set", host.name, "master", "br0", "up")
        _do(*bridge, "link", "add", "machine", "type", "veth", "peer", "name", self.bridge, "netns", "1")
        _do("ip", "addr", "add", f"{self.address}/24", "dev", self.bridge)
        _do("ip", "link", "set", self.bridge, "up")
        _do(*bridge, "link", "set", "machine", "master", "br0", "up")


@functools.cache
def image_mounts() -> list[str]:
    """Folders of this machine that make a container of IMAGE a full system, with Python and all its environments.

    An environment that is made after the hosts is missing on them, so the folders stay as they were at first.
    """
    own = Path(sys.prefix)
    others = sorted(str(file.parent) for file in own.parent.glob(f"{own.name}-*/pyvenv.cfg"))  # of other frameworks
    return ["/usr", *dict.fromkeys((sys.base_prefix, sys.prefix, *others))]


def on_files_of_runs(command: str) -> str:
    """A shell line that gives a command what lies on a host's disk. Python is left out, where it lies beside that: a
    walk through its environments would take seconds."""
    kept = " ".join(f"! -path {folder}" for path in image_mounts() for folder in (path, *Path(path).parents))
    return f"find /srv /var/tmp /tmp -mindepth 1 -maxdepth 1 {kept} -exec {command} {{}} +"


def empty_image(*programs: Path) -> bytes:
    """A tar of almost nothing, for `docker import`."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("etc", "tmp", "sbin", "root", "proc", "sys", "dev", "run", "var/tmp", "usr"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            tar.addfile(folder)
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        passwd = b"root:x:0:0:root:/root:/bin/sh\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(passwd)
        tar.addfile(entry, io.BytesIO(passwd))
        for path in {path for program in programs for path in _with_libraries(program)}:
            tar.add(path.resolve(), str(path.parent.resolve() / path.name).lstrip("/"))
    return stream.getvalue()


def _with_libraries(program: Path) -> list[Path]:
    libraries = re.findall(r"(/\S+) \(0x", _do("ldd", program))
    return [program, *map(Path, libraries)]


@contextlib.contextmanager
def _claiming() -> Iterator[None]:
    """One process at a time: a number that is claimed has no owner's name for a moment, as if its owner were dead."""
    with Path("/run/flagperf-test-cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _claim_network() -> int:
    """A number no other test cluster of this machine has; making the bridge's namespace is what claims it."""
    for number in range(1, 255):
        bridge = f"fpbed{number}"
        if subprocess.run(["ip", "netns", "add", bridge], capture_output=True).returncode == 0:
            return number
        if _is_dead(number):
            for name in [*Path("/run/netns").glob(f"{bridge}h*"), bridge]:
                subprocess.run(["ip", "netns", "delete", Path(name).name], capture_output=True)
            _remove_tree(ROOT / str(number))
            _do("ip", "netns", "add", bridge)
            return number
    raise RuntimeError("254 test clusters are up already")


def _is_dead(number: int) -> bool:
    """Whether the process that made a cluster is gone; its hosts went with it."""
    with contextlib.suppress(OSError, ValueError):
        return not Path("/proc", (ROOT / str(number) / "made_by").read_text()).exists()
    return False


def _remove_tree(root: Path) -> None:
    """Remove a host's disk; docker's overlay mounts go away a moment after the last process."""
    for _ in range(50):
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            return
        time.sleep(0.1)
    raise RuntimeError(f"cannot remove {root}")


if __name__ == "__main__":
    with TestCluster() as cluster:
        for each in cluster.hosts:
            print(
                f"ssh -i {cluster.key} -o UserKnownHostsFile={cluster.known_hosts} root@{each.address}   # {each.name}"
            )
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
