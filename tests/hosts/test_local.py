"""LocalTransport and the guard: what is started also ends, with all its descendants."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.transport import Completed

pytestmark = pytest.mark.asyncio

# A tree in which one process ignores SIGTERM and lives in a session of its own, as torchrun's ranks do.
DEAF_TREE = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 4711' & sleep 4712 & wait; wait"


def started() -> Iterator[tuple[psutil.Process, str]]:
    """Processes that this test started, which inherit a variable that pytest sets, and their command lines."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # ended meanwhile, or another user's
            if process.environ().get("PYTEST_CURRENT_TEST") == os.environ["PYTEST_CURRENT_TEST"]:
                yield process, " ".join(process.cmdline())


def running(marker: str) -> list[str]:
    """Command lines, of processes that this test started, that contain the marker."""
    return [line for _, line in started() if marker in line]


async def until(condition: object, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "did not come true in time"
        await asyncio.sleep(0.02)


@pytest.fixture
def here() -> LocalTransport:
    return LocalTransport("here")


@pytest.mark.parametrize(
    ("words", "env", "stdin", "expected"),
    [
        pytest.param(("cat",), {}, b"a\nb", (0, "a\nb", ""), id="input and output"),
        pytest.param(
            ("sh", "-c", "echo $A >&2; exit 3"), {"A": "x  'y"}, b"", (3, "", "x 'y\n"), id="status, variable"
        ),
        pytest.param(("printf", "%s|", "a b", "$(x)", "ü\n"), {}, b"", (0, "a b|$(x)|ü\n|", ""), id="words stay words"),
        pytest.param(("sh", "-c", "kill -KILL $$"), {}, b"", (-9, "", ""), id="signal"),
        pytest.param(
            ("nosuchprogram",), {}, b"", (127, "", "nosuchprogram: No such file or directory"), id="not there"
        ),
    ],
)
async def test_run_gives(
    here: LocalTransport, words: tuple[str, ...], env: dict[str, str], stdin: bytes, expected: tuple[int, str, str]
) -> None:
    command = Command(words, env)
    assert await here.run(command, timeout=5, stdin=stdin) == Completed(command, *expected)


async def test_run_past_its_time_is_killed(here: LocalTransport) -> None:
    with pytest.raises(HostError, match=r"^here: no answer within 0.2 s from: sleep 4713$"):
        await here.run(Command(("sleep", "4713")), timeout=0.2)
    assert running("sleep 4713") == []


@pytest.mark.parametrize(
    ("words", "status", "log"),
    [
        pytest.param(("sh", "-c", "echo out; echo err >&2; exit 3"), 3, "before\nout\nerr\n", id="exit status"),
        pytest.param(("sh", "-c", "kill -SEGV $$"), -signal.SIGSEGV, "before\n", id="signal"),
        pytest.param(("nosuchprogram",), 127, "before\nnosuchprogram: No such file or directory\n", id="not there"),
        pytest.param(("/dev/null",), 126, "before\n/dev/null: Permission denied\n", id="not a program"),
    ],
)
async def test_start_gives_status_and_log(
    here: LocalTransport, tmp_path: Path, words: tuple[str, ...], status: int, log: str
) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    process = await here.start(Command(words), log=str(path), grace=1)
    assert await process.wait() == status
    assert path.read_text() == log
    assert await process.reason() is None


async def test_orphans_that_ended_do_not_stay_as_zombies(here: LocalTransport, tmp_path: Path) -> None:
    """A training may start a short program thousands of times."""
    orphans = "for number in 1 2 3 4 5 6 7 8 9; do (sleep 0.1; exit 5) & done; sleep 0.01; kill $! 2>/dev/null"
    words = ("sh", "-c", f"(sh -c '{orphans}'); echo begun; exec sleep 4718")
    log = tmp_path / "log"
    process = await here.start(Command(words), log=str(log), grace=1)
    await until(lambda: log.read_text() == "begun\n")
    (guard,) = (process for process, line in started() if "guard.py 1 sh" in line)
    await until(lambda: [child.status() for child in guard.children()] == [psutil.STATUS_SLEEPING])
    await process.stop()
    assert await process.wait() == -signal.SIGTERM


async def test_stop_ends_the_whole_tree(here: LocalTransport, tmp_path: Path) -> None:
    process = await here.start(Command(("sh", "-c", DEAF_TREE)), log=str(tmp_path / "log"), grace=0.3)
    await until(lambda: {"sleep 4711", "sleep 4712"} <= set(running("sleep 471")))
    began = time.monotonic()
    await process.stop()  # the tree would go on for an hour
    assert time.monotonic() - began >= 0.3, "the grace was not given"
    assert running("sleep 471") == []
    await process.stop()  # may be called again


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
async def test_a_guard_that_gets_a_signal_takes_its_command_along(
    here: LocalTransport, tmp_path: Path, number: signal.Signals
) -> None:
    process = await here.start(Command(("sleep", "4717")), log=str(tmp_path / "log"), grace=1)
    await until(lambda: "sleep 4717" in running("sleep 4717"))
    (guard,) = (process for process, line in started() if "guard.py 1 sleep" in line)
    guard.send_signal(number)
    assert await process.wait() == (-signal.SIGKILL if number == signal.SIGKILL else -signal.SIGTERM)
    await until(lambda: running("sleep 4717") == [], 1.0)


async def test_what_a_command_leaves_behind_is_killed(here: LocalTransport, tmp_path: Path) -> None:
    process = await here.start(Command(("sh", "-c", "setsid sleep 4714 & exit 0")), log=str(tmp_path / "log"), grace=9)
    assert await process.wait() == 0
    assert running("sleep 4714") == []


async def test_closing_the_transport_stops_what_it_started(tmp_path: Path) -> None:
    async with LocalTransport("here") as here:
        await here.start(Command(("sleep", "4715")), log=str(tmp_path / "log"), grace=1)
        await until(lambda: running("sleep 4715"))
    assert running("sleep 4715") == []


async def test_a_killed_launcher_leaves_nothing_running(tmp_path: Path) -> None:
    script = (
        "import asyncio\n"
        "from flagperf.hosts.local import LocalTransport\n"
        "from flagperf.contract.command import Command\n"
        "async def main():\n"
        f"    log = {str(tmp_path / 'log')!r}\n"
        "    process = await LocalTransport('x').start(Command(('sleep', '4716')), log=log, grace=1)\n"
        "    await process.wait()\n"
        "asyncio.run(main())\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", script])
    await until(lambda: running("sleep 4716"))
    launcher.kill()
    launcher.wait()
    await until(lambda: not running("sleep 4716"), 1.0)


async def test_read_follows_a_growing_file(here: LocalTransport, tmp_path: Path) -> None:
    path = tmp_path / "a file"
    assert await here.read(str(path)) == b""
    path.write_bytes(b"one\ntwo")
    assert await here.read(str(path), 4) == b"two"
    assert await here.read(str(path), 7) == b""


async def test_put_and_get_copy_files_and_folders(here: LocalTransport, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_text("new")
    target = tmp_path / "not" / "there"
    await here.put(source, str(target))
    (target / "deep" / "own").write_text("stays")
    await here.get(str(source), target)
    assert (target / "deep" / "file").read_text() == "new"
    assert (target / "deep" / "own").read_text() == "stays"
    await here.put(source / "deep" / "file", str(source / "deep" / "file"))  # onto itself
    assert (source / "deep" / "file").read_text() == "new"


async def test_each_command_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level("DEBUG", "flagperf")
    async with LocalTransport("here") as here:
        await here.run(Command(("sh", "-c", ":;\nexit 3")), timeout=5)
        with pytest.raises(HostError):
            await here.run(Command(("sleep", "9")), timeout=0.1)
        await here.start(Command(("echo", "x" * 400)), log=str(tmp_path / "log"), grace=1)
    messages = [re.sub(r"after \d+\.\d{3} s", "after _ s", message) for message in caplog.messages]
    assert messages == [
        "here: exit status 3 after _ s: sh -c ':; exit 3'",
        "here: failed after _ s: sleep 9",
        f"here: started after _ s: echo {'x' * 295}",
    ]
