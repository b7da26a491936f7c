"""How often the gate finds a regression of 5 %, and how often it raises a false alarm, on really run rounds.

    python benchmarks/gate_rates.py [REPETITIONS [device|cpu|wall|case|SPREAD%]]

A repetition has five rounds a side, in turns, so that what drifts hits all sides: A, A again, and B, which is 5 %
slower. They go through `flagperf compare`'s own code, with gates of -3 % and of -1 %. Printed: what each said of B
against A (it should fail), and of A against A (of 20 at most one may fail), and how much rounds of A varied. A round is

- device: a loop whose steps a stand-in for an accelerator takes its time for, while the host goes on (waiting.py)
- cpu, wall: a loop of the processor alone, 64x64 MLP, by the process's own time or by the wall's. On a shared machine
  either says more of the others
- case: a run of `flagperf` with a case of the user's own (waiting.py); B is a copy of it. Takes a start each
- 0.5%, or another share: made up, as rounds are that vary by this standard deviation
"""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import mlp
import torch
import waiting
from baseline import FLAGPERF
from torch.nn import functional

from flagperf import report
from flagperf.compare.gate import Decision, decide, parse
from flagperf.compare.jobs import NamedJob, compare
from flagperf.contract.records import Result
from flagperf.results.summary import summary_of

ROUNDS = 5  # a side
LOSS = 0.05  # of B's throughput
STEPS = 1000  # of a round of the processor
WAITS, STEP_TIME = 6, 0.1  # steps of a round that waits, and seconds of each: as long as those of a full case
GATES = parse("p_train>-3%,p_train>-1%")
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

Measure = Callable[[float], float]  # share of the throughput that is lost → points a second of a round


def loop(clock: Callable[[], float], steps: int, network: torch.nn.Module) -> float:
    """Train, and return points a second."""
    points = mlp.Points(mlp.BATCH_SIZE)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    began = clock()
    for _ in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(network(points.inputs), points.labels).backward()
        optimizer.step()
    if isinstance(network, waiting.Network):
        network.wait()
    return steps * mlp.BATCH_SIZE / (clock() - began)


def on_processor(clock: Callable[[], float]) -> Measure:
    """One step in twenty of B is made for nothing."""
    return lambda loss: loop(clock, STEPS, mlp.network()) * (1 - loss)


def on_device(loss: float) -> float:
    return loop(time.perf_counter, WAITS, waiting.Network(STEP_TIME / (1 - loss)))


def as_case(loss: float) -> float:
    """p_train of a run of flagperf."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "conf", "model", "waiting.yaml")
        file.parent.mkdir(parents=True)
        seconds = STEP_TIME / (1 - loss)
        file.write_text(waiting.CASE.format(batch_size=mlp.BATCH_SIZE, steps=4 * WAITS, seconds=seconds))
        overrides = ["model=waiting", f"data_dir={name}", f"result_dir={name}", "run_name=run"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        command = [*FLAGPERF, "--config-dir", f"{name}/conf", *overrides]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        (job,) = report.read_jobs(Path(name, "run"))
        return job.statistics["p_train"].mean


def made_up(spread: float) -> Measure:
    chance = random.Random(0)
    return lambda loss: (1 - loss) * math.exp(chance.gauss(0, spread))


MEASURES: dict[str, Measure] = {
    "device": on_device,
    "cpu": on_processor(time.process_time),
    "wall": on_processor(time.perf_counter),
    "case": as_case,
}


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


def repeat(measure: Measure) -> tuple[list[tuple[str, Decision]], float]:
    """One repetition: what each gate said of A again and of B, and by which share the rounds of A varied."""
    turns = [(measure(0), measure(0), measure(LOSS)) for _ in range(ROUNDS)]
    sides = [list(side) for side in zip(*turns, strict=True)]
    first, again, slower = (job(name, side) for name, side in zip("ACB", sides, strict=True))
    pairs = [(name, compare(first, other, margin=0.01)) for name, other in (("A", again), ("B", slower))]
    decisions = [(name, decide(gate, comparison)) for name, comparison in pairs for gate in GATES]
    return decisions, statistics.stdev(map(math.log, sides[0]))


def main(repetitions: int, kind: str) -> None:
    torch.set_num_threads(1)
    measure = made_up(float(kind.removesuffix("%")) / 100) if kind.endswith("%") else MEASURES[kind]
    measure(0)  # the first pays for what the others find warm
    outcomes: Counter[tuple[str, str, str]] = Counter()
    spreads = []
    for number in range(1, repetitions + 1):
        decisions, spread = repeat(measure)
        spreads.append(spread)
        for name, decision in decisions:
            outcomes[name, decision.condition, decision.outcome] += 1
            print(f"{number}: {name} against A, {decision.condition}: {decision.outcome}, {decision.why}", flush=True)
    rounds = f"{ROUNDS} rounds a side, {kind}"
    print(f"{rounds}: rounds of A varied by {statistics.median(spreads):.2%}, at most {max(spreads):.2%}")
    for name, truth in (("B", f"a regression of {LOSS:.0%}"), ("A", "no difference")):
        for gate in map(str, GATES):
            counts = ", ".join(
                f"{outcomes[name, gate, outcome]} {outcome}" for outcome in ("failed", "undecided", "passed")
            )
            print(f"{truth}, {rounds}, {gate}: {counts}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else "device")
