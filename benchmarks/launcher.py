"""What the launcher costs before anything is started: CPU seconds of --help, a dry run and a refusal.

    python benchmarks/launcher.py

Baseline of the same run: `python -c "import hydra, omegaconf"`, which every Hydra program pays.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

ROUNDS = 7
LIMIT = 0.5  # CPU seconds
FLAGPERF = [sys.executable, "-c", "from flagperf.cli.main import main; main()"]
COMMANDS = {
    "--help": [*FLAGPERF, "--help"],
    "dry run": [
        *FLAGPERF,
        "model=glm",
        "vendor=nvidia",
        "hardware=A100",
        "nnodes=2",
        "nproc=8",
        "data_dir=/",
        "dry_run=true",
    ],
    "refusal": [*FLAGPERF, "modle=glm"],
}
BASELINE = [sys.executable, "-c", "import hydra, omegaconf"]


def cpu_seconds(command: list[str]) -> float:
    """Median user + system seconds of a command and its children."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    once()  # fills the page cache
    return statistics.median(once() for _ in range(ROUNDS))


def main() -> None:
    base = cpu_seconds(BASELINE)
    print(f"{'import hydra':12} {base:6.3f} s CPU   1.00 x")
    for name, command in COMMANDS.items():
        seconds = cpu_seconds(command)
        print(f"{name:12} {seconds:6.3f} s CPU  {seconds / base:5.2f} x   limit {LIMIT} s")


if __name__ == "__main__":
    main()
