"""From the end or the hang of a rank on the second of two docker hosts to the line that names it.

    python benchmarks/failure_report.py [ROUNDS]

resnet50 (tiny) trains over both hosts with torchrun; then rank 1 gets SIGKILL, or SIGSTOP, on its host. Printed are the
seconds until flagperf_run.log names it; for a hang those above `deadlines.stall`. Needs what docker_start.py needs.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from baseline import FLAGPERF
from docker_start import ON_LAB, lab
from hosts import Host
from limits import say

LIMIT = 2.0  # seconds
AFTER = {"killed": "the signal", "stopped": "deadlines.stall"}
STALL = 10.0  # deadlines.stall, in seconds
RANK = (
    r"pgrep -f 'uncached.py [f]lagperf.trainer' | "
    r"while read pid; do grep -qsz '^RANK=1$' /proc/$pid/environ && echo $pid; done"
)
ENDLESS = ("max_steps=100000", "division=open", "target.value=2")


def until_step(log: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until training is on its way."""
    while not (log.exists() and '"step": 20' in log.read_text()):
        if process.poll() is not None:
            raise RuntimeError("the training ended before its twentieth step")
        time.sleep(0.1)


def time_of_report(log: Path) -> float:
    """When the failure was said, in seconds since the epoch."""
    line = re.search(r"^(\S+ \S+)\t\[ERROR\]\s+(.*)", log.read_text(), re.MULTILINE)
    assert line and "rank 1 on h2" in line[2], log.read_text()
    return datetime.strptime(line[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()


def report(folder: Path, host: Host, signal: str) -> float:
    """Seconds from the signal to the line."""
    with tempfile.TemporaryDirectory() as results:
        overrides = [*ON_LAB, *ENDLESS, f"deadlines.stall={STALL:g}", f"result_dir={results}", "run_name=run"]
        process = subprocess.Popen([*FLAGPERF, "--config-dir", str(folder), *overrides], stdout=subprocess.DEVNULL)
        run = Path(results, "run")
        until_step(run / "resnet50-pytorch-cpux2x1" / "round1" / "h1_noderank0" / "rank0.out.log", process)
        rank = host.output("sh", "-c", RANK).split()
        began = time.time()
        host.output("kill", "-s", signal, *rank)
        process.wait()
        return time_of_report(run / "flagperf_run.log") - began


def main(rounds: int) -> None:
    with lab() as (cluster, folder):
        for fault, signal, deadline in (("killed", "KILL", 0.0), ("stopped", "STOP", STALL)):
            seconds = [report(folder, cluster.hosts[1], signal) - deadline for _ in range(rounds)]
            named, most = statistics.median(seconds), max(seconds)
            print(f"rank {fault}: named {named:.2f} s, at most {most:.2f} s after {AFTER[fault]}")
            say(f"a rank {fault}, until it is named", named, LIMIT, f"s after {AFTER[fault]}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
