"""The run's log, and the warnings that people see."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

import pytest
from rich.console import Console

from flagperf.errors import ConfigError
from flagperf.run.run_log import run_log

LINE = rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d{{3}}\t\[([A-Z]+)\]\t\[{re.escape(Path(__file__).name)},\d+\](.*)"
SAID = {
    "debug": "a command ended",
    "info": "a phase began",
    "warning": "2 ranks share a core",
    "error": "rank 1 failed",
}

log = logging.getLogger("flagperf.part")


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        pytest.param("debug", ["debug", "info", "warning", "warning", "error"], id="debug"),
        pytest.param("info", ["info", "warning", "warning", "error"], id="info"),
        pytest.param("warning", ["warning", "warning", "error"], id="warning"),
        pytest.param("error", ["error"], id="error"),
    ],
)
def test_a_warning_is_printed_once_whatever_is_kept(tmp_path: Path, level: str, kept: list[str]) -> None:
    out = io.StringIO()
    with run_log(tmp_path, level, Console(file=out)):
        for name in ("debug", "info", "warning", "warning", "error"):
            getattr(log, name)(SAID[name])
    lines = (tmp_path / "flagperf_run.log").read_text().splitlines()
    matches = [match for match in (re.fullmatch(LINE, line) for line in lines) if match]
    assert [(match[1].lower(), match[2]) for match in matches] == [(name, SAID[name]) for name in kept]
    assert out.getvalue() == "           warning 2 ranks share a core\n"
    assert len(lines) - len(matches) == (level in ("debug", "info"))  # "flagperf started."
    log.warning("after the run")
    assert len((tmp_path / "flagperf_run.log").read_text().splitlines()) == len(lines)


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flagperf_run.log").mkdir()
    with pytest.raises(ConfigError) as caught, run_log(tmp_path, "info", Console()):
        pass
    assert str(caught.value) == (
        f"cannot write the run log: Is a directory\n  where:   {tmp_path}/flagperf_run.log\n"
        "  do:      choose a writable result_dir"
    )
