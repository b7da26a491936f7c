"""Each case reaches the target of its tiny size; two of them as jobs of the experiment, on two ranks each."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from shipped import FAMILIES
from toy import fork_ranks, train

SWEPT = ("bert", "transformer")  # among the shortest


@pytest.mark.slow
@pytest.mark.timeout(900)  # seconds; a quiet machine needs less than 30
@pytest.mark.parametrize("case", [case for case in FAMILIES if case not in SWEPT])
def test_one_rank(tiny: Callable[[str], dict[str, Any]], tmp_path: Path, case: str) -> None:
    (events,) = fork_ranks(partial(train, tiny(case)), tmp_path, ranks=1)
    finished = events[-1].value
    assert (finished["stop_reason"], finished["converged"]) == ("target", True), finished


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_ranks_of_each_job_of_the_experiment(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("flagperf")), "-m", "+experiment=tiny_targets"]
    words = [f"model={','.join(SWEPT)}", f"result_dir={tmp_path}", "run_name=suite"]
    done = subprocess.run([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    results = [json.loads((folder / "result.json").read_text()) for folder in tmp_path.glob("suite/*/round1")]
    found = {result["case"]: (result["verdict"], result["reasons"], result["target_reached"]) for result in results}
    assert found == {case: ("VALID", [], True) for case in SWEPT}, done.stdout
    assert done.returncode == 0, done.stdout
    rows = [line for line in (tmp_path / "suite/report.md").read_text().splitlines() if line.startswith("| ")]
    assert len([row for row in rows if "x1x2 |" in row and "| VALID |" in row]) == len(SWEPT)
