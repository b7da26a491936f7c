"""The vendor made of YAML alone: what docs/adding-a-vendor.md shows is what is there, and its tool is really read."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from pathlib import Path

import pytest

from flagperf.config.compose import compose
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.monitors.running import running
from flagperf.plan.plan import make_plan
from flagperf.results.monitors import summarize

ROOT = Path(__file__).parents[3]
ACME = ROOT / "tests/data/acme"
KERNELS = ROOT / "tests/data/acme_kernels"  # its own code
WORDS = ("vendor=acme", "hardware=A1", "runtime=process", "size=tiny", "monitor.interval=0.2")
DEVICE = r"\d+C [\d.]+W [\d.]+MiB 16384MiB \d+%\n"


def test_the_walk_through_shows_these_files() -> None:
    text = (ROOT / "docs/adding-a-vendor.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"`([\w./-]+)`:\n\n```(?:yaml|sh|python)\n(.*?)```", text, re.DOTALL))
    assert shown == files_of(ACME) | files_of(KERNELS, "acme_kernels/")


def files_of(folder: Path, prefix: str = "") -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {prefix + path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_its_tool_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ACME / 'bin'}:/usr/bin:/bin")
    job = compose(WORDS, [ACME])
    node = dataclasses.replace(make_plan(job, 1).nodes[0], log_dir=str(tmp_path))
    began = time.time()

    async def main() -> None:
        async with LocalTransport("here") as transport, running(job, node, transport, tmp_path):
            for _ in range(300):
                await asyncio.sleep(0.1)
                if (tmp_path / "acme_monitor.log").exists() and time.time() > began + 2:
                    return

    asyncio.run(main())
    log = (tmp_path / "acme_monitor.log").read_text()
    assert re.fullmatch(rf"(\d{{4}}-\d\d-\d\d-\d\d:\d\d:\d\d[+-]\d{{4}}\n{DEVICE}{DEVICE}\n)+", log)
    figures = summarize(tmp_path, began - 1, time.time(), devices=(0,))["acme"]
    assert (figures["devices"], figures["memory_total"]["mean"]) == (1, 16384)
    assert 20 <= figures["power"]["mean"] <= 70
    assert figures["power"]["energy_j"] > 0
