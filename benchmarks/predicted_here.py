"""What `flagperf predict` computes of some cases, beside real steps on the CPU of this machine (real_steps.py).

    python benchmarks/predicted_here.py [CASE ...]

Prints a line for each case, and writes the table into docs/predict.md, between its two comments: memory of a step at
its peak, and its time beside the eager bound by the probed peaks, both in CPU seconds of one thread. Kernels of some
classes stay below these peaks: the bound also stands with measured times of these classes (measured_classes.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from predict_page import write_table
from predicted_published import GIB, traced
from real_steps import KEPT, RETURNED

from flagperf.config.compose import compose
from flagperf.contract.records import ProbedDevice
from flagperf.contract.trace import Trace, to_json
from flagperf.predict.times import figures_of, job_times
from flagperf.report.markdown import table

HERE = Path(__file__).parent
COMMON = ("vendor=cpu", "nproc=1", "division=open", "precision=fp32", "dry_run=true")
CASES = (
    ("resnet50", "full", 8),
    ("resnet50", "tiny", 512),
    ("mobilenetv2", "tiny", 1024),
    ("bert", "tiny", 512),
    ("vit", "tiny", 512),
    ("t5_small", "tiny", 512),
    ("distilbert", "tiny", 1024),
    ("transformer", "tiny", 16384),
)  # case, size, batch
STEPS = 3


def row(case: str, size: str, batch: int) -> dict[str, str]:
    """A line of the table."""
    config = dict(compose([f"model={case}", *COMMON, f"size={size}", f"train_batch_size={batch}"]).config)
    ((trace, reason),) = traced([config])
    if trace is None:
        raise SystemExit(f"{case}: {reason}")
    memory, real = real_steps(config, RETURNED), real_steps(config, KEPT, trace)
    device = ProbedDevice(0, "here", "cpu", real["probe"])
    times = job_times(trace, config, figures_of(config, [device]))
    assert times is not None, "the probe measures all that times need"
    tensors, least = trace.memory.total / GIB, times.at_least(fused=False, overlap=True)
    expected = sum(real["classes"].get(time.operator_class, time.seconds) for time in times.eager)
    return {
        "case": case,
        "size, batch": f"{config['size']}, {config['train_batch_size']}",
        "predicted [GiB]": f"{tensors:.3f}",
        "measured [GiB]": f"{memory['gib']:.3f}",
        "difference": f"{tensors / memory['gib'] - 1:+.1%}",
        "step at least [s]": f"{least:.3f}",
        "measured [s]": f"{real['seconds']:.3f}",
        "least / measured": f"{least / real['seconds']:.0%}",
        "with measured classes [s]": f"{expected:.3f}",
        "difference of times": f"{expected / real['seconds'] - 1:+.0%}",
    }


def real_steps(config: Mapping[str, Any], environment: Mapping[str, str], trace: Trace | None = None) -> dict[str, Any]:
    """What real steps need, measured in a process of its own; with a trace also what its operator classes need."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        command = [sys.executable, str(HERE / "real_steps.py"), str(path), str(STEPS)]
        if trace is not None:
            command.append(str(path.with_name("trace.json")))
            Path(command[-1]).write_text(to_json(trace), encoding="utf-8")
        done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main(cases: list[str]) -> None:
    """Print a line for each case when it is known; of all cases also write the table into the page."""
    rows = []
    for case, size, batch in CASES:
        if cases and case not in cases:
            continue
        rows.append(row(case, size, batch))
        print(rows[-1], flush=True)
    if not cases:
        write_table("predicted_here", table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
