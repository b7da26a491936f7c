"""Text of ranks and hosts has no power over the terminal, the logs and the reports."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from flagperf.contract.outcome import Failure
from flagperf.errors import HostError
from flagperf.plain import plain
from flagperf.run.console import Terminal
from flagperf.run.run_log import run_log

TEXTS = {
    "ordinary": ("step 1\n\tloss 2.5 é 训练 🔥", "step 1\n\tloss 2.5 é 训练 🔥"),
    "colours": ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
    "a title of the window": ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
    "C1": ("\x9b31m\x85", r"\x9b31m\x85"),
    "back to the start of the line": ("failed\rVALID ", r"failed\rVALID "),
    "backspace": ("no\b\bok", r"no\x08\x08ok"),
    "from right to left": ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
}


@pytest.mark.parametrize(("text", "shown"), TEXTS.values(), ids=TEXTS.keys())
def test_plain(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(shown) == shown


def test_the_terminal_shows_it_as_text() -> None:
    terminal = Terminal(file=io.StringIO(), force_terminal=True, width=80)
    table = Table()
    table.add_row(Text("a cell \x1b[2J"))
    for shown in ("\x1b[2Jline", table):
        terminal.print(shown, style="red", markup=False, highlight=False)
    text = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert r"\x1b[2Jline" in text and "a cell" in text
    assert "\x1b[2J" not in text
    assert "\x1b[31m" in text  # its own colours stay


def test_errors_and_the_run_log(tmp_path: Path) -> None:
    assert str(HostError("node1", "\x1b[2J")) == r"node1: \x1b[2J"
    assert str(Failure("exit code 1", last_lines=("\x1b[2J",))) == "exit code 1\n    \\x1b[2J"
    with run_log(tmp_path, "info", Terminal(file=io.StringIO())):
        logging.getLogger("flagperf").info("said %s", "\x1b[2J")
    log = (tmp_path / "flagperf_run.log").read_text(encoding="utf-8")
    assert r"said \x1b[2J" in log and "\x1b" not in log
