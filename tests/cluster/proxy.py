"""A proxy for http and https: hosts of a test cluster reach package indexes through it, and nothing else."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit


class Proxy(BaseHTTPRequestHandler):
    """Connects a client with the server that its request names."""

    def do_CONNECT(self) -> None:
        """For https: bytes in both directions."""
        name, _, port = self.path.partition(":")
        with socket.create_connection((name, int(port))) as server:
            self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = Thread(target=_forward, args=(server, self.connection))
            back.start()
            _forward(self.connection, server)
            back.join()

    def do_GET(self) -> None:
        """For http: one request a connection."""
        url = urlsplit(self.path)
        del self.headers["Connection"]
        self.headers["Connection"] = "close"
        with socket.create_connection((url.hostname, url.port or 80)) as server:
            server.sendall(f"GET {url.path} HTTP/1.1\r\n{self.headers}".encode())
            _forward(server, self.connection)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _forward(source: socket.socket, target: socket.socket) -> None:
    """Send on all that comes, until one of both ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxy(address: str) -> Iterator[str]:
    """The URL of a proxy at this address, meanwhile."""
    with ThreadingHTTPServer((address, 0), Proxy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{address}:{server.server_port}"
        server.shutdown()
