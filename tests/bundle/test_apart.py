"""The boundary around the examination of a bundle: whatever happens in it, there is an answer, and the others go on."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flagperf.bundle import apart
from flagperf.bundle.apart import Refused, examine
from flagperf.errors import ConfigError

pytestmark = pytest.mark.long

UNEXPECTED = "flagperf does not write files like these: "
ENDED = "the process that examined it ended {}; did the memory suffice?"


def refuse(_: Path) -> None:
    raise ConfigError("not a bundle of flagperf", given="x")


def stop_iteration(_: Path) -> None:
    next(iter(()))


def nested() -> list[Any]:
    top: list[Any] = []
    for _ in range(100_000):
        top = [top]
    return top


WORK: dict[str, tuple[Callable[[Path], object], str]] = {
    "refused": (refuse, "not a bundle of flagperf\n  where:   command line\n  given:   x"),
    "any exception": (stop_iteration, f"{UNEXPECTED}StopIteration "),
    "the end of the interpreter": (lambda _: sys.exit(3), f"{UNEXPECTED}SystemExit 3"),
    "the end of the process": (lambda _: os._exit(3), ENDED.format("with exit status 3")),
    "a crash": (lambda _: os.kill(os.getpid(), signal.SIGKILL), ENDED.format("by SIGKILL")),
    "a list of any length": (lambda _: [0] * 10**12, "its examination needs too much memory"),
    "memory, by and by": (
        lambda _: [bytearray(1 << 20) for _ in range(10**9)],
        "its examination needs too much memory",
    ),
    "an expression without end": (
        lambda _: re.fullmatch("(a+)+b", "a" * 100),
        "its examination took more than 1 s of a processor",
    ),
    "an answer that cannot be sent": (lambda _: nested(), f"{UNEXPECTED}RecursionError maximum recursion depth"),
    "a folder that is missing": (
        lambda folder: (folder / "a").read_text(),
        "a file cannot be read: [Errno 2] No such file or directory",
    ),
}


def test_every_examination_has_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, as a site does: a bundle that fails costs only itself."""
    monkeypatch.setattr(apart, "SECONDS", 1)
    monkeypatch.setattr(apart, "MEMORY", 1 << 28)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def work(bundle: Path, folder: Path) -> object:
        (folder / "file").write_text("left behind")
        return WORK[bundle.name][0](folder) if bundle.name in WORK else f"{bundle}: good"

    bundles = [Path(name) for kind in WORK for name in (kind, "good")]
    found = list(examine(work, bundles, workers=2))
    assert [answer for answer in found if not isinstance(answer, Refused)] == ["good: good"] * len(WORK)
    refused = {str(answer.path): answer for answer in found if isinstance(answer, Refused)}
    assert {name: answer.reason[: len(WORK[name][1])] for name, answer in refused.items()} == {
        name: reason for name, (_, reason) in WORK.items()
    }
    assert [str(answer.path) for answer in found if isinstance(answer, Refused)] == [*WORK]
    assert {name for name, answer in refused.items() if answer.error is not None} == {"refused"}
    assert list(tmp_path.iterdir()) == []


def test_an_examination_that_waits_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no processor, so that only the clock can end it: a file of a server that is gone."""
    monkeypatch.setattr(apart, "SECONDS", 1)
    monkeypatch.setattr(apart, "SLOWEST", 1)
    answers = list(examine(lambda *_: time.sleep(1e6), [Path("first"), Path("second")]))
    reason = "its examination took more than 1 s"
    assert answers == [Refused(Path("first"), reason), Refused(Path("second"), reason)]
