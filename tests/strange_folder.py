"""A log folder of a host with all that ranks may leave there, and what is brought of it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from unittest import mock

import pytest

from flagperf.contract.command import Command
from flagperf.hosts.transport import Transport
from flagperf.run import bringing
from flagperf.run.bringing import bring
from flagperf.secret import Mask

MAKE = r"""
mkdir -p "$1/logs/sub" "$1/logs/rank1.out.log" && cd "$1/logs" || exit
echo log >rank0.out.log; echo in >sub/x; echo bytes >"$(printf 'n\377')"
echo root >setuid; chmod 6777 setuid; chmod 6755 sub/x
mkdir -p "$(printf 'd/%.0s' $(seq 100))"; truncate -s 5000 huge
truncate -s 5000 rank7.out.log; echo end >>rank7.out.log
ln -s /etc/passwd abs; ln -s ../up up; ln -s sub sublink; mkfifo pipe sub/pipe; ln -s pipe rank2.out.log
"""
DEEP = ["/".join("d" * number) for number in range(1, 65)]
BROUGHT = [b"n\xff", b"rank0.out.log", b"rank1.out.log", b"rank7.out.log", b"setuid", b"sub", b"sub/x"]
LEFT = [
    "rank7.out.log has 0.0 GiB: only its first and its last 4.76837e-07 GiB are kept",
    "links, pipes and devices among the logs were left out: abs, pipe, rank2.out.log, sub/pipe, sublink …",
    f"folders below 64 others among the logs were left out: {'d/' * 30}…",
    "files of more than 9.53674e-07 GiB were left out: huge (0.0 GiB)",
]
CUT = "\nflagperf: 3980 bytes of this log were left out here\n"


async def check_what_is_brought(transport: Transport, place: str, here: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Make such a folder at a place of a host, and bring it; then once more, when it is gone."""
    made = await transport.run(Command(("sh", "-c", MAKE, "-", place)), timeout=20)
    assert made.exit_status == 0, made.stderr
    for name in ("rank1.out.log", "rank2.out.log", "pipe", "abs"):
        assert await transport.read(f"{place}/logs/{name}") == b""
    with caplog.at_level(logging.WARNING), mock.patch.object(bringing, "LARGEST", 1 << 10):
        complete = await bring(transport, f"{place}/logs", here / "logs", Mask())
    found = sorted(os.path.relpath(path, here / "logs") for path in (here / "logs").rglob("*"))
    assert sorted(map(os.fsencode, set(found) - set(DEEP))) == BROUGHT
    assert (complete, set(DEEP) <= set(found)) == (False, True)
    assert (here / "logs/rank7.out.log").read_text() == "\0" * 512 + CUT + "\0" * 508 + "end\n"
    assert (here / "logs/sub/x").read_text() == "in\n"
    plain = here / "plain"
    plain.touch()  # with the permissions of the umask
    modes = {path.stat().st_mode for path in (plain, *(here / "logs").rglob("*")) if path.is_file()}
    assert modes == {plain.stat().st_mode}
    assert sorted(caplog.messages) == sorted(f"{transport.host}: {text}" for text in LEFT)
    caplog.clear()
    await bring(transport, f"{place}/gone", here / "gone", Mask())
    assert caplog.messages == [
        f"{transport.host}: {place}/gone does not exist any more; flagperf collects nothing from it"
    ]
