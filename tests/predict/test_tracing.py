"""The program that traces: what is said where it gives no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.predict.tracing import Tracer, Untraced


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param(r"printf 'caf\351\n'", "it printed nothing", id="output that is not UTF-8"),
        pytest.param(r"printf 'no caf\351\n' >&2", "no caf�", id="errors that are not UTF-8"),
        pytest.param("kill -9 $$", "it printed nothing", id="killed"),
    ],
)
def test_a_program_that_fails(tmp_path: Path, script: str, reason: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    assert Tracer(str(python), "module", "", tmp_path / "cache").traces([{"case": "c"}]) == [Untraced(reason)]
