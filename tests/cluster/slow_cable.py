"""A cable of the test cluster that delays each frame, where the kernel has no netem: a process forwards the frames.

    python tests/cluster/slow_cable.py NAMESPACE FIRST SECOND SECONDS

forwards between two interfaces of a network namespace.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosts import Host, TestCluster

ALL_FRAMES, OUTGOING = 3, 4  # ETH_P_ALL, PACKET_OUTGOING
OFFLOADS = (0x17, 0x1F, 0x24)  # ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO: frames leave the host as on a wire
ETHTOOL = 0x8946


def forward(names: tuple[str, str], delay: float) -> None:
    """Give each frame that comes to one interface to the other one, later."""
    sockets = {name: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES)) for name in names}
    for name, each in sockets.items():
        each.bind((name, 0))
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**24)
    other = {sockets[names[0]]: sockets[names[1]], sockets[names[1]]: sockets[names[0]]}
    waiting: list[tuple[float, int, bytes, socket.socket]] = []
    number = 0
    print("forwarding", flush=True)
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for ready in select.select(list(other), [], [], pause)[0]:
            frame, address = ready.recvfrom(65536)
            if address[2] != OUTGOING:
                number += 1
                heapq.heappush(waiting, (time.monotonic() + delay, number, frame, other[ready]))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, frame, to = heapq.heappop(waiting)
            to.send(frame)


def without_offloads(name: str) -> None:
    """Let the kernel make whole frames with checksums for an interface of this namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            fcntl.ioctl(control, ETHTOOL, struct.pack("16sP", name.encode(), ctypes.addressof(value)))


@contextmanager
def slow_cable(cluster: TestCluster, host: Host, delay: float) -> Iterator[None]:
    """The cable of a host delays each frame, in both directions, by these seconds."""
    bridge, inner, outer = cluster.bridge, "slow0", "slow1"

    def ip(*words: str) -> None:
        subprocess.run(["ip", "-n", bridge, *words], check=True)

    ip("link", "add", inner, "type", "veth", "peer", "name", outer)
    try:
        ip("link", "set", host.name, "nomaster")
        ip("link", "set", outer, "master", "br0")
        for name in (inner, outer):
            ip("link", "set", name, "up")
        for each in cluster.hosts:
            each.output(sys.executable, __file__, "eth0")
        without_offloads(cluster.bridge)  # of the machine itself
        command = ["ip", "netns", "exec", bridge, sys.executable, __file__, host.name, inner, str(delay)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                yield
            finally:
                process.kill()
    finally:
        ip("link", "del", inner)
        ip("link", "set", host.name, "master", "br0")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        without_offloads(sys.argv[1])
    else:
        forward((sys.argv[1], sys.argv[2]), float(sys.argv[3]))
