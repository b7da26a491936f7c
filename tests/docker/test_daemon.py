"""A docker daemon that takes connections and says nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path

import pytest

from flagperf.docker import blocking, daemon
from flagperf.docker.daemon import DaemonError, DockerHost
from flagperf.hosts.local import LocalTransport

pytestmark = pytest.mark.asyncio


async def test_a_daemon_that_hangs_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "docker.sock")
    monkeypatch.setattr(daemon, "SOCKET", place)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(place)
        silent.listen()
        async with LocalTransport("here") as transport:
            docker = DockerHost(transport, patience=300)
            for _ in range(2):
                with pytest.raises(DaemonError) as caught:
                    await docker.call(lambda client: client.version())
                assert str(caught.value) == (
                    "here: the docker daemon does not answer\n"
                    "  do:      look into dockerd's log there; systemctl restart docker"
                )
            await docker.close()


async def test_a_call_that_blocks_holds_up_nobody() -> None:
    let_go = threading.Event()
    call = asyncio.create_task(blocking.in_thread(let_go.wait))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    let_go.set()
    assert await blocking.in_thread(time.monotonic) > 0
    with pytest.raises(ZeroDivisionError):
        await blocking.in_thread(lambda: 1 / 0)
