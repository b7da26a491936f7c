"""The script, run for real, and what is read from it."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

import psutil
import pytest

from flagperf.config.schema.platform import MonitorTool
from flagperf.errors import HostError
from flagperf.hosts.facts import PORTS, TOOL_OUTPUT, Facts, add_tool, read_facts, sys_info
from flagperf.hosts.local import LocalTransport


@pytest.mark.asyncio
async def test_the_script_agrees_with_what_python_sees(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"card{number}").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        facts = await read_facts(LocalTransport("here"), str(tmp_path / "not/yet there"), f"{tmp_path}/card[0-9]")
        port = server.getsockname()[1]
    assert facts.fields["host"] == platform.node()
    assert facts.fields["kernel"] == f"{platform.system()} {platform.release()} {platform.machine()}"
    assert facts.number("cores") == os.cpu_count()
    assert facts.number("memory_kib") == psutil.virtual_memory().total // 1024
    assert facts.number("disk_free_kib") == pytest.approx(psutil.disk_usage(str(tmp_path)).free / 1024, rel=0.05)
    assert facts.number("inodes_free") == pytest.approx(os.statvfs(tmp_path).f_favail, rel=0.05)
    assert facts.devices == 3
    here = tmp_path.stat()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.folder == f"host {boot} {here.st_dev}:{here.st_ino}"
    space = Path("/proc/self/ns/mnt").stat()
    assert facts.system == f"{boot} {space.st_dev}:{space.st_ino}"
    assert port in facts.listening
    assert "listening" in facts.fields and "listening" not in sys_info(facts.fields)
    assert facts.interface("127.0.0.1") in ("lo", None)  # None: no `ip` on this machine
    if socket.has_ipv6 and Path("/proc/net/if_inet6").read_text() and facts.fields["addresses"]:
        assert facts.interface("0::1") == "lo"


@pytest.mark.asyncio
async def test_no_device_files(tmp_path: Path) -> None:
    assert (await read_facts(LocalTransport("here"), str(tmp_path), f"{tmp_path}/card*")).devices == 0
    assert (await read_facts(LocalTransport("here"), str(tmp_path))).devices == 0


def test_reading() -> None:
    facts = Facts(
        {
            "cores": "8",
            "shm_kib": "",
            "listening": "1F90 0050",
            "addresses": "lo=127.0.0.1 eth0=10.0.0.1 eth1=fd00::a eth1=fe80::1",
            "devices": "",
        }
    )
    assert facts.number("cores") == 8
    assert facts.number("shm_kib") is None
    assert facts.listening == {8080, 80}
    assert facts.interface("10.0.0.1") == "eth0"
    assert [facts.interface(address) for address in ("fd00:0::A", "fe80::1%eth1", "h1", "fd00::b")] == [
        "eth1",
        "eth1",
        None,
        None,
    ]
    assert facts.interface("10.0.0.2") is None
    assert sys_info({**facts.fields, "driver": ""}) == (
        "cores: 8\nshm_kib: unknown\naddresses: lo=127.0.0.1 eth0=10.0.0.1 eth1=fd00::a eth1=fe80::1\n"
        "devices: none\ndriver: unknown\n"
    )


def test_free_port_is_one_that_nobody_listens_on() -> None:
    taken = " ".join(f"{port:04X}" for port in PORTS if port != 23456)
    assert Facts({"listening": taken}).free_port() == 23456


def test_all_ports_are_taken() -> None:
    facts = Facts({"host": "h1", "listening": " ".join(f"{port:04X}" for port in PORTS)})
    with pytest.raises(HostError) as caught:
        facts.free_port()
    assert str(caught.value) == (
        "h1: no TCP port from 20000 to 32767 is free for the ranks\n  do:      give one: cluster.rendezvous.port"
    )


@pytest.mark.asyncio
async def test_a_relative_folder_that_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    facts = await read_facts(LocalTransport("here"), "result/of a run")
    assert facts.number("disk_free_kib") == pytest.approx(psutil.disk_usage(str(tmp_path)).free / 1024, rel=0.05)


DEAF = "sleep 1010"  # once SIGTERM is ignored


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("words", "section"),
    [
        pytest.param(("printf", "A1 31C\nA1 32C\n\n"), "    A1 31C\n    A1 32C\n", id="prints"),
        pytest.param(("sh", "-c", "echo no driver >&2; exit 9"), "    no driver\n", id="fails"),
        pytest.param(("sleep", "1009"), "    no answer within 0.5 s\n", id="hangs"),
        pytest.param(
            ("sh", "-c", f"(trap '' TERM; {DEAF}) & wait"), "    no answer within 0.5 s\n", id="leaves another"
        ),
        pytest.param(("printf", "\\033]0;owned\\007\\n"), "    \\x1b]0;owned\\x07\n", id="steers the terminal"),
        pytest.param(("yes",), "    y\n" * (TOOL_OUTPUT // 2), id="never ends"),
    ],
)
async def test_what_a_tool_prints_is_kept(tmp_path: Path, words: tuple[str, ...], section: str) -> None:
    log = tmp_path / "sys_info.log"
    log.write_text("os: any\n")
    await add_tool(log, LocalTransport("here"), MonitorTool(words, "x", timeout=0.5))
    assert log.read_text() == f"os: any\n\naccelerators, by the vendor's tool:\n{section}"
    assert DEAF not in [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
