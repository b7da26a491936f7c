"""What is refused before anything starts on a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from example import example_run

from flagperf.checks import check_data, check_devices, check_room
from flagperf.data_layout import sample_folder
from flagperf.errors import ConfigError, FlagperfError
from flagperf.facts import Facts
from flagperf.schema import Cluster, Node, RunConfig, Vendor
from flagperf.transport import LocalTransport

ACME = Vendor("acme", "Acme chips", "acme", "accl", None, "ACME_VISIBLE", device_files="/dev/acme[0-9]*")
ON_ACME = example_run(vendor=ACME)
ELSEWHERE = replace(ON_ACME, cluster=Cluster("lab", "a host", (Node("alpha", "10.0.0.1"),)))
NONE = "host: has no device of Acme chips (/dev/acme[0-9]*)\n"
NONE += "  do:      install the vendor's driver, or choose another vendor or cluster"
ONE = "more ranks than devices\n  where:   host host\n  key:     nproc\n  given:   2\n  allowed: 1 to 1"


@pytest.mark.parametrize(
    ("run", "devices", "visible", "message"),
    [
        pytest.param(example_run(), "", None, None, id="a vendor whose devices are not counted"),
        pytest.param(ON_ACME, "/dev/acme0 /dev/acme1", None, None, id="enough"),
        pytest.param(ON_ACME, "", None, NONE, id="none"),
        pytest.param(ON_ACME, "/dev/acme0", None, ONE, id="too few"),
        pytest.param(ON_ACME, "/dev/acme0 /dev/acme1", "1", ONE, id="too few are visible"),
        pytest.param(ON_ACME, "/dev/acme0 /dev/acme1 /dev/acme2", "0,2", None, id="enough are visible"),
        pytest.param(ELSEWHERE, "/dev/acme0 /dev/acme1", "1", None, id="the launcher's variable is not another host's"),
    ],
)
def test_devices(
    monkeypatch: pytest.MonkeyPatch, run: RunConfig, devices: str, visible: str | None, message: str | None
) -> None:
    if visible is not None:
        monkeypatch.setenv("ACME_VISIBLE", visible)
    refused = None
    try:
        check_devices(run, "host", Facts({"devices": devices}))
    except FlagperfError as error:
        refused = str(error)
    assert refused == message


@pytest.mark.parametrize(("cores", "warnings"), [("2", []), ("1", ["host: 2 ranks share 1 cores"]), ("", [])])
def test_more_ranks_than_cores_are_warned_of(caplog: pytest.LogCaptureFixture, cores: str, warnings: list[str]) -> None:
    check_devices(example_run(), "host", Facts({"cores": cores}))
    assert [record.getMessage() for record in caplog.records] == warnings


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


DATA = {"name": "digits", "tree": "<data_dir>/*.png", "require": {"*.png": 2}}


class OtherHost(LocalTransport):
    """This machine, looked at as if it were another."""

    local = False


@pytest.mark.asyncio
@pytest.mark.parametrize("transport", [LocalTransport("here"), OtherHost("there")], ids=["here", "there"])
async def test_data(tmp_path: Path, transport: LocalTransport) -> None:
    run = example_run(config={"data": DATA})
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "1.png").touch()
    with pytest.raises(ConfigError, match=r"^data_dir has 1 of at least 2 entries that match \*\.png\n"):
        await check_data(run, transport, str(folder))
    (folder / "2.png").touch()
    await check_data(run, transport, str(folder))
    with pytest.raises(ConfigError):
        await check_data(run, transport, str(tmp_path / "missing"))


@pytest.mark.asyncio
async def test_sample_data_is_not_checked(tmp_path: Path) -> None:
    sample = {"_target_": "cases.sums"}
    folder = str(sample_folder(str(tmp_path), "sums", sample))
    run = example_run(config={"data": {**DATA, "sample": sample}, "sample_dir": str(tmp_path), "data_dir": folder})
    await check_data(run, LocalTransport("here"), folder)
