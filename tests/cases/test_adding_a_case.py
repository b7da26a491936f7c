"""docs/adding-a-case.md: a case made of YAML alone, in a folder outside the repository, composes and trains."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from toy import fork_ranks, train

from flagperf.config.compose import compose
from flagperf.trainer.data.sample_data import ensure_sample_data

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "tests" / "data" / "bench"
PAGE = (ROOT / "docs" / "adding-a-case.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(BENCH.rglob("*.yaml")), ids=lambda path: path.relative_to(BENCH).as_posix())
def test_the_page_shows_the_files(path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert path.read_text(encoding="utf-8") in blocks


def test_it_trains(tmp_path: Path) -> None:
    bench = shutil.copytree(BENCH, tmp_path / "bench")
    words = ["model=shufflenetv2", "nproc=2", "max_steps=3", f"sample_dir={tmp_path}/sample"]
    job = compose(words, [bench])
    ensure_sample_data(job.config)
    for events in fork_ranks(partial(train, dict(job.config)), tmp_path):
        finished = events[-1].value
        assert (job.division, finished["stop_reason"], finished["num_trained_samples"]) == ("closed", "max_steps", 192)
