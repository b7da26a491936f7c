"""Removes a container after the death of the launcher that made the container.

    python -I -S discard.py SOCKET NAME

This text is sent to a host. So it uses the standard library only, and imports nothing of flagperf. Failures are
ignored: the next run removes the container.
"""

from __future__ import annotations

import contextlib
import socket
import sys


def main(path: str, name: str) -> None:
    """Ask the daemon behind a unix socket to remove a container, running or not."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect(path)
        daemon.sendall(f"DELETE /containers/{name}?force=true HTTP/1.0\r\n\r\n".encode())
        daemon.recv(1)  # the daemon has removed the container, or has refused


if __name__ == "__main__":
    main(*sys.argv[1:])
