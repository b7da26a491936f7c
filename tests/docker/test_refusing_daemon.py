"""What doctor, clean and a run say where the docker daemon answers, but refuses a request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from flagperf.cli.clean import clean
from flagperf.cli.doctor.docker import DockerChecks
from flagperf.config.compose import compose
from flagperf.config.schema.values import JobConfig
from flagperf.docker.daemon import NOT_DOCKERS, DockerHost
from flagperf.docker.image_supply import image_layers
from flagperf.docker.process import DockerProcess
from flagperf.errors import HostError
from flagperf.hosts.findings import Row
from flagperf.hosts.local import LocalTransport
from flagperf.plan.container import sdk_arguments
from flagperf.plan.plan import make_plan
from flagperf.run.runtime import make_runtimes

VERSION = {"Version": "29.0.0", "ApiVersion": "1.52", "MinAPIVersion": "1.44", "Os": "linux", "Arch": "amd64"}


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    answers: dict[str, tuple[int, str]]  # part of a path → status and body


class Daemon(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def answer(self) -> None:
        usual = {"/_ping": (200, "OK"), "/version": (200, json.dumps(VERSION)), "/containers/json": (200, "[]")}
        answers = {**self.server.answers, **usual, **self.server.answers}
        path = self.path.partition("?")[0]
        status, body = next((answer for part, answer in answers.items() if part in path), (404, '{"message":"none"}'))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = do_DELETE = do_HEAD = answer

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return ""


@contextlib.contextmanager
def daemon(path: Path, answers: dict[str, tuple[int, str]]) -> Iterator[None]:
    with Server(str(path), Daemon) as server:
        server.answers = answers
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobConfig:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    return compose(["model=resnet50", "size=tiny", "runtime=docker", f"result_dir={tmp_path}"])


DAMAGED = (500, '{"message":"layer does not exist"}')
FORBIDDEN = (403, "Request forbidden by administrative rules.")


@pytest.mark.parametrize(
    ("answer", "explanation", "advice"),
    [
        pytest.param(DAMAGED, "layer does not exist", "read dockerd's log there", id="a fault of the daemon"),
        pytest.param(FORBIDDEN, FORBIDDEN[1], "ask who restricts docker there", id="a proxy forbids it"),
    ],
)
def test_a_refused_request_is_a_row(
    job: JobConfig, tmp_path: Path, answer: tuple[int, str], explanation: str, advice: str
) -> None:
    image = job.image
    assert image is not None
    (node,) = job.cluster.nodes

    async def rows() -> list[Row]:
        async def none() -> dict[str, object]:
            return {}

        async with LocalTransport("here") as transport:
            return await DockerChecks(job, node, transport, none).rows()  # type: ignore[arg-type]

    refused = f"docker refuses a request: {explanation}"
    with daemon(tmp_path / "docker.sock", {"/images/": answer}):
        docker, shown, python, left = asyncio.run(rows())
    remove = f"remove it there (docker rmi -f {image.reference}); if docker refuses this too, {advice}"
    problem = f"docker refuses to show image {image.reference}: {explanation}"
    assert (docker.state, docker.text) == ("ok", "version 29.0.0")
    assert (shown.state, shown.text, shown.advice) == ("failed", problem, remove)
    assert (python.state, left.state) == ("skipped", "ok")
    (tmp_path / "docker.sock").unlink()
    with daemon(tmp_path / "docker.sock", {"/containers/json": answer}):
        *_, left = asyncio.run(rows())
        (cleaned,) = asyncio.run(clean(job))
    assert (left.state, left.text, left.advice) == ("failed", refused, advice)
    without = f"flagperf did not search for containers: {refused}"
    assert (cleaned.state, cleaned.text, cleaned.advice) == ("warning", without, advice)
    (tmp_path / "docker.sock").unlink()
    with daemon(tmp_path / "docker.sock", {"/v1.52/version": answer}):
        docker, *_ = asyncio.run(rows())
    assert (docker.state, docker.text, docker.advice) == ("failed", refused, advice)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        pytest.param({"/images/": DAMAGED}, "docker refuses to show image {image}: layer does not exist", id="image"),
        pytest.param({"/images/": (200, "<html>")}, NOT_DOCKERS, id="html"),
        pytest.param({"/images/": (403, '{"error": 1}')}, NOT_DOCKERS, id="{}"),
        pytest.param({"/containers/json": DAMAGED}, "docker refuses the container: layer does not exist", id="list"),
        pytest.param({"/create": (400, '{"message":"invalid reference format"}')}, "docker refuses the container: "
                     "invalid reference format", id="create"),
        pytest.param({"/wait": (404, "none"), "/json": FORBIDDEN}, "the docker daemon tells nothing about the "
                     f"container: {FORBIDDEN[1]}", id="reason"),
    ],
)  # fmt: skip
def test_a_refused_request_of_a_run_is_an_error_of_the_host(
    job: JobConfig, tmp_path: Path, answers: dict[str, tuple[int, str]], message: str
) -> None:
    assert job.image is not None
    plan = make_plan(job, 1, tmp_path)
    container = plan.nodes[0].container
    assert container is not None

    async def body() -> None:
        async with LocalTransport("here") as transport:
            (runtime,) = make_runtimes(job, plan, range(1), [transport])
            async with DockerHost(transport) as docker:
                if "/images/" in answers:
                    await image_layers(docker, job.image.reference)  # type: ignore[union-attr]
                elif "/wait" in answers:
                    process = DockerProcess(docker, container, None, 1.0)  # type: ignore[arg-type]
                    assert await process.wait() is None
                    await process.reason()
                elif "/create" in answers:
                    await runtime._ask(lambda client: client.containers.create(**sdk_arguments(container)))  # type: ignore[attr-defined]
                else:
                    await runtime.check()

    with daemon(tmp_path / "docker.sock", answers), pytest.raises(HostError) as caught:
        asyncio.run(body())
    assert caught.value.problem.startswith(message.format(image=job.image.reference))


def test_a_cancelled_call_leaves_the_others_their_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, while a call asks whether the daemon still answers: calls that clean up go on with the same client."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")

    async def clients() -> list[object]:
        async with LocalTransport("here") as transport, DockerHost(transport) as docker:
            before = await docker.call(lambda client: client)
            call = asyncio.create_task(docker.call(lambda client: client))
            await asyncio.sleep(0)  # it asks now
            call.cancel()
            answers = await asyncio.gather(call, docker.call(lambda client: client), return_exceptions=True)
            return [before, *answers]

    with daemon(tmp_path / "docker.sock", {}):
        before, cancelled, after = asyncio.run(clients())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert after is before
