"""A case small enough to compute by hand, and ways to run it: in this process, or under torchrun."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Tuple

import torch
import yaml
from torch import Tensor, distributed, nn
from torch.nn import functional
from toy_config import ROOT as ROOT  # the users of this module take these from here
from toy_config import config as config
from toy_config import node as node

from flagperf.contract.perflog import Event, PerfLog, parse
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.task import Task

Batch = Tuple[Tensor, Tensor]


class Points(torch.utils.data.Dataset[Batch]):
    """Points with a label each; `noise` is added at random, as augmentation would."""

    def __init__(self, count: int, seed: int = 7, noise: float = 0.0, nan_at: int | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(count, 8, generator=generator)
        self.labels = (self.inputs.sum(dim=1) > 0).long()
        self.noise = noise
        if nan_at is not None:
            self.inputs[nan_at] = float("nan")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Batch:
        return self.inputs[index] + self.noise * torch.randn(8), self.labels[index]


def labelled(classes: str) -> Points:
    """Points whose classes have names of one letter."""
    points = Points(64)
    points.classes = list(classes)  # type: ignore[attr-defined]
    return points


def of_rank(counts: Sequence[int]) -> Points:
    """As many points as the list says for this rank."""
    return Points(counts[int(os.environ["RANK"])])


def network(dropout: float = 0.0) -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))


class Classification(Task):
    """Cross-entropy; accuracy, and the sum of the first inputs of all evaluated points, each of which is different."""

    metrics: Sequence[str] | None = ("accuracy", "count", "inputs")

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(network(inputs), labels)

    def samples(self, batch: Batch) -> int:
        return len(batch[1])

    def units(self, batch: Batch) -> int:
        return batch[0].numel()

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, Any]:
        sums = torch.zeros(3, dtype=torch.float64, device=device)
        for inputs, labels in batches:
            right = (network(inputs).argmax(1) == labels).sum().double()
            sums += torch.stack([right, torch.full_like(right, len(labels)), inputs[:, 0].double().sum()])
        if distributed.is_initialized():
            distributed.all_reduce(sums)
        right, count, inputs = sums.tolist()
        return {"accuracy": right / count, "count": count, "inputs": inputs}


class Silent(Classification):
    """The same, without saying which metrics it gives."""

    metrics = None


def read_log(path: Path) -> list[Event]:
    """The events of a rank log."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [event for line in lines if (event := parse(line)) is not None]


def values(events: list[Event], name: str) -> list[Mapping[str, Any]]:
    """The values of all events of one name."""
    return [event.value for event in events if event.event == name]


def losses(events: list[Event]) -> list[float]:
    """The loss of each logged step."""
    return [value["loss"] for value in values(events, "STEP_END")]


def train(
    configuration: Mapping[str, Any], folder: Path, watched: AbstractContextManager[None] | None = None
) -> list[Event]:
    """Train in this process, as the only rank, the loop itself under `watched`; the events that it logged."""
    from flagperf.trainer.loop.finish import finished
    from flagperf.trainer.loop.training import Training
    from flagperf.trainer.pytorch.entry import engine

    began = time.perf_counter()
    path = folder / f"log{len(list(folder.glob('log*')))}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        perflog, own = PerfLog(0, fd), engine(configuration)
        with watched or nullcontext():
            trained = Training(own, perflog).run()
        perflog.log("FINISHED", finished(own, trained, began))
    finally:
        os.close(fd)
    return read_log(path)


def reset_settings() -> None:
    """Set precision and determinism back to torch's own, after a training in this process."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.deterministic = False
    torch.set_deterministic_debug_mode("default")


def start(
    configuration: Mapping[str, Any], folder: Path, *launcher: str, python: Path = Path(__file__).parent
) -> subprocess.CompletedProcess[str]:
    """Start `-m flagperf.trainer` with the configuration; its ranks find this file and log into the folder.

    Args:
        python: another folder of modules that they find.
    """
    folder.mkdir(exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(dict(configuration)), encoding="utf-8")
    environment = os.environ | {
        "FLAGPERF_LOG_DIR": str(folder),
        "PYTHONPATH": f"{python}:{Path(__file__).parent}",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, *launcher, "-m", "flagperf.trainer", str(path)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def taken(batches: TrainBatches, count: int) -> list[list[int]]:
    """The indices of the next batches."""
    return [indices for _, indices in itertools.islice(batches, count)]


def torchrun(configuration: Mapping[str, Any], folder: Path, ranks: int = 2) -> tuple[int, list[list[Event]]]:
    """Train under torchrun; its exit status, and the events of each rank."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    done = start(configuration, folder, *launcher)
    return done.returncode, [read_log(folder / f"rank{rank}.out.log") for rank in range(ranks)]


def fork_ranks(function: Callable[[Path], Any], folder: Path, ranks: int = 2) -> list[Any]:
    """Call a function in two processes that are ranks of one job, as torchrun would make them; what each returned.

    Forked from this process, they need not import torch and the trainer again, which takes seconds. A training that is
    compiled also needs a process of its own: the compiler's threads stay, and a fork with them may wait for ever.
    """
    import torch._dynamo  # the first optimizer imports it

    import flagperf.trainer.pytorch.entry
    import flagperf.trainer.pytorch.finish  # noqa: F401

    fork = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    cores = sorted(os.sched_getaffinity(0))

    def rank_process(rank: int, answers: Connection) -> None:
        torch.set_num_threads(1)  # OpenMP's pool does not survive a fork …
        if ranks > 1:  # … and several ranks would divide the cores: give each one; a lone one may move between them
            os.sched_setaffinity(0, {cores[rank % len(cores)]})
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
        os.environ.update({name: str(value) for name, value in names.items()})
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        own = folder / f"rank{rank}"
        own.mkdir(parents=True, exist_ok=True)
        try:
            answers.send((function(own), None))
        except BaseException:
            answers.send((None, traceback.format_exc()))
        os._exit(0)

    processes: dict[Connection, ForkProcess] = {}
    for rank in range(ranks):
        reader, writer = fork.Pipe(duplex=False)
        processes[reader] = fork.Process(target=rank_process, args=(rank, writer))
        processes[reader].start()
        writer.close()  # so that the end of the rank ends the pipe
    try:
        given = _answers(processes)
    finally:
        for process in processes.values():
            process.kill()  # it has answered, or the test took too long
            process.join()
    errors = [error for _, error in given if error]
    assert not errors, "\n".join(errors)
    return [answer for answer, _ in given]


def _answers(processes: Mapping[Connection, ForkProcess]) -> list[tuple[Any, str | None]]:
    """Answer and error of each rank, in the order of the ranks. A rank that dies fails the test at once."""
    given: dict[Connection, tuple[Any, str | None]] = {}
    while len(given) < len(processes):
        for reader in wait([reader for reader in processes if reader not in given]):
            assert isinstance(reader, Connection)
            try:
                given[reader] = reader.recv()
            except EOFError:
                processes[reader].join()
                rank = list(processes).index(reader)
                raise AssertionError(f"rank {rank} ended with {processes[reader].exitcode} and no answer") from None
    return [given[reader] for reader in processes]
