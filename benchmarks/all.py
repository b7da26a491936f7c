"""All benchmarks whose figures have limits, one after the other, in one table: Markdown.

    python benchmarks/all.py [PROGRAM …]

Takes about twenty minutes on two quiet cores. Exit code 1: a limit was missed, or a program failed, such as one
that needs docker, sshd or Slurm where there is none. Each program has its own limits. The frameworks beside PyTorch
(`startup.py 5 paddle`, `throughput.py 4 paddle`, …) need environments of their own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from limits import MARK

PROGRAMS = (
    "launcher.py",
    "startup.py 5",
    "docker_start.py 3",
    "slurm_start.py 3",
    "failure_report.py 3",
    "fanout.py 64 5",
    "many_hosts.py 1000 1",
    "many_nodes.py",
    "many_monitors.py 64 60",
    "monitor_cost.py 60",
    "monitor_cost.py 60 ssh",
    "fabric.py 3",
    "detection_cost.py",
    "named_ranks.py 3",
    "step_cost.py 5",
    "throughput.py 4",
    "results_site.py 1000",
)


def rows(program: str) -> Iterator[str]:
    """The figures of a program, or why there is none."""
    script, *arguments = program.split()
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.splitlines()
    yield from (line.removeprefix(MARK) for line in lines if line.startswith(MARK))
    if done.returncode != 0:
        yield f"not measured: {lines[-1] if lines else 'no output'} | | | FAILED"


def main(programs: list[str]) -> int:
    print("| program | what | limit | measured | |\n|---|---|---|---|---|")
    missed = False
    for program in programs:
        for row in rows(program):
            print(f"| `{program}` | {row} |", flush=True)
            missed |= not row.endswith("| met")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main([program for program in PROGRAMS if not sys.argv[1:] or program.split()[0] in sys.argv[1:]]))
