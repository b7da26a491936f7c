"""A log folder of a host with all that ranks may leave there, and what is brought of it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from flagperf.contract.command import Command
from flagperf.hosts.transport import Transport
from flagperf.run.collecting import bring
from flagperf.secret import Mask

MAKE = r"""
mkdir -p "$1/logs/sub" "$1/logs/rank1.out.log" && cd "$1/logs" || exit
echo log >rank0.out.log; echo in >sub/x; echo bytes >"$(printf 'n\377')"
echo root >setuid; chmod 6777 setuid; chmod 6755 sub/x
ln -s /etc/passwd abs; ln -s ../up up; ln -s sub sublink; mkfifo pipe sub/pipe; ln -s pipe rank2.out.log
"""
BROUGHT = [b"n\xff", b"rank0.out.log", b"rank1.out.log", b"setuid", b"sub", b"sub/x"]
LEFT = "links, pipes and devices among the logs were left out: abs, pipe, rank2.out.log, sub/pipe, sublink …"


async def check_what_is_brought(transport: Transport, place: str, here: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Make such a folder at a place of a host, and bring it; then once more, when it is gone."""
    made = await transport.run(Command(("sh", "-c", MAKE, "-", place)), timeout=20)
    assert made.exit_status == 0, made.stderr
    for name in ("rank1.out.log", "rank2.out.log", "pipe", "abs"):
        assert await transport.read(f"{place}/logs/{name}") == b""
    with caplog.at_level(logging.WARNING):
        await bring(transport, f"{place}/logs", here / "logs", Mask())
    found = sorted(os.path.relpath(path, here / "logs") for path in (here / "logs").rglob("*"))
    assert sorted(map(os.fsencode, found)) == BROUGHT
    assert (here / "logs/sub/x").read_text() == "in\n"
    plain = here / "plain"
    plain.touch()  # with the permissions of the umask
    modes = {path.stat().st_mode for path in (plain, *(here / "logs").rglob("*")) if path.is_file()}
    assert modes == {plain.stat().st_mode}
    assert caplog.messages == [f"{transport.host}: {LEFT}"]
    caplog.clear()
    await bring(transport, f"{place}/gone", here / "gone", Mask())
    assert caplog.messages == [
        f"{transport.host}: {place}/gone does not exist any more; flagperf collects nothing from it"
    ]
