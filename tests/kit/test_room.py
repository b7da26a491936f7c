"""`flagperf pack`, and a room without internet: a network namespace without routes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REMOTE = re.compile(r"connect\(\d+, \{sa_family=AF_INET6?,(?!.*(127\.0\.0\.1|\"::1\"))")
# A question to a name server, as strace prints it: two bytes of any value, then one question and no answer.
QUERY = re.compile(r'(?:sendto\(\d+, |iov_base=)"(?:\\\d{1,3}|\\?.){2}\\1\\0\\0\\1(?:\\0){6}(.+?)"')
# PyTorch's store asks for the name of 127.0.0.1, for a message in its log.
NAME_OF_THIS_MACHINE = r"\0011\0010\0010\003127\7in-addr\4arpa\0\0\f\0\1"
IN_ROOM = """\
set -e
ip link set lo up
mkdir -p home empty
printf '127.0.0.1 localhost %s\\n' "$(uname -n)" > hosts  # torchrun looks up the host's own name
mount --bind hosts /etc/hosts
echo nameserver 127.0.0.1 > resolv.conf  # nobody answers there, and strace shows the questions
mount --bind resolv.conf /etc/resolv.conf
record() { strace -f -qq -s 100 -e trace=connect,sendto,sendmsg,sendmmsg -o "$@"; }
record lookup.trace getent hosts pypi.org || true
export HOME="$PWD/home"
tar -xf kit.tar.zst
record install.trace sh flagperf-kit/install.sh env
cd empty
record ../run.trace ../env/bin/flagperf "$@"
"""


@pytest.mark.slow
@pytest.mark.pip
@pytest.mark.torch
@pytest.mark.timeout(900)
def test_a_room_without_internet(tmp_path: Path) -> None:
    """The same inputs give the same kit. It installs and trains, and no process asks for a connection.

    The room has PyTorch, as rooms of a vendor have: that of these tests.
    """
    flagperf = Path(sys.executable).with_name("flagperf")
    words = ["model=resnet50", "vendor=cpu", "nproc=2", f"runtime.python={sys.executable}"]
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        subprocess.run([flagperf, "pack", *words, "into=kit.tar.zst"], cwd=tmp_path / folder, check=True)
    kits = [tmp_path / folder / "kit.tar.zst" for folder in ("first", "second")]
    assert kits[0].read_bytes() == kits[1].read_bytes()
    room = kits[0].parent
    argv = ["unshare", "--map-root-user", "--net", "--mount", "sh", "-c", IN_ROOM, "room", *words]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(argv, cwd=room, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"\n  {room}/env/bin/flagperf {' '.join(words)}\n" in done.stdout
    assert re.search(r"^verdict +VALID", done.stdout, re.MULTILINE), done.stdout
    assert any("pypi" in name for name in QUERY.findall((room / "lookup.trace").read_text()))  # questions are seen
    asked = (room / "install.trace").read_text() + (room / "run.trace").read_text()
    assert "connect(" in asked  # the ranks meet on this machine
    assert [line for line in asked.splitlines() if REMOTE.search(line)] == []
    assert set(QUERY.findall(asked)) <= {NAME_OF_THIS_MACHINE}
