"""How often the gate finds a regression of 5 %, and how often it raises a false alarm, on really run rounds.

    python benchmarks/gate_rates.py [REPETITIONS [cpu|wall]]

A round trains a 64x64 MLP: the loop alone, without start and evaluation. A repetition has five rounds a side, in turns:
A, A again, and B, which makes one step in twenty for nothing. Both go through `flagperf compare`'s own code, with gates
of -3 % and of -1 %. Printed: what each said of B against A (it should fail), and of A against A (of 20 at most one
may fail). The clock is the process's own CPU time, or the wall's, which on a shared machine says more of the others.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import mlp
import torch
from torch.nn import functional

from flagperf.compare.gate import Decision, decide, parse
from flagperf.compare.jobs import NamedJob, compare
from flagperf.results.summary import summary_of
from flagperf.results.values import Result

ROUNDS, STEPS = 5, 1000  # a side, and of a round
IDLE = 20  # of the regression: one step of so many does not count
GATES = parse("p_train>-3%,p_train>-1%")
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


def repeat(clock: Callable[[], float]) -> Iterator[tuple[str, Decision]]:
    """One repetition: what each gate said of A again and of B."""
    turns = [(measure(clock), measure(clock), measure(clock, IDLE)) for _ in range(ROUNDS)]
    first, again, slower = (job(name, side) for name, side in zip("ACB", zip(*turns, strict=True), strict=True))
    for name, other in (("A", again), ("B", slower)):
        comparison = compare(first, other, margin=0.01)
        yield from ((name, decide(gate, comparison)) for gate in GATES)


def main(repetitions: int, clock: str) -> None:
    torch.set_num_threads(1)
    measure(CLOCKS[clock])  # the first pays for what the others find warm
    outcomes: Counter[tuple[str, str, str]] = Counter()
    for number in range(1, repetitions + 1):
        for name, said in repeat(CLOCKS[clock]):
            outcomes[name, said.condition, said.outcome] += 1
            print(f"{number}: {name} against A, {said.condition}: {said.outcome}, {said.why}", flush=True)
    for name, what in (("B", "a regression of 5 %"), ("A", "no difference")):
        for gate in map(str, GATES):
            counts = ", ".join(f"{outcomes[name, gate, one]} {one}" for one in ("failed", "undecided", "passed"))
            print(f"{what}, {ROUNDS} rounds a side of {STEPS} steps, {clock} time, {gate}: {counts}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else "cpu")
