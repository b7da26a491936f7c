"""SshTransport against real hosts: what works, what each failure says, and what a dropped connection does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from hosts import TestCluster

from flagperf.errors import HostError
from flagperf.schema import Command, Node, Ssh
from flagperf.ssh import SshTransport

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
            await host.get("/srv/deep/er", tmp_path / "back")
            await host.get("/srv/deep/er", tmp_path / "back")  # over what is there
            assert sorted(path.name for path in (tmp_path / "back" / "b").iterdir()) == sorted(["two", name])
            assert (tmp_path / "back" / "b" / "two").read_bytes() == bytes(range(256)) * 5000
            content = b""
            while part := await host.read("/srv/deep/er/b/two", len(content)):
                content += part
            assert content == bytes(range(256)) * 5000
            assert await host.read("/srv/nothing/here") == b""

    asyncio.run(body())


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
            started = time.monotonic()
            await process.stop()
            await process.stop()
            assert time.monotonic() - started < 3
            assert processes(lab, "sleep 100[0-9]|flagperf-process") == []

    asyncio.run(body())


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
def test_a_lost_host_is_told_within_the_time_for_reconnecting(
    lab: TestCluster, loss: Callable[[TestCluster], None]
) -> None:
    async def body() -> None:
        with contextlib.suppress(HostError):
            async with connect(lab, keepalive=0.3, reconnect=2.0) as host:
                process = await host.start(Command(("sleep", "1007")), log="/srv/log", grace=1)
                loss(lab)
                started = time.monotonic()
                assert await asyncio.wait_for(process.wait(), 20) is None
                assert time.monotonic() - started < 6
                with pytest.raises(HostError, match=r"^h1: lost: no ssh connection for 2 s"):
                    await host.read("/srv/log")
        lab.hosts[0].mend()
        await until(lambda: not lab.hosts[0].alive or processes(lab, "sleep 1007|flagperf-process") == [], 10)

    asyncio.run(body())


def test_a_killed_launcher_leaves_nothing_running(lab: TestCluster) -> None:
    async def body() -> None:
        async with connect(lab, reconnect=1.0) as host:
            await host.start(Command(("sleep", "1008")), log="/srv/log", grace=0.5)
            await until(lambda: bool(processes(lab, "sleep 1008")))
            host._lost = HostError("h1", "as if the launcher had died")
            host._connection.abort()  # type: ignore[union-attr]
            await until(lambda: processes(lab, "sleep 1008|flagperf-process") == [], 5)
            await until(lambda: lab.hosts[0].run("sh", "-c", "ls -d /tmp/flagperf-*").stdout == "")

    asyncio.run(body())


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


Connect = Callable[[], Awaitable[None]]


def failing(lab: TestCluster, node: Node, **changes: object) -> str:
    """The message of a connection that must fail."""

    async def body() -> str:
        with pytest.raises(HostError) as caught:
            async with SshTransport(node, ssh_of(lab, **changes), timeout=1):
                pass
        return str(caught.value)

    return asyncio.run(body())


def test_what_a_failed_connection_says(lab: TestCluster, tmp_path: Path, black_hole: int) -> None:
    address = lab.hosts[0].address
    node = Node("h1", address, user="root")
    other_key = tmp_path / "other"
    import asyncssh

    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(other_key))
    changed = tmp_path / "changed"
    changed.write_text(lab.known_hosts.read_text().replace(lab.hosts[0].host_key, lab.hosts[1].host_key))
    (tmp_path / "empty").write_text("")
    far = address.rpartition(".")[0] + ".99"
    hint = f"ssh -i {lab.key} root@{address} true"
    said = {
        "unknown key": failing(lab, node, known_hosts=str(tmp_path / "empty")),
        "changed key": failing(lab, node, known_hosts=str(changed)),
        "wrong login": failing(lab, node, key=str(other_key)),
        "refused": failing(lab, Node("h1", address, port=23)),
        "silent": failing(lab, Node("h1", "127.0.0.1", port=black_hole)),
        "unreachable": failing(lab, Node("h1", far)),
        "unknown name": failing(lab, Node("h1", "no-such-host.invalid")),
        "no key file": failing(lab, node, key=str(tmp_path / "none")),
    }
    own = "make sure that it is the right host, then: ssh-keygen -R"
    assert said == {
        "unknown key": f"h1: the host key of {address} is not the one in {tmp_path}/empty, or not in it at all\n"
        f"  do:      {own} {address}; {hint}",
        "changed key": f"h1: the host key of {address} is not the one in {changed}, or not in it at all\n"
        f"  do:      {own} {address}; {hint}",
        "wrong login": f"h1: {address} does not accept the login\n"
        f"  do:      try: {hint.replace(str(lab.key), str(other_key))}; set the key or the user in the cluster file",
        "refused": f"h1: the ssh port refuses connections: {address}:23\n"
        "  do:      start sshd there, or correct the port in the cluster file",
        "silent": f"h1: no answer from 127.0.0.1:{black_hole}\n"
        "  do:      is it switched on, and does a firewall drop ssh?",
        "unreachable": f"h1: no answer from {far}\n  do:      is it switched on, and does a firewall drop ssh?",
        "unknown name": "h1: the name no-such-host.invalid is unknown\n"
        "  do:      correct the address in the cluster file, or the name server",
        "no key file": f"h1: no such file: {tmp_path}/none\n  do:      correct the ssh section of the cluster file",
    }


def test_a_host_key_may_be_left_unchecked_by_an_explicit_word(lab: TestCluster, tmp_path: Path) -> None:
    async def body() -> None:
        async with connect(lab, known_hosts=str(tmp_path / "none"), strict=False) as host:
            assert (await host.run(Command(("hostname",)), timeout=5)).stdout == "h1\n"

    asyncio.run(body())


def test_a_jump_host_is_gone_through(lab: TestCluster) -> None:
    async def body() -> None:
        node = Node("h2", lab.hosts[1].address, user="root")
        async with SshTransport(node, ssh_of(lab, jump=f"root@{lab.hosts[0].address}"), timeout=5) as host:
            done = await host.run(Command(("sh", "-c", "hostname; echo $SSH_CLIENT")), timeout=5)
            assert done.stdout.split()[:2] == ["h2", lab.hosts[0].address]

    asyncio.run(body())


def test_many_connections_at_once_pass_sshds_limit(lab: TestCluster) -> None:
    async def one(gate: asyncio.Semaphore) -> str:
        node = Node("h1", lab.hosts[0].address, user="root")
        async with SshTransport(node, ssh_of(lab), timeout=15, gate=gate) as host:
            return (await host.run(Command(("hostname",)), timeout=15)).stdout

    async def body() -> list[str]:
        gate = asyncio.Semaphore(8)
        return await asyncio.gather(*(one(gate) for _ in range(30)))

    assert asyncio.run(body()) == ["h1\n"] * 30
