"""Files that vanish, or stop to come, while they are brought from a host."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from typing_extensions import override

from flagperf.errors import HostError
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.transport import FilesError, Listing
from flagperf.run.bringing import bring
from flagperf.secret import Mask


class Host(LocalTransport):
    """This machine as another host. It also lists files that do not exist; a file called "stuck" never comes."""

    same_files = False

    def __init__(self, listed: str) -> None:
        super().__init__("h1")
        self.listed = Path(listed)

    @override
    async def listing(self, folder: str) -> Listing:
        found = {path.name: 1 for path in sorted(Path(folder).iterdir())}
        return Listing(found | ({self.listed.name: 1} if self.listed.parent.name == Path(folder).name else {}), [], {})

    @override
    async def get(self, source: str, target: Path) -> None:
        if source.endswith("stuck"):
            raise FilesError(self.host)
        await super().get(source, target)


@pytest.mark.parametrize(
    ("listed", "message", "complete"),
    [
        pytest.param("node/rank7.out.log", "node/rank7.out.log does not exist any more", None, id="log"),
        pytest.param("checkpoint/step2.pt", "checkpoint/step2.pt does not exist any more", None, id="checkpoint"),
        pytest.param("node/b", "files that cannot be read among the logs were left out: b", True, id="other file"),
        pytest.param("node/stuck", "1 of 2 other files were left out after 0 s", False, id="file service"),
    ],
)
def test_a_file_that_vanishes_or_does_not_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, listed: str, message: str, complete: bool | None
) -> None:
    """`complete` is None where the run needs the file: the error names it. Another file costs only itself."""
    here = tmp_path / "here"
    for name in ("node/rank0.out.log", "node/a", "checkpoint/step1.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("log")

    async def body() -> bool:
        async with Host(listed) as host:
            return await bring(host, str(tmp_path / "node"), here / "node", Mask())

    with caplog.at_level(logging.WARNING):
        if complete is None:
            with pytest.raises(HostError, match=message):
                asyncio.run(body())
        else:
            assert asyncio.run(body()) is complete
            assert message in caplog.text
            assert (here / "node/a").read_text() == "log"
    assert (here / "node/rank0.out.log").read_text() == "log"
