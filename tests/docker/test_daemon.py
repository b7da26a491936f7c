"""A docker daemon that takes connections and says nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from flagperf.docker import blocking
from flagperf.docker.daemon import ENDPOINT, DaemonError, DockerHost
from flagperf.hosts.local import LocalTransport

pytestmark = pytest.mark.asyncio


async def test_a_daemon_that_hangs_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "docker.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        async with LocalTransport("here") as transport:
            docker = DockerHost(transport, patience=300)
            for _ in range(2):
                with pytest.raises(DaemonError) as caught:
                    await docker.call(lambda client: client.version())
                assert str(caught.value) == (
                    "here: the docker daemon does not answer\n"
                    "  do:      read dockerd's log there; systemctl restart docker"
                )
            await docker.close()


async def test_a_daemon_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    async with LocalTransport("here") as transport:
        with pytest.raises(DaemonError) as caught:
            await DockerHost(transport).call(lambda client: client.version())
    assert str(caught.value) == (
        "here: docker uses tcp://10.0.0.1:2375 there, but flagperf needs a unix socket on the host\n"
        "  do:      set DOCKER_HOST=unix:///var/run/docker.sock there, or unset it"
    )


CONTEXT = '#!/bin/sh\n[ "$*" = "context inspect -f {{.Endpoints.docker.Host}}" ] && echo unix:///of/context\n'


@pytest.mark.parametrize(
    ("variables", "files", "endpoint"),
    [
        pytest.param({"DOCKER_HOST": "unix:///a"}, ["docker.sock", "usual"], "unix:///a", id="DOCKER_HOST"),
        pytest.param({"DOCKER_CONTEXT": "lab"}, ["docker.sock", "usual"], "unix:///of/context", id="DOCKER_CONTEXT"),
        pytest.param({}, ["config.json", "usual"], "unix:///of/context", id="a context in use"),
        pytest.param({}, ["docker.sock", "usual"], "unix://{0}/usual", id="the usual socket"),
        pytest.param({}, ["docker.sock"], "unix://{0}/docker.sock", id="rootless"),
        pytest.param({}, [], "unix://{0}/usual", id="none"),
    ],
)
async def test_the_socket_that_docker_commands_use(
    tmp_path: Path, variables: dict[str, str], files: list[str], endpoint: str
) -> None:
    (tmp_path / "docker").write_text(CONTEXT)
    (tmp_path / "docker").chmod(0o755)
    for name in files:
        if name == "config.json":
            (tmp_path / name).write_text('{"currentContext": "lab"}')
        else:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(tmp_path / name))
    places = dict.fromkeys(("XDG_RUNTIME_DIR", "DOCKER_CONFIG", "HOME"), str(tmp_path))
    environment = {"PATH": f"{tmp_path}:{os.defpath}", **places, **variables}
    argv = [*ENDPOINT.argv[:-1], str(tmp_path / "usual")]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == endpoint.format(tmp_path) + "\n"


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
