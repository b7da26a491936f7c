"""The suites of all cases, as conf/experiment holds them: each reports a row a case, all of them good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.config.search_path import CONF

CASES = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("experiment", "reached", "scale"),
    [
        pytest.param("all_cases", None, "1x1", id="twenty steps of each case"),
        pytest.param("tiny_targets", True, "1x2", id="each reduced case to its target, on two ranks"),
    ],
)
def test_suite(tmp_path: Path, experiment: str, reached: bool | None, scale: str) -> None:
    command = [str(Path(sys.executable).with_name("flagperf")), "-m", f"+experiment={experiment}"]
    done = subprocess.run(
        [*command, f"result_dir={tmp_path}", "run_name=suite"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    results = [json.loads((folder / "result.json").read_text()) for folder in tmp_path.glob("suite/*/round1")]
    found = {result["case"]: (result["verdict"], result["reasons"], result["target_reached"]) for result in results}
    assert found == {case: ("VALID", [], reached) for case in CASES}, done.stdout
    assert done.returncode == 0, done.stdout
    rows = [line for line in (tmp_path / "suite/report.md").read_text().splitlines() if line.startswith("| ")]
    assert len([row for row in rows if f"x{scale} |" in row and "| VALID |" in row]) == len(CASES)
