"""Removes a container, running or not, where nobody who made it is left to do so.

    python -I -S discard.py SOCKET NAME

Only the standard library, and no import of flagperf: the text is sent to a host. Whatever fails stays: without a daemon
there is nothing to be done, and the next run removes what it finds.
"""

from __future__ import annotations

import contextlib
import socket
import sys


def main(place: str, name: str) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect(place)
        daemon.sendall(f"DELETE /containers/{name}?force=true HTTP/1.0\r\n\r\n".encode())
        daemon.recv(1)  # it is done, or refused


if __name__ == "__main__":
    main(*sys.argv[1:])
