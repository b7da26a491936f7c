"""What is refused before anything starts on a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example import example_job

from flagperf.config.parts.data_layout import sample_folder
from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.platform import ContainerOptions, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, FlagperfError
from flagperf.hosts.facts import Facts
from flagperf.hosts.local import LocalTransport
from flagperf.run.preflight import (
    ONE_FOLDER,
    ONE_HOST,
    check_apart,
    check_data,
    check_devices,
    check_ranks,
    check_room,
    shared_cores,
)

ACME = Vendor("acme", "Acme chips", "acme", "accl", None, "ACME_VISIBLE", device_files="/dev/acme[0-9]*")
ON_ACME = example_job(vendor=ACME)
UNCOUNTED = example_job(vendor=replace(ACME, device_files=None))
ELSEWHERE = replace(ON_ACME, cluster=Cluster("lab", "a host", (Node("alpha", "10.0.0.1"),)))
NONE = "host: has no device of Acme chips (/dev/acme[0-9]*)\n"
NONE += "  do:      install the vendor's driver, or choose another vendor or cluster"
FEW = "more ranks than devices\n  where:   host host\n  key:     nproc\n  given:   2\n  allowed: {}"


def seen(visible: str, number: int) -> str:
    """The refusal where the variable names so many of two devices."""
    allowed = "1 to 1" if number else "none"
    return f"{FEW.format(allowed)}\n  do:      ACME_VISIBLE={visible} names {number} of 2 devices"


@pytest.mark.parametrize(
    ("job", "devices", "visible", "message"),
    [
        pytest.param(example_job(), "", None, None, id="a vendor whose devices are not counted"),
        pytest.param(ON_ACME, "/dev/acme0 /dev/acme1", None, None, id="enough"),
        pytest.param(ON_ACME, "", None, NONE, id="none"),
        pytest.param(ON_ACME, "/dev/acme0", None, FEW.format("1 to 1"), id="too few"),
        *(
            pytest.param(ON_ACME, "/dev/acme0 /dev/acme1", visible, seen(visible, number), id=f"visible: {visible!r}")
            for visible, number in {"1": 1, "": 0, "-1": 0, "NoDevFiles": 0, "1,-1,0": 1, "0,": 1}.items()
        ),
        pytest.param(UNCOUNTED, "", "0,1", None, id="devices without files of their own"),
        pytest.param(UNCOUNTED, "", "0", seen("0", 1).replace(" of 2", ""), id="of these, too few are visible"),
        pytest.param(ON_ACME, "/dev/acme0 /dev/acme1 /dev/acme2", "0,2", None, id="enough are visible"),
        pytest.param(ELSEWHERE, "/dev/acme0 /dev/acme1", "1", None, id="the launcher's variable is not another host's"),
    ],
)
def test_devices(
    monkeypatch: pytest.MonkeyPatch, job: JobConfig, devices: str, visible: str | None, message: str | None
) -> None:
    if visible is not None:
        monkeypatch.setenv("ACME_VISIBLE", visible)
    refused = None
    try:
        check_devices(job, "host", Facts({"devices": devices}))
    except FlagperfError as error:
        refused = str(error)
    assert refused == message


FOLDER = "two nodes have one work_dir\n  where:   hosts a and c\n  key:     cluster.work_dir\n"
FOLDER += f"  given:   /srv/flagperf\n  do:      {ONE_FOLDER}"
HOST = f"two nodes are one host\n  where:   hosts a and c\n  key:     cluster.nodes\n  do:      {ONE_HOST}"
A, B, C = Node("a", "10.0.0.1"), Node("b", "10.0.0.2"), Node("c", "10.0.0.3")


def is_at(node: Node, folder: str = "", system: str = "") -> tuple[Node, Facts]:
    return node, Facts({"folder": folder, "system": system})


def here(node: Node, **how: bool) -> tuple[Node, Facts]:
    return is_at(replace(node, **how), "host 1 8:2", "boot1 0:4")


APART: dict[str, tuple[tuple[tuple[Node, Facts], ...], str | None]] = {
    "three folders": ((is_at(A, "host 1 8:2"), is_at(B, "host 1 8:3"), is_at(C, "host 2 8:2")), None),
    "unknown": ((is_at(A), is_at(B), is_at(C)), None),
    "three systems": ((is_at(A, "", "1 0:4"), is_at(B, "", "2 0:4"), is_at(C, "", "1 0:5")), None),
    "one host": ((is_at(A, "host 1 8:2", "1 0:4"), is_at(B), is_at(C, "host 1 8:3", "1 0:4")), HOST),
    "one host, with shared files": ((here(A, shared=True), here(C, shared=True)), HOST),
    "this machine, by ssh too": ((here(A, local=True), here(C)), HOST),
    "this machine, by ssh too, with shared files": ((here(A, local=True), here(C, shared=True)), HOST),
    "this machine twice, as the file says": ((here(A, local=True), here(C, local=True)), None),
    "two containers with one folder": ((is_at(A, "host 1 8:2", "1 0:4"), is_at(C, "host 1 8:2", "1 0:5")), FOLDER),
    "a network folder": ((is_at(A, "network nas:/x 7"), is_at(B), is_at(C, "network nas:/x 7")), FOLDER),
    "a network folder with the launcher's files": (
        (is_at(replace(A, shared=True), "network nas:/x 7"), is_at(replace(C, shared=True), "network nas:/x 7")),
        None,
    ),
}


@pytest.mark.parametrize(("hosts", "message"), APART.values(), ids=APART.keys())
def test_two_nodes_on_one_host_or_in_one_folder(hosts: tuple[tuple[Node, Facts], ...], message: str | None) -> None:
    job, refused = replace(ON_ACME, cluster=Cluster("lab", "hosts", (), work_dir="/srv/flagperf")), None
    try:
        check_apart(job, hosts)
    except ConfigError as error:
        refused = str(error)
    assert refused == message


@pytest.mark.parametrize(("cores", "warning"), [("2", None), ("1", "2 ranks share 1 cores"), ("", None)])
def test_more_ranks_than_cores_are_warned_of(cores: str, warning: str | None) -> None:
    assert shared_cores(example_job(), Facts({"cores": cores})) == warning
    assert shared_cores(ON_ACME, Facts({"cores": cores})) is None


GIB = 1024**2  # KiB
MANY = {"cores": "64", "memory_available_kib": str(512 * GIB)}
BY_MEMORY = "each with 0.62 of the {} GiB that are available"


@pytest.mark.parametrize(
    ("fields", "facts", "allowed"),
    [
        pytest.param({"nproc": 4}, {"cores": "2", "memory_available_kib": str(3 * GIB)}, None, id="more than cores"),
        pytest.param({"nproc": 1000}, {}, None, id="nothing is known of the host"),
        pytest.param({"nproc": 1000}, MANY, "at most 512, 8 on each of 64 cores", id="cores"),
        pytest.param({"nproc": 1000, "oversubscribe": True}, MANY, None, id="the user knows better"),
        pytest.param(
            {"nproc": 1000},
            MANY | {"memory_available_kib": str(24 * GIB)},
            f"at most 38, {BY_MEMORY.format(24)}",
            id="memory",
        ),
        pytest.param(
            {"nproc": 8, "config": {"fingerprint": {"network": {"parameters": 86_567_656}}}},
            {"cores": "8", "memory_available_kib": str(15 * GIB)},
            "at most 7, each with 1.9 of the 15 GiB that are available",
            id="a large network",
        ),
        pytest.param(
            {"nproc": 8, "container": ContainerOptions(memory="4g")},
            MANY,
            f"at most 6, {BY_MEMORY.format(4)}",
            id="a container with less",
        ),
        pytest.param({"nproc": 16, "vendor": ACME}, MANY | {"cores": "1"}, None, id="cores do not limit accelerators"),
    ],
)
def test_ranks_that_would_take_the_host_down(
    fields: dict[str, Any], facts: dict[str, str], allowed: str | None
) -> None:
    refused = None
    try:
        check_ranks(example_job(**fields), "h1", Facts(facts))
    except ConfigError as error:
        refused = str(error)
    assert refused == (
        allowed
        and "more ranks than the host can hold\n  where:   host h1\n  key:     nproc\n"
        f"  given:   {fields['nproc']}\n  allowed: {allowed}\n"
        "  do:      choose a smaller nproc, or oversubscribe=true if you want more ranks"
    )


def test_room() -> None:
    check_room("host", "/res", Facts({"disk_free_kib": "100000"}))
    check_room("host", "/res", Facts({}))
    with pytest.raises(FlagperfError) as caught:
        check_room("host", "/res", Facts({"disk_free_kib": "2048"}))
    assert str(caught.value) == (
        "host: 2 MiB are free in /res, logs need 64 MiB\n"
        "  do:      free some space, or choose another result_dir or work_dir"
    )
    assert caught.value.exit_code == 3
    with pytest.raises(FlagperfError) as caught:
        check_room("host", "/res", Facts({"disk_free_kib": "100000", "inodes_free": "3"}))
    assert str(caught.value) == (
        "host: 3 inodes are free on the disk of /res, logs need 256\n"
        "  do:      remove files there, or choose another result_dir or work_dir"
    )


class OtherHost(LocalTransport):
    """This machine, looked at as if it were another."""

    local = False


TREE = "digits, laid out as\n    <data_dir>/*.png"


@pytest.mark.asyncio
@pytest.mark.parametrize("transport", [LocalTransport("here"), OtherHost("there")], ids=["here", "there"])
@pytest.mark.parametrize(
    ("folder", "files", "pattern", "problem"),
    [
        pytest.param("a folder", "1.png 2.png", "*.png", None, id="enough"),
        pytest.param("a folder", "1.png 2.jpg", "*.png", "has 1 of at least 2 entries that match *.png", id="too few"),
        pytest.param("a folder", "1.jpg", "*.png", "has 0 of at least 2 entries that match *.png", id="none"),
        pytest.param("a folder/", "1.png 2.png", "*.png", None, id="slash at the end"),
        pytest.param("[x]*?", "1.png 2.png", "*.png", None, id="a folder whose name looks like a pattern"),
        pytest.param("-name", "a\nb.png", "*.png", "has 1 of at least 2 entries that match *.png", id="new line"),
        pytest.param("a", "[b]/1 [b]/2 b/1", "[[]b]/*", None, id="escaped bracket"),
        pytest.param("a", "b/1 b/2", "[[]b]/*", "has 0 of at least 2 entries that match [[]b]/*", id="only that"),
        pytest.param("a", "b\\c/1 b\\c/2", "b\\c/*", None, id="backslash"),
        pytest.param("a", "b/1 b/c/2", "b/*", None, id="folders count"),
        pytest.param("a", "b/c/1 b/d/2", "*1", "has 0 of at least 2 entries that match *1", id="a star has no slash"),
        pytest.param("a", "b/.c b/d", "b/*", None, id="hidden files count"),
        pytest.param("a", "", "*", "does not exist", id="missing"),
        pytest.param("a", "b", "*", "is not a folder", id="a file"),
    ],
)
async def test_data(
    tmp_path: Path, transport: LocalTransport, folder: str, files: str, pattern: str, problem: str | None
) -> None:
    data = {"name": "digits", "tree": "<data_dir>/*.png", "require": {pattern: 2}}
    data_dir = f"{tmp_path}/{folder}"
    for path in (Path(data_dir, name) for name in files.split(" ") if name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    if problem == "is not a folder":
        data_dir += "/b"
    refused = None
    try:
        await check_data(example_job(config={"data": data}), transport, data_dir)
    except ConfigError as error:
        refused = error
    assert (refused and refused.problem) == (problem and f"data_dir {problem}")
    if refused:
        assert (refused.key, str(refused.given), refused.allowed) == ("data_dir", data_dir.rstrip("/"), TREE)


@pytest.mark.asyncio
async def test_data_in_a_link_and_what_find_says(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "1.png").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train").symlink_to(tmp_path / "real")
    job = example_job(config={"data": {"require": {"train/*": 1}}})
    await check_data(job, OtherHost("there"), str(tmp_path / "data"))
    (tmp_path / "real").rename(tmp_path / "moved")
    with pytest.raises(ConfigError) as caught:
        await check_data(job, OtherHost("there"), str(tmp_path / "data"))
    assert str(caught.value) == (
        "data_dir has 0 of at least 1 entries that match train/*\n"
        f"  where:   host there\n  key:     data_dir\n  given:   {tmp_path}/data"
    )


@pytest.mark.asyncio
async def test_sample_data_is_not_checked(tmp_path: Path) -> None:
    sample = {"_target_": "cases.sums"}
    folder = str(sample_folder(str(tmp_path), "sums", sample))
    job = example_job(
        config={"data": {"require": {"*.png": 2}, "sample": sample}, "sample_dir": str(tmp_path), "data_dir": folder}
    )
    await check_data(job, LocalTransport("here"), folder)
