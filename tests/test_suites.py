"""Every case, trained by two ranks to the target of its tiny size, in one sweep: a row a case, all of them good."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.config.files.search_path import CONF

CASES = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(2700)
def test_tiny_targets(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("flagperf")), "-m", "+experiment=tiny_targets"]
    done = subprocess.run(
        [*command, f"result_dir={tmp_path}", "run_name=suite"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    results = [json.loads((folder / "result.json").read_text()) for folder in tmp_path.glob("suite/*/round1")]
    found = {result["case"]: (result["verdict"], result["reasons"], result["target_reached"]) for result in results}
    assert found == {case: ("VALID", [], True) for case in CASES}, done.stdout
    assert done.returncode == 0, done.stdout
    rows = [line for line in (tmp_path / "suite/report.md").read_text().splitlines() if line.startswith("| ")]
    assert len([row for row in rows if "x1x2 |" in row and "| VALID |" in row]) == len(CASES)
