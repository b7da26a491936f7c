"""`flagperf open`: the path of a report, and a real program in the place of the browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.cli.main import run_command
from flagperf.cli.open import can_show


@pytest.mark.parametrize(
    ("platform", "environment", "shows"),
    [
        pytest.param("linux", {}, False, id="over ssh"),
        pytest.param("linux", {"DISPLAY": ""}, False, id="an empty display"),
        pytest.param("linux", {"DISPLAY": ":0"}, True, id="X11"),
        pytest.param("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True, id="Wayland"),
        pytest.param("linux", {"BROWSER": "w3m"}, True, id="a browser of the terminal"),
        pytest.param("darwin", {}, True, id="macOS"),
    ],
)
def test_display(platform: str, environment: dict[str, str], shows: bool) -> None:
    assert can_show(platform, environment) is shows


def test_the_browser_gets_the_report(tmp_path: Path) -> None:
    """Without a display the path alone is printed."""
    run, opened, browser = tmp_path / "a run", tmp_path / "opened", tmp_path / "browser"
    run.mkdir()
    (run / "report.html").touch()
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n', encoding="utf-8")
    browser.chmod(0o755)
    bare = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    shown = []
    for environment in (bare, {**bare, "BROWSER": str(browser)}):
        words = [str(Path(sys.executable).with_name("flagperf")), "open", str(run)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        shown.append((done.stdout, opened.read_text(encoding="utf-8") if opened.exists() else ""))
    path = run / "report.html"
    assert shown == [(f"{path}\n", ""), (f"{path}\n", path.as_uri())]


def test_a_folder_without_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["open", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"flagperf: no report.html in this folder\n  where:   command line\n  given:   {tmp_path}\n"
        f"  do:      flagperf report {tmp_path} writes it; flagperf list runs shows the runs\n"
    )
