"""The oldest PyTorch and Python that ranks run on (`make oldest`): each case trains there as it does on the newest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from toy import fork_ranks, losses, read_log, train

from flagperf.config.search_path import CONF

CASES = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
TO_TARGET = ("bert", "glm", "resnet50", "wav2vec2")
STEPS = 20
OLDEST = Path(f"{sys.prefix}-oldest/bin/python")

pytestmark = [pytest.mark.oldest, pytest.mark.torch]


def flagperf(folder: Path, *words: str) -> dict[str, Any]:
    """The result of a run with two ranks, and where its first rank's log lies."""
    assert OLDEST.exists(), "no environment with the oldest PyTorch; do: make oldest"
    command = [sys.executable, "-c", "from flagperf.cli.main import main; main()"]
    command += ["nproc=2", "log_freq=1", f"runtime.python={OLDEST}", f"result_dir={folder}", "run_name=run"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    (round_folder,) = folder.glob("run/*/round1")
    logs = "".join(path.read_text()[-3000:] for path in round_folder.glob("*/rank0.out.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    result: dict[str, Any] = json.loads((round_folder / "result.json").read_text())
    return {**result, "log": next(round_folder.glob("*/rank0.out.log"))}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES)
def test_it_trains_as_on_the_newest(tiny: Callable[[str], dict[str, Any]], tmp_path: Path, case: str) -> None:
    """Through runtime.python, with the losses of the first steps of the newest, and where they say so to the target."""
    config, to_target = tiny(case), case in TO_TARGET
    short = {"max_steps": STEPS, "log_freq": 1, "initial_evaluation": False}
    words = [] if to_target else [f"max_steps={STEPS}", "target=null", "initial_evaluation=false"]
    result = flagperf(tmp_path / "oldest", f"model={case}", f"sample_dir={Path(config['data_dir']).parent}", *words)
    assert (result["verdict"], result["reasons"], result["target_reached"]) == ("VALID", [], to_target or None)
    (newest, _) = fork_ranks(partial(train, config | short), tmp_path / "newest")
    assert losses(read_log(result["log"]))[:STEPS] == pytest.approx(losses(newest), rel=1e-3)
