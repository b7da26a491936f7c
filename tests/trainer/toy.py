"""A case small enough to compute by hand, and ways to run it: in this process, or under torchrun."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
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
    """Call a function in processes that are ranks of one job, as torchrun would make them; what each returned.

    They are forks of the fork server, so they need not import torch and the trainer again, which takes seconds.
    """
    answers: list[Any] = _asked((function, folder, ranks))
    return answers


def prepare_ranks(function: Callable[[], Any]) -> None:
    """Call a function in the fork server: what it imports, the ranks of later calls need not. It may not compute."""
    _asked((function, None, 0))


def fork_here(
    function: Callable[[Path], Any], folder: Path, ranks: int = 2, caller: Connection | None = None
) -> list[Any]:
    """`fork_ranks` from this process, in which autograd never ran: its threads, and a compiler's, are not forked.

    Args:
        caller: who waits for the answer; the ranks end with it.
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
            answer = pickle.dumps((function(own), None))
        except BaseException:
            answer = pickle.dumps((None, traceback.format_exc()))
        answers.send_bytes(answer)
        os._exit(0)

    processes: dict[Connection, ForkProcess] = {}
    for rank in range(ranks):
        reader, writer = fork.Pipe(duplex=False)
        processes[reader] = fork.Process(target=rank_process, args=(rank, writer))
        processes[reader].start()
        writer.close()  # so that the end of the rank ends the pipe
    try:
        given = _answers(processes, caller)
    finally:
        for process in processes.values():
            process.kill()  # it has answered, or the test took too long
            process.join()
    errors = [error for _, error in given if error]
    assert not errors, "\n".join(errors)
    return [answer for answer, _ in given]


def _answers(processes: Mapping[Connection, ForkProcess], caller: Connection | None) -> list[tuple[Any, str | None]]:
    """Answer and error of each rank, in the order of the ranks. A rank that dies fails the test at once."""
    given: dict[Connection, tuple[Any, str | None]] = {}
    while len(given) < len(processes):
        waiting = [reader for reader in processes if reader not in given]
        for reader in wait([*waiting, *([caller] if caller else [])]):
            assert isinstance(reader, Connection)
            if reader is caller:
                caller.recv_bytes()  # empty: see `_asked`
                raise AssertionError("nobody waits for the answer any more")
            try:
                given[reader] = pickle.loads(reader.recv_bytes())
            except EOFError:
                processes[reader].join()
                rank = list(processes).index(reader)
                raise AssertionError(f"rank {rank} ended with {processes[reader].exitcode} and no answer") from None
    return [given[reader] for reader in processes]


# ---------------------------------------------------------------- the fork server

_server: Connection | None = None


def start_fork_server() -> None:
    """Fork the process that ranks are forked from: before this process computes, and after it imported the tests."""
    global _server
    if _server is None:
        _server, other = multiprocessing.Pipe()
        if os.fork() == 0:
            _server.close()
            gc.freeze()  # or it would copy all objects of this process
            try:
                _serve(other)
            finally:
                os._exit(0)
        other.close()


def _serve(caller: Connection) -> None:
    """Answer requests until the caller ends."""
    while True:
        try:
            request = caller.recv_bytes()
        except EOFError:
            return
        if not request:  # see `_asked`; the answer was faster
            continue
        answer: tuple[Any, str | None]
        try:
            called, state = pickle.loads(request)
            _take_over(*state)
            function, folder, ranks = pickle.loads(called)
            answer = (function() if folder is None else fork_here(function, folder, ranks, caller)), None
        except EOFError:
            return
        except AssertionError as error:
            answer = None, str(error)
        except Exception:
            answer = None, traceback.format_exc()
        caller.send_bytes(pickle.dumps(answer))


def _asked(request: tuple[Callable[..., Any], Path | None, int]) -> Any:
    """What the server answers. Its ranks have the variables, the folder and the filters of warnings of this test."""
    import cloudpickle  # also functions inside of functions; older stacks have none

    start_fork_server()
    assert _server is not None
    state = (dict(os.environ), str(Path.cwd()), list(sys.path), list(warnings.filters))
    _server.send_bytes(pickle.dumps((cloudpickle.dumps(request), state)))
    try:
        answered = _server.recv_bytes()
    except (
        BaseException
    ):  # such as a test's limit of time: the ranks end, and nobody takes their answer for a later one
        with suppress(OSError, EOFError):
            _server.send_bytes(b"")
            _server.recv_bytes()
        raise
    answer, error = pickle.loads(answered)
    assert not error, error
    return answer


def _take_over(environment: dict[str, str], folder: str, path: list[str], filters: list[Any]) -> None:
    """Let this process have the surroundings of the test."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = path
    warnings.resetwarnings()
    for action, message, category, module, line in reversed(filters):
        texts = (getattr(pattern, "pattern", pattern) or "" for pattern in (message, module))
        warnings.filterwarnings(action, next(texts), category, next(texts), line)
