"""How long a plan of many nodes takes, with the texts that schedulers get of it.

    python benchmarks/many_nodes.py [NODES] [ROUNDS]

The limit is for plan and texts together. The code that the pods get is read once before, as a run does.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from limits import IMPORT_HYDRA, compiled, cpu_seconds, say

from flagperf.config.compose import compose
from flagperf.hosts.payload import code_archive
from flagperf.plan.plan import make_plan
from flagperf.schedulers.kubernetes.kubectl import POD_SCRIPT
from flagperf.schedulers.kubernetes.manifests import Payload, manifests
from flagperf.schedulers.kubernetes.pods import job_name, labels, on_pods
from flagperf.schedulers.kubernetes.text import manifest_text
from flagperf.schedulers.slurm.script import Submission, script

LIMIT = 6.0  # times the CPU time of the import of Hydra
RUN, OWNER = Path("/result/run1"), "me.login1"
WORDS = ("model=glm", "vendor=nvidia", "hardware=A100", "nproc=8", "data_dir=/data", "dry_run=true")


def pods(nodes: int) -> Callable[[], str]:
    """What makes the plan and the manifests."""
    job = compose([*WORDS, f"nnodes={nodes}", "cluster=kubernetes"])
    payload = Payload(POD_SCRIPT, code_archive())

    def work() -> str:
        object_name = job_name(job, 1, RUN, OWNER)
        there = on_pods(job, object_name)
        plan = make_plan(there, 1, RUN)
        documents = manifests(there, plan, object_name, labels(object_name, RUN, OWNER), payload)
        return manifest_text(there, plan, documents, object_name, RUN, RUN / "manifests.yaml")

    return work


def batch(nodes: int) -> Callable[[], str]:
    """What makes the plan and the script for sbatch."""
    job = compose([*WORDS, f"nnodes={nodes}", "cluster=slurm", "runtime=process"])
    return lambda: script([Submission(job, make_plan(job, 1, RUN), RUN, ("flagperf", *WORDS))])


def main(nodes: int, rounds: int) -> None:
    works = {"plan and manifests": pods(nodes), "plan and sbatch script": batch(nodes)}
    total = 0.0
    for title, work in works.items():
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            text = work()
            times.append(time.perf_counter() - began)
        total += statistics.median(times)
        print(f"{title:22} {nodes} nodes {statistics.median(times):6.3f} s   {len(text)} characters")
    with compiled() as environment:
        base = cpu_seconds(IMPORT_HYDRA, environment)
    say(f"plan of {nodes} nodes, manifests and sbatch script", total / base, LIMIT, "x import of Hydra")


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], *("1000", "5")[len(sys.argv) - 1 :])))
