"""What the trace of each case costs: CPU seconds and host memory of the process that traces it, at full size.

    python benchmarks/predicted_cost.py [CASE ...]

CPU seconds include the imports. On two quiet cores a trace takes no longer than its CPU seconds. Without CASE: all
cases of PyTorch, and the table is written into docs/predict.md, between its two comments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from predict_page import measure_cases

from flagperf.config.compose import compose

SECONDS, MEMORY = 60.0, 4.0  # goals: seconds, GiB
PRODUCT = ("vendor=nvidia", "hardware=H100", "nproc=8", "division=open", "size=full", "dry_run=true")


def row(case: str) -> dict[str, str]:
    """A line of the table."""
    config = compose([f"model={case}", *PRODUCT]).config
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "flagperf.trainer.pytorch.trace", str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        _, status, used = os.wait4(process.pid, 0)
    answer = json.loads(next((line for line in lines if line.startswith("{")), "{}"))
    if "trace" not in answer:
        raise SystemExit(f"{case}: {answer.get('reason', f'status {status}')}")
    seconds, gib = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
    return {
        "case": case,
        "traced": "values" if answer["trace"]["case"]["how"] == "values" else "shapes",
        "CPU [s]": f"{seconds:.0f}",
        "memory [GiB]": f"{gib:.1f}",
        "goals": "met" if seconds <= SECONDS and gib <= MEMORY else "NOT met",
    }


if __name__ == "__main__":
    measure_cases("predicted_cost", row, sys.argv[1:])
