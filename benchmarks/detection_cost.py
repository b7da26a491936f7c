"""What the detection of slow ranks costs: in a rank for each step and each second, and in the launcher for each record.

    python benchmarks/detection_cost.py [RANKS]

A rank notes when it begins and ends to wait for the others. Measured: a backward pass of a small network with these
notes and without them, in turns, in this process. Once a second a rank looks whether a collective is under way. The
launcher reads and compares the records of all ranks.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from limits import say

from flagperf.contract.perflog import Event, parse
from flagperf.results.stragglers import Stragglers
from flagperf.trainer.loop.clock import STEP, Clock
from flagperf.trainer.pytorch.arrival import Arrival
from flagperf.trainer.pytorch.by_version import collective_counts
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.waits import POLL

STEP_SECONDS = 0.01  # a short step of real training; the limit is 0.5 % of it
LIMIT = 0.005 * STEP_SECONDS * 1e6  # us
LOG_FREQ = 10
STEPS, ROUNDS = 500, 9


def rank_cost() -> float:
    """Microseconds of a step that the notes cost a rank."""
    torch.set_num_threads(1)
    network, inputs = torch.nn.Linear(64, 64), torch.randn(32, 64)

    def steps(arrival: Arrival | None, clock: Clock) -> float:
        clock.start()
        began = time.process_time()
        for number in range(1, STEPS + 1):
            loss = network(inputs).sum()
            if arrival is not None:
                arrival.expect(loss)
            loss.backward()
            if arrival is not None:
                arrival.passed()
            clock.lap(STEP)
            if number % LOG_FREQ == 0:
                clock.read()
        return time.process_time() - began

    def noted() -> float:
        clock = Clock()
        return steps(Arrival(clock), clock)

    return _difference(noted, lambda: steps(None, Clock())) / STEPS * 1e6


def look_cost() -> float:
    """Microseconds of a second that a rank needs to look for collectives that have not ended."""
    world = World()
    world.connect(torch.device("cpu"), "gloo", 60.0, alone=True)
    for _ in range(STEPS):
        torch.distributed.all_reduce(torch.ones(1))
    began = time.process_time()
    for _ in range(STEPS):
        collective_counts()
    return (time.process_time() - began) / STEPS / POLL * 1e6


def _difference(one: Callable[[], float], other: Callable[[], float]) -> float:
    """Median difference of two measurements that are made in turns."""
    return statistics.median(one() - other() for _ in range(ROUNDS))


def launcher_cost(ranks: int) -> float:
    """Microseconds of a rank's step that the launcher needs to read the rank's record and to compare the ranks."""
    value = {"epoch": 1, "loss": 1.0, "learning_rate": 0.1, "throughput": 1.0, "global_steps": 1, "img/s": 1.0}
    measured = {"step_time": 0.01, "own_time": 0.009, "communication_wait": 0.01, "data_wait": 0.0}
    count = 2000 // ranks
    lines = [
        (rank, Event("STEP_END", {"step": LOG_FREQ * number, **value, **measured}, "training.py", 1, 1, rank).line())
        for number in range(1, count + 1)
        for rank in range(ranks)
    ]
    detector = Stragglers(ranks, warmup_steps=5)
    began = time.process_time()
    for rank, line in lines:
        event = parse(line)
        assert event is not None and not list(detector.observe(rank, event.value))
    return (time.process_time() - began) / len(lines) / LOG_FREQ * 1e6


if __name__ == "__main__":
    ranks = int((sys.argv[1:] or ["8"])[0])
    say("detection of slow ranks, CPU of a rank for each step of 10 ms", rank_cost(), LIMIT, "us")
    say("detection of late ranks, CPU of a rank for each second", look_cost(), 0.005 * 1e6, "us")
    say(
        f"detection of slow ranks, CPU of the launcher for each step of each of {ranks} ranks",
        launcher_cost(ranks),
        LIMIT,
        "us",
    )
