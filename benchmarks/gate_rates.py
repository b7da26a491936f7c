"""How often the gate finds a regression of 5 %, and how often it raises a false alarm, on really run rounds.

    python benchmarks/gate_rates.py [REPETITIONS [cpu|wall]]

A round trains a 64x64 MLP. A repetition has five rounds a side, in turns: A, A again, and B, which makes one step in
twenty for nothing. Each side goes through `flagperf compare`'s own code with gate='p_train>-3%'. Printed: what the gate
said of B against A (it should fail) and of A against A (of 20 at most one may fail). A round is the loop alone, without
start and evaluation, by the process's own CPU time, or by the wall clock, which on a machine that others use says more
of them.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

import mlp
import torch
from torch.nn import functional

from flagperf.compare.gate import decide, parse
from flagperf.compare.jobs import NamedJob, compare
from flagperf.results.summary import summary_of
from flagperf.results.values import Result

ROUNDS, STEPS = 5, 400  # a side, and of a round
IDLE = 20  # of the regression: one step of so many does not count
GATE = parse("p_train>-3%")[0]
CLOCKS: dict[str, Callable[[], float]] = {"cpu": time.process_time, "wall": time.perf_counter}
CONFIG = {
    "case": "mlp",
    "size": "full",
    "precision": "fp32",
    "division": "closed",
    "throughput_unit": "points/s",
    "framework": {"name": "pytorch"},
    "vendor": {"name": "cpu"},
    "hardware": {"name": "cpu"},
    "nnodes": 1,
    "nproc": 1,
}


def measure(clock: Callable[[], float], idle: int = 0) -> float:
    """Train, and return points a second. `idle`: one step of so many does not count; 0: all do."""
    network, points = mlp.network(), mlp.Points(mlp.BATCH_SIZE)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    began = clock()
    for _ in range(STEPS):
        optimizer.zero_grad()
        functional.cross_entropy(network(points.inputs), points.labels).backward()
        optimizer.step()
    counted = STEPS - (STEPS // idle if idle else 0)
    return counted * mlp.BATCH_SIZE / (clock() - began)


def job(name: str, speeds: Sequence[float]) -> NamedJob:
    """What `flagperf compare` reads of a run with these rounds."""
    results = [
        Result(
            case="mlp",
            framework="pytorch",
            hardware="cpu",
            vendor="cpu",
            size="full",
            nnodes=1,
            nproc=1,
            division="closed",
            round=number,
            status="finished",
            verdict="VALID",
            reasons=(),
            sample_data=False,
            target=None,
            target_reached=None,
            values={"p_train": speed},
        )
        for number, speed in enumerate(speeds, start=1)
    ]
    return NamedJob(name, summary_of("mlp-pytorch-cpux1x1", results, CONFIG, ()))


def repeat(clock: Callable[[], float]) -> dict[str, tuple[str, str]]:
    """One repetition: what the gate said of each side, and why."""
    turns = [(measure(clock), measure(clock), measure(clock, IDLE)) for _ in range(ROUNDS)]
    first, again, slower = (job(name, side) for name, side in zip("ACB", zip(*turns, strict=True), strict=True))
    said = {name: decide(GATE, compare(first, other, margin=0.01)) for name, other in (("A", again), ("B", slower))}
    return {name: (decision.outcome, decision.why) for name, decision in said.items()}


def main(repetitions: int, clock: str) -> None:
    torch.set_num_threads(1)
    measure(CLOCKS[clock])  # the first pays for what the others find warm
    outcomes: dict[str, Counter[str]] = {"A": Counter(), "B": Counter()}
    for number in range(1, repetitions + 1):
        for name, (outcome, why) in repeat(CLOCKS[clock]).items():
            outcomes[name][outcome] += 1
            print(f"{number}: {name} against A: {outcome}, {why}", flush=True)
    for name, wanted in (("B", "a regression of 5 %"), ("A", "no difference")):
        counts = ", ".join(f"{outcomes[name][one]} {one}" for one in ("failed", "undecided", "passed"))
        print(f"{wanted}, {ROUNDS} rounds a side, {clock} time, gate {GATE}: {counts}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else "cpu")
