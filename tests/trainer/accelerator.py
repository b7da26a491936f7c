"""The accelerator that tests train on: this machine's, or the chip made of Python in tests/data/acme_chip.

It is used in a process of its own only: a chip made of Python must be there before the first backward of a process.

    python accelerator.py FOLDER            train what FOLDER/trainings.yaml lists
    python accelerator.py FOLDER 2.2        … as on a torch of that version: by torch.<device>, not torch.accelerator
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, List, Mapping, Union

import torch
import toy
import yaml
from torch import Tensor, nn

from flagperf.contract.perflog import Event
from flagperf.trainer.pytorch import by_version

CHIP = toy.ROOT / "tests/data/acme_chip"
BACKENDS = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl", "mlu": "cncl", "musa": "mccl", "sdaa": "tccl"}
ACME = {"name": "acme", "device": "acme", "backend": "acmecl", "plugin": "torch_acme", "visible_devices": None}
Trainings = Mapping[str, Mapping[str, Any]]  # configurations by name
Answer = Union[List[List[Event]], str]  # the events of each rank; or the error that ended the training


def vendor(devices: int = 1) -> dict[str, Any]:
    """The vendor of this machine's accelerator, where there are so many of it; or else the one made of Python."""
    found = torch.accelerator.current_accelerator()  # whether there is one, says its module: asking torch.accelerator …
    if found is None or torch.get_device_module(found).device_count() < devices:  # … would start CUDA before a fork
        return ACME
    return {**ACME, "name": found.type, "device": found.type, "backend": BACKENDS[found.type], "plugin": None}


def device_name() -> str:
    """What that accelerator calls itself."""
    return "Acme A1" if vendor() is ACME else str(torch.get_device_module().get_device_name())


def on_device(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with an accelerator for each of its `ranks` in place of the CPU."""
    return {**configuration, "vendor": vendor(configuration.get("ranks", 1))}


# ---------------------------------------------------------------- tasks that show something


class Slow(toy.Classification):
    """The host takes its time in some steps, counted from 1."""

    def __init__(self, steps: list[int], seconds: float) -> None:
        self.steps, self.seconds, self.calls = steps, seconds, 0

    def loss(self, network: nn.Module, batch: toy.Batch) -> Tensor:
        self.calls += 1
        if self.calls in self.steps:
            time.sleep(self.seconds)
        return super().loss(network, batch)


class Reading(toy.Classification):
    """Reads a number from the device."""

    def loss(self, network: nn.Module, batch: toy.Batch) -> Tensor:
        loss = super().loss(network, batch)
        loss.item()
        return loss


class Waiting(toy.Classification):
    """Waits for the device's stream."""

    def loss(self, network: nn.Module, batch: toy.Batch) -> Tensor:
        torch.accelerator.current_stream().synchronize()
        return super().loss(network, batch)


class Leaving(toy.Classification):
    """Leaves the labels on the host."""

    def to_device(self, batch: toy.Batch, device: torch.device, memory_format: torch.memory_format) -> Any:
        return [super().to_device(batch[0], device, memory_format), batch[1]]


# ---------------------------------------------------------------- a process that trains


def environment() -> dict[str, str]:
    """The variables of a process that finds flagperf, the tests' own modules and the chip."""
    paths = [str(toy.ROOT), str(Path(__file__).parent), str(CHIP / "code"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}


def train_each(
    trainings: Trainings, folder: Path, python: str | Path = sys.executable, version: str = ""
) -> dict[str, Answer]:
    """Train configurations one after the other in one new process; those of two ranks should come first.

    `ranks` of a configuration: how many, 1 unless said. `never_waits: true`: the loop may not wait for the device.

    Args:
        python: the interpreter.
        version: of the torch that it is taken for; empty: its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {name: dict(configuration) for name, configuration in trainings.items()}
    (folder / "trainings.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    command = [str(python), __file__, str(folder), *filter(None, [version])]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: _answer(folder / name) for name in trainings}


def train_side_by_side(runs: Mapping[str, Trainings], folder: Path) -> dict[str, dict[str, Answer]]:
    """`train_each` for several runs at once; name of the run → its answers."""
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda name: train_each(runs[name], folder / name), runs)
        return dict(zip(runs, answers, strict=True))


def checkpoints(folder: Path, name: str) -> Path:
    """Where a training of `train_each` keeps its checkpoints."""
    return folder / name / "checkpoint"


def events_of(answer: Answer, rank: int = 0) -> list[Event]:
    """The events of one rank of a training, which must have ended well."""
    assert not isinstance(answer, str), answer
    return answer[rank]


def _answer(folder: Path) -> Answer:
    error = folder / "error"
    return error.read_text() if error.exists() else [toy.read_log(log) for log in sorted(folder.glob("rank*/log0"))]


# ---------------------------------------------------------------- in that process


def main(folder: Path, version: str = "") -> None:
    """Train what the folder's trainings.yaml lists."""
    if version:
        by_version.VERSION = tuple(int(part) for part in version.split("."))
    # Imported by every optimizer, and for every tensor of Python: here once for all ranks.
    import torch._dynamo

    with contextlib.suppress(ImportError):  # an older torch has none
        import torch.distributed.tensor

    torch.set_num_threads(1)
    # The chip has plain attention only; rounding otherwise, a CPU's losses would differ from its.
    torch.backends.cuda.enable_flash_sdp(False)  # on a CPU, too
    for name, configuration in yaml.safe_load((folder / "trainings.yaml").read_text(encoding="utf-8")).items():
        os.environ["FLAGPERF_CHECKPOINT_DIR"] = str(checkpoints(folder, name))
        try:
            train(configuration, folder / name)
        except Exception:
            (folder / name / "error").write_text(traceback.format_exc())
        toy.reset_settings()


def train(configuration: dict[str, Any], folder: Path) -> None:
    """Train in this process, or in one for each rank."""
    ranks = configuration.pop("ranks", 1)
    (folder / "rank0").mkdir(parents=True)
    if ranks > 1:
        toy.fork_here(partial(_train_rank, configuration), folder, ranks)
    else:
        toy.train(configuration, folder / "rank0", waits_refused() if configuration.pop("never_waits", 0) else None)


def _train_rank(configuration: dict[str, Any], folder: Path) -> None:
    if configuration["vendor"] == ACME:  # which has one chip a process, as if each rank were a node
        os.environ.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    toy.train(configuration, folder)


@contextlib.contextmanager
def waits_refused() -> Iterator[None]:
    """A block that raises where the host waits for the device, but for an event: for a stream, a number, a copy …"""
    module = torch.get_device_module()

    def refuse(frame: Any, kind: str, function: Any) -> None:
        if kind == "call" and frame.f_code.co_name == "synchronize":
            owner = frame.f_locals.get("self")
        elif kind == "c_call" and "synchronize" in function.__name__:
            owner = function.__self__
        else:
            return
        if not isinstance(owner, (torch.Event, module.Event)):
            raise RuntimeError(f"called a synchronizing operation: {function or frame.f_code}")

    module.set_sync_debug_mode("error")  # for operators that wait
    sys.setprofile(refuse)  # for calls that say so
    try:
        yield
    finally:
        sys.setprofile(None)
        module.set_sync_debug_mode("default")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
