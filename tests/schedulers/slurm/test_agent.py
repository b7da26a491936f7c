"""The agent of a node, as srun starts it: here by a command that only looks like srun's."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from strange_folder import check_what_is_brought

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.schedulers import Slurm
from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.schedulers.slurm.job import SlurmJob
from flagperf.schedulers.slurm.transport import PIECE, SrunTransport

# For srun: the same task, here.
STAND_IN = '#!/bin/sh\nwhile [ "$1" != "-I" ]; do python=$1; shift; done\nexec "$python" "$@"\n'


@pytest.fixture(autouse=True)
def srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"srun": STAND_IN, "scontrol": "#!/bin/sh\necho JobId=1 JobState=RUNNING Reason=None\n"}.items():
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")


@asynccontextmanager
async def node(shared: bool = True) -> AsyncIterator[SrunTransport]:
    async with SrunTransport(Node("n1", "n1", shared=shared), SlurmJob(1, ["n1"]), Slurm(), 20) as transport:
        yield transport


def sh(text: str) -> Command:
    return Command(("sh", "-c", text), {"WORD": "a b"})


@pytest.mark.asyncio
async def test_commands_run_side_by_side_and_tell_how_they_ended() -> None:
    async with node() as transport:
        slow = asyncio.create_task(transport.run(sh("sleep 0.5; echo slow"), timeout=10))
        done = await transport.run(sh('cat; echo "$WORD" >&2; exit 3'), timeout=10, stdin=b"in\xc3\xa9")
        assert not slow.done()
        assert (done.exit_status, done.stdout, done.stderr) == (3, "iné", "a b\n")
        assert (await slow).stdout == "slow\n"
        assert (await transport.run(sh("kill -9 $$"), timeout=10)).exit_status == -signal.SIGKILL
        missing = await transport.run(Command(("no-such-program",)), timeout=10)
        assert (missing.exit_status, missing.stderr) == (127, "no-such-program: No such file or directory")
        with pytest.raises(HostError, match=r"no answer within 0\.2 s"):
            await transport.run(sh("sleep 9"), timeout=0.2)
        assert abs(transport.clock_offset) < 1


@pytest.mark.asyncio
async def test_a_long_command_is_followed_stopped_and_never_left(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    async with node() as transport:
        ends = await transport.start(sh("echo one; exit 4"), log=log, grace=1)
        assert (await ends.wait(), await transport.read(log)) == (4, b"one\n")
        stays = await transport.start(sh("echo two; sleep 99"), log=log, grace=1)
        while await transport.read(log, 4) != b"two\n":
            await asyncio.sleep(0.05)
        await stays.stop()
        assert await stays.wait() == -signal.SIGTERM
        await transport.start(sh(f"echo $$ >{tmp_path}/pid; sleep 99"), log=log, grace=1)
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.05)
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


@pytest.mark.asyncio
async def test_files_go_there_and_come_back(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "big").write_bytes(bytes(range(256)) * (PIECE // 200))
    (source / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (source / "sub" / "run.sh").chmod(0o4755)
    (source / "none").write_bytes(b"")
    async with node(shared=False) as transport:
        await transport.put(source, f"{tmp_path}/there/all")
        await transport.put(source / "big", f"{tmp_path}/there/one")
        there = await transport.listing(f"{tmp_path}/there/all")
        for name in there.files:
            await transport.get(f"{tmp_path}/there/all/{name}", tmp_path / "back" / name)
        await transport.get(f"{tmp_path}/there/one", tmp_path / "one")
        assert await transport.read(f"{tmp_path}/nowhere") == b""
        with pytest.raises(FileNotFoundError, match="nowhere"):
            await transport.get(f"{tmp_path}/nowhere", tmp_path / "nothing")
    paths = {str(path.relative_to(tmp_path / "back")): path for path in (tmp_path / "back").rglob("*")}
    assert set(paths) == {"big", "none", "sub", "sub/run.sh"}
    assert (list(there.files), there.folders, there.left) == (["big", "none", "sub/run.sh"], ["sub", "sub/empty"], {})
    assert paths["big"].read_bytes() == (source / "big").read_bytes() == (tmp_path / "one").read_bytes()
    assert (tmp_path / "there/all/sub/run.sh").stat().st_mode & 0o7777 == 0o755
    assert paths["sub/run.sh"].stat().st_mode == paths["none"].stat().st_mode  # by the umask


@pytest.mark.asyncio
async def test_a_step_that_ends_is_told_in_sruns_words(tmp_path: Path) -> None:
    (tmp_path / "bin" / "srun").write_text("#!/bin/sh\necho 'srun: error: n1 is on fire' >&2; exit 1\n")
    with pytest.raises(HostError, match="n1: srun ended: n1 is on fire"):
        async with node():
            pass


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What comes, in capitals, once all of it has come."""
    writer.write((await reader.read()).upper())
    writer.close()


async def heard(socket_path: str, data: bytes) -> bytes:
    """What a socket answers."""
    reader, writer = await asyncio.open_unix_connection(socket_path)
    writer.write(data)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.asyncio
async def test_a_socket_of_the_node_is_reached_by_one_of_this_machine(tmp_path: Path) -> None:
    data = [bytes([97 + number]) * (2 * PIECE + number) for number in range(3)]
    async with await asyncio.start_unix_server(shout, tmp_path / "shout"), node() as transport:
        async with transport.unix_socket(f"{tmp_path}/shout") as socket_path:
            assert await asyncio.gather(*(heard(socket_path, each) for each in data)) == [each.upper() for each in data]
            assert await heard(socket_path, b"") == b""
        assert not Path(socket_path).exists()


@pytest.mark.asyncio
async def test_a_socket_that_nobody_serves_says_nothing(tmp_path: Path) -> None:
    async with node() as transport, transport.unix_socket(f"{tmp_path}/none") as socket_path:
        for _ in range(2):
            reader, writer = await asyncio.open_unix_connection(socket_path)
            assert await reader.read() == b""
            writer.close()


@pytest.mark.asyncio
async def test_who_waits_on_a_stream_is_told_when_it_is_given_up(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    async with await asyncio.start_unix_server(silent, tmp_path / "silent"), node() as transport:
        async with transport.unix_socket(f"{tmp_path}/silent") as socket_path:
            reader, writer = await asyncio.open_unix_connection(socket_path)
            await asyncio.sleep(0.2)
        assert await reader.read() == b""
        await asyncio.wait_for(gone.wait(), 5)
        writer.close()


@pytest.mark.asyncio
async def test_no_socket_leads_to_a_node_that_is_lost(tmp_path: Path) -> None:
    async with node() as transport:
        await transport.channel.close()
        with pytest.raises(HostError, match="n1: srun ended"):
            async with transport.unix_socket(f"{tmp_path}/any"):
                pass


@pytest.mark.asyncio
async def test_regular_files_are_brought(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with node(shared=False) as transport:
        await check_what_is_brought(transport, str(tmp_path / "there"), tmp_path / "here", caplog)
