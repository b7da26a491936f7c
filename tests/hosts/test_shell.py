"""Scripts of hosts, as they are sent."""

from __future__ import annotations

import asyncio
import tarfile
from pathlib import Path

import pytest

from flagperf.hosts.local import LocalTransport
from flagperf.hosts.payload import UNPACK
from flagperf.hosts.shell import MARKED, script, shell

SCRIPTS = sorted((Path(__file__).parents[2] / "flagperf").rglob("*.sh"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_says_what_it_does_and_is_sent_without_that(path: Path) -> None:
    shebang, description, *_ = path.read_text().splitlines()
    assert (shebang, description[:2]) == ("#!/bin/sh", "# ")
    sent = script(str(path.with_name("module.py")), path.name)
    assert path.read_text().endswith(f"\n{sent}") and not sent.startswith("#")


@pytest.mark.asyncio
async def test_arguments_arrive_as_they_are() -> None:
    strange = ("a b", "$(id)", "", "-n", "*")
    done = await LocalTransport("here").run(shell('printf \'%s|\' "$0" "$@"', *strange), timeout=5)
    assert done.stdout == "|".join(("flagperf", *strange, ""))


@pytest.mark.asyncio
async def test_marked_finds_processes_by_a_whole_variable(tmp_path: Path) -> None:
    logs = {value: tmp_path / value for value in ("x y", "x y z", "x.y")}
    async with LocalTransport("here") as here:
        for value, log in logs.items():
            command = shell('echo $$; exec env "FLAGPERF_TEST_MARK=$1" sleep 4722', value)
            await here.start(command, log=str(log), grace=1)
        while not all(log.read_text() for log in logs.values()):
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # env and sleep follow each other in one process
        done = await here.run(shell(MARKED + 'marked "$1"', "FLAGPERF_TEST_MARK=x y"), timeout=5)
    assert done.stdout.split() == logs["x y"].read_text().split()


@pytest.mark.asyncio
async def test_an_archive_is_unpacked_whatever_the_folder_is_called(tmp_path: Path) -> None:
    """tar itself would take a backslash for an escape, and a colon for the end of a host's name."""
    folder = tmp_path / "a\\nb:c'$(id) "
    archive = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(__file__, "inner/file.py")
    done = await LocalTransport("here").run(shell(UNPACK, str(folder), str(archive)), timeout=60)
    assert (done.exit_status, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert (folder / "inner/file.py").read_bytes() == Path(__file__).read_bytes()
