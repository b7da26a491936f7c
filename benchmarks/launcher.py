"""What the launcher costs before anything is started: CPU time of --help, a dry run, a refusal and a check of a vendor.

    python benchmarks/launcher.py

Baseline of the same run: `python -c "import hydra, omegaconf"`, which every Hydra program pays.
"""

from __future__ import annotations

import sys

from limits import IMPORT_HYDRA, compiled, cpu_seconds, say

FLAGPERF = [sys.executable, "-c", "from flagperf.cli.main import main; main()"]
GLM = ["model=glm", "vendor=nvidia", "hardware=A100", "nnodes=2", "nproc=8", "data_dir=/", "dry_run=true"]
COMMANDS = {  # what: words, times the baseline, rounds
    "--help": (["--help"], 0.6, 7),
    "dry run": (GLM, 2.5, 7),
    "refusal of a wrong override": (["modle=glm"], 2.0, 7),
    "check vendor=nvidia": (["check", "vendor=nvidia"], 30.0, 3),
}


def main() -> None:
    with compiled() as environment:
        base = cpu_seconds(IMPORT_HYDRA, environment)
        print(f"import of Hydra {base:.3f} s CPU")
        for title, (words, limit, rounds) in COMMANDS.items():
            seconds = cpu_seconds([*FLAGPERF, *words], environment, rounds)
            say(f"{title}, CPU", seconds / base, limit, "x import of Hydra")


if __name__ == "__main__":
    main()
