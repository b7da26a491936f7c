"""SshTransport against real hosts: what works, what each failure says, and what a dropped connection does."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import gc
import json
import logging
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hosts import TestCluster, in_place_of
from strange_folder import check_what_is_brought
from test_normal_user import HOME, PERSON, person_on

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.contract.command import Command
from flagperf.docker.daemon import DockerHost
from flagperf.errors import THIS_MACHINE, FlagperfError, HostError, JumpError
from flagperf.hosts.ssh.connection import Gate
from flagperf.hosts.ssh.login import openssh_argv, route
from flagperf.hosts.ssh.process import GUARD_ENDED
from flagperf.hosts.ssh.transport import SshTransport
from flagperf.hosts.transport import FileRefused
from flagperf.run.bringing import bring
from flagperf.secret import Mask

START_UP = "  do:      look into the start-up files of the user's shell there (.bashrc)"
STRANGE = ("a b", "'", '"', "$(id)", "`id`", "line\nline", "ü 漢", "\\", "*", "", "-n", "~")


def ssh_of(lab: TestCluster, **changes: object) -> Ssh:
    values = {"key": str(lab.key), "known_hosts": str(lab.known_hosts), "config": "/dev/null", "reconnect": 5.0}
    return Ssh(**{**values, **changes})  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def connect(lab: TestCluster, **changes: object) -> AsyncIterator[SshTransport]:
    host = lab.hosts[0]
    async with SshTransport(Node("h1", host.address, user="root"), ssh_of(lab, **changes), timeout=5) as transport:
        yield transport


def processes(lab: TestCluster, word: str) -> list[str]:
    return lab.hosts[0].run("pgrep", "-af", word).stdout.splitlines()


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        await asyncio.sleep(0.05)


def test_words_environment_and_folder_arrive_as_they_are(lab: TestCluster) -> None:
    async def body() -> None:
        async with connect(lab) as host:
            done = await host.run(Command(("printf", r"%s\0", *STRANGE), {"A": STRANGE[3]}, "/srv"), timeout=10)
            assert done.stdout.split("\0")[:-1] == list(STRANGE)
            shell = Command(("sh", "-c", 'printf "%s|%s" "$A" "$PWD"; cat; exit 7'), {"A": "$(id) 'x'"}, "/srv")
            done = await host.run(shell, timeout=10, stdin=b"in \xc3\xbc")
            assert (done.stdout, done.exit_status) == ("$(id) 'x'|/srvin ü", 7)
            assert host.address == lab.hosts[0].address

    asyncio.run(body())


def test_files_go_there_and_come_back(lab: TestCluster, tmp_path: Path) -> None:
    name = "ä 'x' $(id)"
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / name).write_bytes(bytes(range(256)) * 5000)

    async def body() -> None:
        async with connect(lab) as host:
            await host.put(tmp_path / "a", "/srv/deep/er")
            await host.put(tmp_path / "a" / "b" / name, "/srv/deep/er/b/two")
            there = await host.listing("/srv/deep/er")
            assert (sorted(there.files), there.folders, there.left) == (sorted([f"b/{name}", "b/two"]), ["b"], {})
            for path in (*there.files, *there.files):  # also over what is there
                await host.get(f"/srv/deep/er/{path}", tmp_path / "back" / path)
            assert sorted(path.name for path in (tmp_path / "back" / "b").iterdir()) == sorted(["two", name])
            assert (tmp_path / "back" / "b" / "two").read_bytes() == bytes(range(256)) * 5000
            content = b""
            while part := await host.read("/srv/deep/er/b/two", len(content)):
                content += part
            assert content == bytes(range(256)) * 5000
            assert await host.read("/srv/nothing/here") == b""

    asyncio.run(body())


def test_regular_files_are_brought(lab: TestCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with connect(lab) as host:
            await check_what_is_brought(host, "/srv/strange", tmp_path, caplog)

    asyncio.run(body())


@pytest.mark.slow
def test_other_files_than_logs_fail_no_training(
    lab: TestCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A person cannot read some of them, and there are many."""
    make = """mkdir -p logs/closed; cd logs; echo log >rank0.out.log; echo x >open; echo x >unread
        chmod 0 closed unread; seq 3000 | split -l 1 -a 4 - many"""

    async def body(node: Node) -> None:
        async with SshTransport(node, ssh_of(lab), timeout=5) as host:
            made = await host.run(Command(("sh", "-c", f"cd {HOME}; {make}")), timeout=20)
            assert made.exit_status == 0, made.stderr
            with caplog.at_level(logging.WARNING):
                assert await bring(host, f"{HOME}/logs", tmp_path / "logs", Mask())

    with person_on(lab.hosts[0], in_docker_group=False):
        asyncio.run(body(Node("h1", lab.hosts[0].address, user=PERSON)))
    brought = {path.name for path in (tmp_path / "logs").iterdir()}
    assert (len(brought), brought >= {"rank0.out.log", "open", "closed", "manyaaaa"}) == (3003, True)
    assert caplog.messages == ["h1: files that cannot be read among the logs were left out: closed, unread"]


@pytest.mark.parametrize("cut", [False, True], ids=["host answers", "host is away"])
@pytest.mark.parametrize("what", ["read", "put", "get"])
def test_work_with_files_that_is_cancelled_leaves_no_task(
    lab: TestCluster, tmp_path: Path, what: str, cut: bool
) -> None:
    """A task of asyncssh whose error nobody asks for would be a traceback in the run's log."""
    large, told = tmp_path / "large", []
    large.write_bytes(bytes(150_000) if what == "read" else bytes(64 << 20))

    async def body() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with connect(lab) as host:
            await host.put(large, "/srv/large")
            for pause in (0.0005 * number for number in range(1 if cut else 20)):
                works = {
                    "read": lambda: host.read("/srv/large", 100_000),
                    "put": lambda: host.put(large, "/srv/again"),
                    "get": lambda: host.get("/srv/large", tmp_path / "back"),
                }
                work = asyncio.ensure_future(works[what]())
                await asyncio.sleep(0.2 if cut else pause)
                if cut:
                    lab.hosts[0].cut()
                    await asyncio.sleep(0.2)
                work.cancel()
                await asyncio.wait({work})
        lab.hosts[0].mend()
        await asyncio.sleep(0.2)
        gc.collect()

    asyncio.run(body())
    assert told == []


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param("exit 0", 0, id="ends well"),
        pytest.param("exit 3", 3, id="fails"),
        pytest.param("kill -s KILL $$", -9, id="is killed"),
    ],
)
def test_a_long_command_gives_its_exit_status_and_log(lab: TestCluster, words: str, status: int) -> None:
    async def body() -> None:
        async with connect(lab) as host:
            process = await host.start(
                Command(("sh", "-c", f"echo out; echo err >&2; {words}")), log="/srv/log", grace=1
            )
            assert await asyncio.wait_for(process.wait(), 10) == status
            assert await host.read("/srv/log") == b"out\nerr\n"
            assert (await host.run(Command(("sh", "-c", "ls -d /tmp/flagperf-*")), timeout=10)).stdout == ""

    asyncio.run(body())


def test_a_command_whose_guard_is_killed(lab: TestCluster) -> None:
    async def body() -> tuple[int | None, str | None]:
        async with connect(lab) as host:
            process = await host.start(Command(("sleep", "1012")), log="/srv/log", grace=1)
            await until(lambda: bool(processes(lab, "sleep 1012")))
            lab.hosts[0].output("sh", "-c", "kill -9 $(cat /tmp/flagperf-process.*/pid)")
            return await asyncio.wait_for(process.wait(), 20), await process.reason()

    assert asyncio.run(body()) == (None, GUARD_ENDED)


def test_a_host_without_room_in_tmp(lab: TestCluster) -> None:
    async def body() -> str:
        async with connect(lab) as host:
            with pytest.raises(HostError) as caught:
                await host.start(Command(("true",)), log="/srv/log", grace=1)
            return caught.value.problem

    lab.hosts[0].output("sh", "-c", "mount -t tmpfs -o size=4k none /tmp; cat /dev/zero >/tmp/all 2>/dev/null || true")
    try:
        problem = asyncio.run(body())
    finally:
        lab.hosts[0].output("umount", "/tmp")
    assert re.fullmatch(
        r"cannot start a command: no file can be written in /tmp: 0 KiB and \d+ inodes are free", problem
    )


def test_a_log_that_became_a_folder_is_no_lost_host(lab: TestCluster) -> None:
    async def body() -> HostError:
        async with connect(lab) as host:
            with pytest.raises(FileRefused) as caught:
                await host.read("/srv", 10)
            return caught.value

    error = asyncio.run(body())
    assert (error.problem, error.lost) == ("/srv cannot be read: Failure", "")


FAMILY = """
setsid sleep 1001 &
sh -c 'trap "" TERM; sleep 1002; sleep 1002' &
(setsid sleep 1003 &)
sleep 1004
"""


def test_stopping_ends_sessions_orphans_and_what_ignores_sigterm(lab: TestCluster) -> None:
    async def body() -> None:
        async with connect(lab) as host:
            process = await host.start(Command(("sh", "-c", FAMILY)), log="/srv/log", grace=0.5)
            await until(lambda: len(processes(lab, "sleep 100[0-9]")) >= 4)
            await process.stop()  # would wait a quarter of an hour for the one that ignores SIGTERM
            await process.stop()
            assert processes(lab, "sleep 100[0-9]|flagperf-process") == []

    asyncio.run(body())


def test_stopping_works_where_the_users_shell_ignores_signals(lab: TestCluster) -> None:
    async def body() -> None:
        async with connect(lab, reconnect=1.0) as host:
            process = await host.start(Command(("sh", "-c", FAMILY)), log="/srv/log", grace=0.5)
            await until(lambda: len(processes(lab, "sleep 100[0-9]")) >= 4)
            await asyncio.wait_for(process.stop(), 30)
            assert processes(lab, "sleep 100[0-9]|flagperf-process") == []
        host = SshTransport(Node("h1", lab.hosts[0].address, user="root"), ssh_of(lab, reconnect=1.0), timeout=5)
        await host.__aenter__()
        await host.start(Command(("sleep", "1012")), log="/srv/log", grace=0.5)
        await host.connection.close()  # as if the launcher had died
        await until(lambda: processes(lab, "sleep 1012|flagperf-process") == [], 30)

    file = Path.home() / ".bashrc"
    lab.hosts[0].output("sh", "-c", f"echo \"trap '' TERM HUP INT\" > {file}")
    try:
        asyncio.run(body())
    finally:
        lab.hosts[0].output("rm", str(file))


ESCAPED = """
env -i setsid sleep 1009 &
(env -i setsid sleep 1010 &)
"""


@pytest.fixture(params=["python3", "no python3"])
def python(lab: TestCluster, request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the host has Python."""
    there = request.param == "python3"
    with contextlib.nullcontext() if there else in_place_of(lab.hosts[0], "/usr/bin/python3", None):
        yield there


@pytest.mark.parametrize("ends", ["stopped", "by itself"])
def test_what_clears_its_environment_ends_with_the_command(lab: TestCluster, python: bool, ends: str) -> None:
    """A session and an environment of its own hide nothing from a host's Python; a host without it sees them go on."""

    async def body() -> None:
        async with connect(lab) as host:
            wait = "sleep 1011" if ends == "stopped" else "until [ -e /srv/end ]; do sleep 0.1; done; exit 3"
            process = await host.start(Command(("sh", "-c", ESCAPED + wait)), log="/srv/log", grace=0.5)
            await until(lambda: len(processes(lab, "^sleep 10(09|10)")) == 2, 60)
            lab.hosts[0].output("touch", "/srv/end")
            await (process.stop() if ends == "stopped" else process.wait())
            assert await process.wait() == (-15 if ends == "stopped" else 3)

    asyncio.run(body())
    assert processes(lab, "sleep 1011|flagperf-process") == []
    assert len(processes(lab, "^sleep 10(09|10)")) == (0 if python else 2)


GREAT = 2**27  # bytes, such as those of an image
SENDS = f"""
import socket
with socket.socket(socket.AF_UNIX) as server:
    server.bind("/srv/great.sock")
    server.listen()
    client, _ = server.accept()
    assert client.recv(9) == b"give\\n"
    client.sendall(bytes({GREAT}))
"""


def memory() -> int:
    """Bytes that this process has in memory."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@pytest.mark.slow
def test_what_a_socket_of_the_host_sends_stays_there_until_it_is_read(lab: TestCluster) -> None:
    """A slow reader, such as docker on another host that unpacks an image, fills no memory here."""

    def read(path: str) -> tuple[int, int]:
        before, most, received = memory(), 0, 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"give\n")
            while data := client.recv(2**16):
                received += len(data)
                most = max(most, memory())
                time.sleep(0.001)
        return received, most - before

    async def body() -> tuple[int, int]:
        async with connect(lab) as host, host.unix_socket("/srv/great.sock") as path:
            return await asyncio.to_thread(read, path)

    with lab.hosts[0].start(sys.executable, "-c", SENDS):
        while lab.hosts[0].run("test", "-S", "/srv/great.sock").returncode:
            time.sleep(0.05)
        received, more = asyncio.run(body())
    assert received == GREAT
    assert more < GREAT / 4


def test_leaving_stops_what_runs(lab: TestCluster) -> None:
    async def body() -> None:
        async with connect(lab) as host:
            await host.start(Command(("sleep", "1005")), log="/srv/log", grace=0.5)
            await until(lambda: bool(processes(lab, "sleep 1005")))
        assert processes(lab, "sleep 1005|flagperf-process") == []

    asyncio.run(body())


def test_a_command_that_outstays_its_time_is_ended(lab: TestCluster) -> None:
    async def body() -> None:
        async with connect(lab) as host:
            with pytest.raises(HostError, match=r"^h1: no answer within 0.3 s from: sleep 1006$"):
                await host.run(Command(("sleep", "1006")), timeout=0.3)
            assert processes(lab, "sleep 1006") == []

    asyncio.run(body())


def sshd_session_killed(lab: TestCluster) -> None:
    lab.hosts[0].run("pkill", "-9", "-f", "sshd: root@notty")


def short_black_hole(lab: TestCluster) -> None:
    lab.hosts[0].cut()
    asyncio.get_running_loop().call_later(3, lab.hosts[0].mend)


@pytest.mark.parametrize("drop", [sshd_session_killed, short_black_hole])
def test_a_short_drop_is_survived(lab: TestCluster, drop: Callable[[TestCluster], None]) -> None:
    async def body() -> None:
        async with connect(lab, keepalive=0.3) as host:
            process = await host.start(Command(("sh", "-c", "sleep 5; echo end; exit 4")), log="/srv/log", grace=1)
            await host.read("/srv/log")
            drop(lab)
            assert await asyncio.wait_for(process.wait(), 20) == 4
            assert await host.read("/srv/log") == b"end\n"

    asyncio.run(body())


def unplugged(lab: TestCluster) -> None:
    lab.hosts[0].cut()


def powered_off(lab: TestCluster) -> None:
    lab.hosts[0].power_off()


def sshd_gone(lab: TestCluster) -> None:
    lab.hosts[0].stop("sshd", 9)


@pytest.mark.parametrize("loss", [unplugged, powered_off, sshd_gone])
def test_a_lost_host_is_told_after_the_time_for_reconnecting(
    lab: TestCluster, loss: Callable[[TestCluster], None]
) -> None:
    async def body() -> None:
        with contextlib.suppress(HostError):
            async with connect(lab, keepalive=0.3, reconnect=2.0) as host:
                process = await host.start(Command(("sleep", "1007")), log="/srv/log", grace=1)
                loss(lab)
                assert await asyncio.wait_for(process.wait(), 20) is None  # TCP alone would take minutes
                with pytest.raises(HostError, match=r"^h1: lost: no ssh connection for 2 s"):
                    await host.read("/srv/log")
        lab.hosts[0].mend()
        await until(lambda: not lab.hosts[0].alive or processes(lab, "sleep 1007|flagperf-process") == [], 10)

    asyncio.run(body())


LAUNCHER = """
import asyncio, json, sys
from flagperf.contract.command import Command
from flagperf.config.schema.cluster import Node, Ssh
from flagperf.hosts.ssh.transport import SshTransport
async def main(address, ssh):
    async with SshTransport(Node("h1", address, user="root"), Ssh(**json.loads(ssh)), timeout=5) as host:
        await host.start(Command(("sleep", "1008")), log="/srv/log", grace=0.5)
        print("started", flush=True)
        await asyncio.sleep(1000)
asyncio.run(main(*sys.argv[1:]))
"""


def test_a_killed_launcher_leaves_nothing_running(lab: TestCluster) -> None:
    ssh = json.dumps(dataclasses.asdict(ssh_of(lab, reconnect=1.0)))
    words = (sys.executable, "-c", LAUNCHER, lab.hosts[0].address, ssh)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None and launcher.stdout.readline() == "started\n"
        launcher.kill()
    asyncio.run(until(lambda: processes(lab, "sleep 1008|flagperf-process") == []))
    asyncio.run(until(lambda: lab.hosts[0].run("sh", "-c", "ls -d /tmp/flagperf-*").stdout == ""))


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def failing(lab: TestCluster, node: Node, **changes: object) -> str:
    """The message of a connection that must fail."""

    async def body() -> str:
        with pytest.raises(FlagperfError) as caught:
            async with SshTransport(node, ssh_of(lab, **changes), timeout=1):
                pass
        return str(caught.value)

    return asyncio.run(body())


@pytest.mark.parametrize(
    ("start_up", "message"),
    [
        pytest.param(
            "echo Welcome to h1",
            "h1: the shell of root prints in non-interactive logins: Welcome to h1\n"
            "  do:      make it silent: let its start-up file (.bashrc) print only if [ -t 1 ]",
            id="prints",
        ),
        pytest.param("exit 3", f"h1: the shell of root ends before it runs a command\n{START_UP}", id="exits"),
        pytest.param("sleep 3", f"h1: no command starts within 1 s\n{START_UP}", id="sleeps"),
    ],
)
def test_a_shell_that_is_not_silent(lab: TestCluster, start_up: str, message: str) -> None:
    file = Path.home() / ".bashrc"  # the home of the hosts is their own
    lab.hosts[0].output("sh", "-c", f'echo "$0" > {file}', start_up)
    try:
        node = Node("h1", lab.hosts[0].address, user="root")
        with pytest.raises(HostError) as caught:
            asyncio.run(SshTransport(node, ssh_of(lab), timeout=1).__aenter__())
        assert str(caught.value) == message
    finally:
        lab.hosts[0].output("rm", str(file))


def test_what_a_failed_connection_says(lab: TestCluster, tmp_path: Path, black_hole: int) -> None:
    address = lab.hosts[0].address
    node = Node("h1", address, user="root")
    other_key = tmp_path / "other"
    import asyncssh

    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(other_key))
    far = address.rpartition(".")[0] + ".99"
    hint = f"ssh -F /dev/null -i {lab.key} -o UserKnownHostsFile={lab.known_hosts} root@{address} true"
    said = {
        "wrong login": failing(lab, node, key=str(other_key)),
        "refused": failing(lab, Node("h1", address, port=23)),
        "silent": failing(lab, Node("h1", "127.0.0.1", port=black_hole)),
        "unreachable": failing(lab, Node("h1", far)),
        "unknown name": failing(lab, Node("h1", "no-such-host.invalid")),
    }
    assert said == {
        "wrong login": f"h1: {address} does not accept the login\n"
        f"  do:      try: {hint.replace(str(lab.key), str(other_key))}; "
        "set the key (cluster.ssh.key), or the user in the cluster file",
        "refused": f"h1: the ssh port refuses connections: {address}:23\n"
        "  do:      start sshd there, or correct the port in the cluster file",
        "silent": f"h1: 127.0.0.1:{black_hole} accepts the connection, and the login does not end\n"
        "  do:      is sshd there overloaded, or waiting for a name server? Or does a link lose large packets (MTU)? "
        f"Try: ssh -v 127.0.0.1:{black_hole}; ping -M do -s 1400 127.0.0.1:{black_hole}",
        "unreachable": f"h1: no answer from {far}\n  do:      is it switched on, and does a firewall drop ssh?",
        "unknown name": "h1: the name no-such-host.invalid is unknown\n"
        "  do:      correct the address in the cluster file, or the name server",
    }


def shown(key: str) -> str:
    """A public key as ssh-keygen tells of it: type and fingerprint."""
    words = subprocess.run(
        ["ssh-keygen", "-lf", "-"], input=key, capture_output=True, text=True, check=True
    ).stdout.split()
    return f"{key.split()[0]} {words[1]}"


def new_key(folder: Path, kind: str) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", folder / "new"], check=True)
    return " ".join((folder / "new.pub").read_text().split()[:2])


COMPARE = (
    "compare the shown key with the key on the host's own console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)"
)
DANGER = "someone may intercept the connection, or the host was installed again"


@pytest.mark.parametrize("through", ["straight", "the jump host", "behind a jump host"])
@pytest.mark.parametrize("known", ["nothing", "ed25519", "ecdsa"])
def test_a_host_that_shows_another_key_than_the_known_one(
    lab: TestCluster, tmp_path: Path, known: str, through: str
) -> None:
    """The known key is missing, has the type of the shown key, or has a type that the host does not have."""
    first, second = lab.hosts
    other = second if through == "behind a jump host" else first
    hosts = tmp_path / "known"
    old = None if known == "nothing" else new_key(tmp_path, known)
    rest = "".join(f"{host.address} {host.host_key}\n" for host in lab.hosts if host is not other)
    hosts.write_text(rest + (f"{other.address} {old}\n" if old else ""))
    jump = {} if through == "straight" else {"jump": f"root@{first.address}"}
    node = Node("h2", second.address, user="root") if jump else Node("h1", first.address, user="root")
    message = failing(lab, node, known_hosts=str(hosts), **jump)
    ssh = ssh_of(lab, known_hosts=str(hosts), **jump)
    hops = route(node, ssh)[: 1 if through == "the jump host" else 2]
    login = shlex.join([*openssh_argv(hops, ssh), "true"])
    host = f"{node.name}: {'jump host: ' if through == 'the jump host' else ''}"
    shows = f"he host shows {shown(other.host_key)}"
    if old is None:
        problem = f"{host}the host key of {other.address} is unknown: {hosts} has no key of this host. T{shows}"
        advice = f"{COMPARE}; if they are equal, add the key: {login}"
    else:
        problem = f"{host}the host key of {other.address} has changed: {hosts} has {shown(old)}, t{shows}"
        forget = f"ssh-keygen -f {hosts} -R {other.address}"
        advice = f"{DANGER}: {COMPARE}; only if they are equal, replace the key: {forget}; {login}"
    assert message == f"{problem}\n  do:      {advice}"


FORM = "[user@]host[:port], where host is a name, an IPv4 address, or an IPv6 address in brackets"


def not_understood(jump: str) -> str:
    where = "  where:   host h1\n  key:     cluster.ssh.jump\n"
    return f"the jump host cannot be understood\n{where}  given:   {jump}\n  allowed: {FORM}"


def refused(key: str, given: str, problem: str, advice: str) -> str:
    where = f"  where:   {THIS_MACHINE}\n  key:     cluster.ssh.{key}\n"
    return f"{problem}\n{where}  given:   {given}\n  do:      {advice}"


NOT_SO = "correct it there"
SIMPLER = "correct it there; if OpenSSH reads it, name a simpler file in cluster.ssh.config"
CORRECT = "correct the ssh section of the cluster file"
NO_FILE = "the file cannot be read: No such file or directory"
KEY = ("the private key cannot be used: ", "give a key without passphrase, or use ssh-agent")


@pytest.mark.parametrize(
    ("setting", "value", "content", "message"),
    [
        pytest.param("key", "$", None, refused("key", "$", NO_FILE, CORRECT), id="no key file"),
        pytest.param("key", "$", "no key", refused("key", "$", KEY[0] + "Invalid private key", KEY[1]), id="no key"),
        pytest.param(
            "key",
            "$",
            "encrypted",
            refused("key", "$", KEY[0] + "Passphrase must be specified to import encrypted private keys", KEY[1]),
            id="key with passphrase",
        ),
        pytest.param("config", "$", None, refused("config", "$", NO_FILE, CORRECT), id="no configuration"),
        pytest.param(
            "config",
            "$",
            "Port x",
            refused(
                "config",
                "$",
                "the ssh configuration cannot be used: $ line 1: Invalid Port integer value: x",
                SIMPLER,
            ),
            id="broken configuration",
        ),
        pytest.param(
            "config",
            "$",
            "# which\nHost *\n  Include $.more\n  Port 'x\n",
            refused("config", "$", "the ssh configuration cannot be used: $ line 4: a quotation has no end", NOT_SO),
            id="quotation without end",
        ),
        pytest.param(
            "config",
            "$",
            "# a comment \xfc\nCiphers aes256-ctr\nMatch acme x\n",
            refused(
                "config",
                "$",
                "the ssh configuration cannot be used: $ line 3: Invalid match condition acme",
                SIMPLER,
            ),
            id="line that OpenSSH alone could read",
        ),
        pytest.param("known_hosts", "$", None, refused("known_hosts", "$", NO_FILE, CORRECT), id="no known_hosts"),
        pytest.param("jump", "a@b:xx", None, not_understood("a@b:xx"), id="jump port no number"),
        pytest.param("jump", "a@b:70000", None, not_understood("a@b:70000"), id="jump port out of range"),
        pytest.param("jump", "-oProxyCommand=x", None, not_understood("-oProxyCommand=x"), id="jump an option"),
        pytest.param("jump", "-ox@h", None, not_understood("-ox@h"), id="jump user an option"),
        pytest.param("jump", "a@$(id)", None, not_understood("a@$(id)"), id="jump a command"),
        pytest.param("jump", "::1", None, not_understood("::1"), id="jump IPv6 without brackets"),
        pytest.param(
            "jump",
            "[::1]:23",
            None,
            "h1: jump host: the ssh port refuses connections: ::1:23\n"
            "  do:      start sshd there, or correct the port in cluster.ssh.jump",
            id="jump IPv6 refused",
        ),
        pytest.param(
            "jump",
            "no-such-host.invalid",
            None,
            "h1: jump host: the name no-such-host.invalid is unknown\n"
            "  do:      correct the address in cluster.ssh.jump, or the name server",
            id="jump unknown",
        ),
    ],
)
def test_what_a_wrong_setting_says(
    _session_cluster: TestCluster, tmp_path: Path, setting: str, value: str, content: str | None, message: str
) -> None:
    import asyncssh

    file = tmp_path / "file"
    if content == "encrypted":
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(file), "pkcs8-pem", passphrase="x")
    elif content is not None:
        file.write_text(content)
    node = Node("h1", _session_cluster.hosts[0].address, user="root")
    said = failing(_session_cluster, node, **{setting: value.replace("$", str(file))})
    assert said == message.replace("$", str(file))


@dataclasses.dataclass(frozen=True)
class OwnFiles:
    """Files of ssh on the launcher's machine. $ is their folder, ADDRESS that of h1."""

    config: str  # the lines of Host h1; the usual ones come before
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    known_hosts: bytes = b"ADDRESS KEY\n"
    key: bool = True  # the usual lines name the key, OWN


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(OwnFiles("IdentityFile $/none"), id="no such IdentityFile"),
        pytest.param(OwnFiles("IdentityFile $", {"x": ""}), id="IdentityFile is a folder"),
        pytest.param(OwnFiles("IdentityFile $/odd", {"odd": "no key"}), id="IdentityFile is no key"),
        pytest.param(OwnFiles("CertificateFile $/none\nCertificateFile $/odd", {"odd": "x"}), id="no certificates"),
        pytest.param(OwnFiles("IdentityFile %d/none\nIdentityFile OWN # the new one", key=False), id="comment"),
        pytest.param(OwnFiles("IdentityFile = 'OWN'\nUser \"root\"", key=False), id="quotations and ="),
        pytest.param(OwnFiles("ConnectTimeout none\nServerAliveInterval 1m\nRekeyLimit 1G 1h"), id="times"),
        pytest.param(OwnFiles("PubkeyAuthentication unbound\nIdentityAgent SSH_AUTH_SOCK"), id="values"),
        pytest.param(OwnFiles("ControlMaster auto\nRequestTTY no\nForwardAgent no\nLogLevel quiet"), id="others"),
        pytest.param(OwnFiles("# \xfc\nHostKeyAlias ADDRESS\nCompression yes"), id="Latin-1 in a comment"),
        pytest.param(OwnFiles("Include $ $/more*", {"more": "User root"}), id="Include of a folder"),
        pytest.param(OwnFiles("Include $/more*\nHost other\n  Port 1", {"more": "User root"}), id="Include"),
        pytest.param(OwnFiles("Include $/more\nHost x\nInclude $/more\nPort 1", {"more": "User root"}), id="a block"),
        pytest.param(OwnFiles("User root", known_hosts=b"=======\nADDRESS KEY\n"), id="no entry in known_hosts"),
        pytest.param(OwnFiles("", known_hosts=b"# Schl\xfcssel \x85\nADDRESS KEY \xfc\n"), id="Latin-1 in known_hosts"),
        pytest.param(
            OwnFiles("", known_hosts=b"h1 ssh-ed25519\n|1|x|y KEY\n@x * KEY\nADDRESS KEY\r\n"), id="odd entries"
        ),
        pytest.param(OwnFiles("", known_hosts=b"ADDRESS ssh-new AAAA\nADDRESS KEY\n"), id="unknown kind of key"),
        pytest.param(
            OwnFiles("ProxyJump JUMP\nHost JUMP\n IdentityFile $/none\n IdentityFile OWN\n User root"), id="jump"
        ),
    ],
)
def test_files_of_ssh_are_read_as_openssh_reads_them(
    _session_cluster: TestCluster, tmp_path: Path, files: OwnFiles
) -> None:
    first, second = _session_cluster.hosts

    words = {"ADDRESS": first.address, "JUMP": second.address, "$": str(tmp_path), "OWN": str(_session_cluster.key)}

    def filled(text: str) -> str:
        return functools.reduce(lambda filled, word: filled.replace(*word), words.items(), text)

    for name, content in files.files.items():
        (tmp_path / name).write_text(content)
    known = files.known_hosts.replace(b"KEY", first.host_key.encode()).replace(b"ADDRESS", first.address.encode())
    (tmp_path / "known").write_bytes(known + f"{second.address} {second.host_key}\n".encode())
    key = "IdentityFile OWN" if files.key else ""
    usual = (
        f"Host h1\n HostName ADDRESS\n {key}\n {files.config}\nHost *\n User root\n UserKnownHostsFile $/gone $/known\n"
    )
    config = tmp_path / "config"
    config.write_bytes(filled(usual).encode("latin-1"))
    done = subprocess.run(
        ["ssh", "-F", config, "-o", "BatchMode=yes", "h1", "hostname"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "h1\n", done.stderr
    ssh = Ssh(config=str(config))

    async def body() -> str:
        async with SshTransport(Node("h1", "h1"), ssh, timeout=5) as host:
            return (await host.run(Command(("hostname",)), timeout=5)).stdout

    assert asyncio.run(body()) == "h1\n"


OTHER_PORT = 2222


@contextlib.contextmanager
def sshd(lab: TestCluster, *options: str, without: str = "nothing") -> Iterator[int]:
    """A second sshd of h1, on another port, with further options and without some lines of its configuration."""
    host = lab.hosts[0]
    words = shlex.join([word for option in options for word in ("-o", option)])
    config = f"grep -v {shlex.quote(without)} {host.root}/sshd_config >/srv/sshd_config"
    start = f"/usr/sbin/sshd -f /srv/sshd_config -p {OTHER_PORT} -o PidFile=/run/other.pid {words}"
    host.output("sh", "-c", f"{config}; {start} && until [ -s /run/other.pid ]; do sleep 0.05; done")
    try:
        yield OTHER_PORT
    finally:
        host.run("sh", "-c", "kill $(cat /run/other.pid); rm /run/other.pid")


@pytest.fixture
def other_sshd(lab: TestCluster) -> Iterator[int]:
    with sshd(lab) as port:
        yield port


@pytest.mark.parametrize(
    ("without", "options", "problem"),
    [
        pytest.param("Subsystem", [], "sshd there offers no sftp", id="no subsystem"),
        pytest.param(
            "Subsystem", ["Subsystem=sftp /no/server"], "the sftp server of sshd ends at once", id="no sftp server"
        ),
        pytest.param(
            "nothing",
            ["AllowStreamLocalForwarding=no"],
            "the docker daemon runs, but its socket cannot be reached from here",
            id="no forwarding of sockets",
        ),
        pytest.param(
            "nothing",
            ["DisableForwarding=yes"],
            "the docker daemon runs, but its socket cannot be reached from here",
            id="no forwarding",
        ),
    ],
)
def test_what_sshd_does_not_offer(lab: TestCluster, without: str, options: list[str], problem: str) -> None:
    host = lab.hosts[0]

    async def body(port: int, known: Path) -> None:
        ssh = ssh_of(lab, known_hosts=str(known))
        async with SshTransport(Node("h1", host.address, port, "root"), ssh, timeout=5) as transport:
            await transport.read("/etc/hosts")
            async with DockerHost(transport):
                pass

    known = lab.root / "known"
    known.write_text(f"[{host.address}]:{OTHER_PORT} {host.host_key}\n")
    with sshd(lab, *options, without=without) as port, pytest.raises(HostError) as caught:
        asyncio.run(body(port, known))
    assert caught.value.problem == problem


def seen_from(lab: TestCluster, node: Node, **changes: object) -> tuple[str, ...]:
    """Host name and ssh connection of a node: address of the client, its port, own address, own port."""

    async def body() -> tuple[str, ...]:
        async with SshTransport(node, ssh_of(lab, **changes), timeout=5) as host:
            assert host.address == node.address
            done = await host.run(Command(("sh", "-c", "hostname; echo $SSH_CONNECTION")), timeout=5)
            return tuple(done.stdout.split())

    return asyncio.run(body())


def test_the_ssh_configuration_names_port_and_user_of_the_jump_host(
    lab: TestCluster, tmp_path: Path, other_sshd: int
) -> None:
    first, second = (host.address for host in lab.hosts)
    config = tmp_path / "config"
    config.write_text(f"Host {first}\n  Port {other_sshd}\nHost *\n  User root\n")
    known = tmp_path / "known"
    known.write_text(lab.known_hosts.read_text() + f"[{first}]:{other_sshd} {lab.hosts[0].host_key}\n")
    changes = {"config": str(config), "known_hosts": str(known)}
    assert seen_from(lab, Node("h1", first), **changes)[4] == str(other_sshd)
    assert seen_from(lab, Node("h2", second), jump=first, **changes)[:2] == ("h2", first)


def test_a_proxy_command_of_the_ssh_configuration_is_used(lab: TestCluster, tmp_path: Path) -> None:
    first, second = (host.address for host in lab.hosts)
    hop = f"ssh -F /dev/null -i {lab.key} -o UserKnownHostsFile={lab.known_hosts} -W %h:%p root@{first}"
    (tmp_path / "config").write_text(f"Host {second}\n  ProxyCommand {hop}\n")
    found = seen_from(lab, Node("h2", second, user="root"), config=str(tmp_path / "config"))
    assert found[:2] == ("h2", first)


def test_what_a_host_behind_a_jump_host_says(lab: TestCluster) -> None:
    first, second = (host.address for host in lab.hosts)
    said = failing(lab, Node("h2", second, 23, "root"), jump=f"root@{first}")
    known = f"UserKnownHostsFile={lab.known_hosts}"
    hop = f"ssh -F /dev/null -i {lab.key} -o {known} root@{first} -W '\"'\"'[%h]:%p'\"'\"'"
    assert said == (
        f"h2: the jump host {first} cannot connect to {second}:23: Connection refused\n  do:      try: "
        f"ssh -F /dev/null -i {lab.key} -o {known} -o 'ProxyCommand={hop}' -p 23 root@{second} true"
    )


def test_the_advice_for_a_changed_host_key_works(lab: TestCluster, tmp_path: Path, other_sshd: int) -> None:
    first = lab.hosts[0].address
    known = tmp_path / "known hosts"
    known.write_text(f"[{first}]:{other_sshd} {lab.hosts[1].host_key}\n")
    node = Node("h1", first, other_sshd, "root")
    advice = failing(lab, node, known_hosts=str(known)).partition("replace the key: ")[2]
    accepting = advice.replace("ssh -F", "ssh -o StrictHostKeyChecking=accept-new -F")  # as a person who says yes
    subprocess.run(["sh", "-c", accepting], check=True, capture_output=True)
    assert seen_from(lab, node, known_hosts=str(known))[4] == str(other_sshd)


def test_the_command_to_try_goes_the_same_way(lab: TestCluster) -> None:
    first, second = (host.address for host in lab.hosts)
    ssh = ssh_of(lab, jump=f"root@{first}")
    words = openssh_argv(route(Node("h2", second, user="root"), ssh), ssh)
    done = subprocess.run([*words, "hostname; echo $SSH_CLIENT"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == ["h2", first]


def test_a_host_key_may_be_left_unchecked_by_an_explicit_word(lab: TestCluster, tmp_path: Path) -> None:
    async def body() -> None:
        async with connect(lab, known_hosts=str(tmp_path / "none"), strict=False) as host:
            assert (await host.run(Command(("hostname",)), timeout=5)).stdout == "h1\n"

    asyncio.run(body())


def test_a_jump_host_that_is_lost_is_named(lab: TestCluster) -> None:
    first, second = lab.hosts

    async def body() -> JumpError:
        node, jump = Node("h2", second.address, user="root"), f"root@{first.address}"
        ssh = ssh_of(lab, jump=jump, keepalive=0.3, reconnect=2.0)
        with contextlib.suppress(HostError):
            async with SshTransport(node, ssh, timeout=5) as host:
                first.stop("sshd", 9)
                with pytest.raises(JumpError) as caught:
                    await asyncio.wait_for(host.read("/etc/hosts"), 20)
        return caught.value

    error = asyncio.run(body())
    problem = f"lost: no ssh connection for 2 s (jump host: the ssh port refuses connections: {first.address})"
    assert (error.problem, error.jump) == (problem, first.address)


def test_a_jump_host_is_gone_through(lab: TestCluster) -> None:
    async def body() -> None:
        node = Node("h2", lab.hosts[1].address, user="root")
        async with SshTransport(node, ssh_of(lab, jump=f"root@{lab.hosts[0].address}"), timeout=5) as host:
            done = await host.run(Command(("sh", "-c", "hostname; echo $SSH_CLIENT")), timeout=5)
            assert done.stdout.split()[:2] == ["h2", lab.hosts[0].address]

    asyncio.run(body())


def test_many_connections_at_once_pass_sshds_limit(lab: TestCluster) -> None:
    async def one(gate: Gate) -> str:
        node = Node("h1", lab.hosts[0].address, user="root")
        async with SshTransport(node, ssh_of(lab), timeout=15, gate=gate) as host:
            return (await host.run(Command(("hostname",)), timeout=15)).stdout

    async def body() -> list[str]:
        gate = Gate()
        return await asyncio.gather(*(one(gate) for _ in range(30)))

    assert asyncio.run(body()) == ["h1\n"] * 30
