"""docs/adding-a-case.md: a case made of YAML alone, in a folder outside the repository, composes and trains."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    command = "from flagperf.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--config-dir", str(bench), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/run*/shufflenetv2-pytorch-cpux1x2/round1/result.json")
    result = json.loads(path.read_text())
    assert (result["verdict"], result["reasons"]) == ("VALID", [])
    assert (result["values"]["num_trained_samples"], result["sample_data"]) == (192, True)
