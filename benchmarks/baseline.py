"""What the benchmarks share: tiny cases, of each framework one, and the scripts that somebody would write by hand."""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limits import say

from flagperf.config.compose import compose_jobs
from flagperf.config.schema.values import JobConfig
from flagperf.contract import perflog

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Python keeps what it compiled, as it does for users

FLAGPERF = (sys.executable, "-c", "from flagperf.cli.main import main; main()")
RANKS = 2
PORT = 29511


@dataclass(frozen=True)
class Baseline:
    """A case of the tiny size, and the script by hand, which prints one JSON line of figures."""

    words: tuple[str, ...]  # of the command line that choose the case
    script: str  # below benchmarks/bare; takes DATA_DIR BATCH_SIZE STEPS WARMUP_STEPS
    launch: tuple[str, ...] = ()  # what starts it, between the interpreter and the script

    @functools.cached_property
    def job(self) -> JobConfig:
        """The run of the case."""
        (job,) = compose_jobs(self.words, multirun=False, config_dirs=[])
        return job

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved configuration of the case."""
        return self.job.config

    @functools.cached_property
    def data(self) -> Path:
        """The sample data of the case; written by a run of one step where it is not there yet."""
        folder = Path(self.config["data_dir"])
        if not folder.is_dir():
            with tempfile.TemporaryDirectory() as results:
                subprocess.run([*FLAGPERF, *self.words, "max_steps=1", f"result_dir={results}"], check=True)
        return folder

    @property
    def environment(self) -> dict[str, str]:
        """That of both sides: this process's, with what the vendor's file sets for the ranks."""
        return {**os.environ, **self.config["vendor"]["environment"]}

    def flagperf(self, folder: str, *overrides: str) -> list[str]:
        """The command of a run with its results below a folder."""
        folders = (f"result_dir={folder}", f"data_dir={self.data}")
        return [*FLAGPERF, *self.words, f"nproc={RANKS}", *folders, *overrides]

    def by_hand(self, *, steps: int, warmup_steps: int) -> dict[str, Any]:
        """Run the script on the same data, with the same batch size. Gives its figures.

        Returns:
            first_step: wall clock at its end; units_per_second: images or tokens of the whole job, after the warm-up;
            memory_gib: of rank 0, resident, at the peak.
        """
        script = Path(__file__).parent / "bare" / self.script
        arguments = [str(self.data), str(self.config["train_batch_size"]), str(steps), str(warmup_steps)]
        with tempfile.TemporaryDirectory() as folder:  # a launcher may write its logs here
            command = [self.job.local_python, *self.launch, str(script), *arguments]
            done = subprocess.run(command, env=self.environment, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{self.script} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return last_json(done.stdout)


TORCHRUN = (
    *("-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", str(RANKS)),
    *("--master-addr", "127.0.0.1", "--master-port", str(PORT)),
)
BASELINES = {
    "pytorch": Baseline((), "resnet50_pytorch.py", TORCHRUN),
    "fsdp2": Baseline(("model=llama3_8b", f"nproc={RANKS}"), "fsdp2_llama.py", TORCHRUN),
    "paddle": Baseline(
        ("model=bert", "framework=paddle"),
        "bert_paddle.py",
        ("-m", "paddle.distributed.launch", "--nproc_per_node", str(RANKS), "--backend", "gloo"),
    ),
    "tensorflow2": Baseline(("model=resnet50", "framework=tensorflow2"), "resnet50_tensorflow2.py"),
    "mindspore": Baseline(("model=resnet50", "framework=mindspore"), "resnet50_mindspore.py"),
}


def first_step_end(log: Path) -> float:
    """When a rank ended its first step, by its log: seconds since 1970."""
    events = map(perflog.parse, log.read_text().splitlines())
    return next(event.time_ms for event in events if event and event.event == "STEP_END") / 1000


def print_starts(title: str, by_hand: str, pairs: Sequence[tuple[float, float]], limit: float) -> None:
    """Print how long both sides took to their first step: the medians, with their difference.

    Args:
        what: starts.
        by_hand: name of the other side.
        pairs: seconds of that side and of flagperf, of each round.
        limit: seconds that flagperf may take more.
    """
    base, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{by_hand} {base:.2f} s, flagperf {ours:.2f} s: {ours / base:.2f} x")
    say(f"first step, {title}", ours - base, limit, f"s above {by_hand}")


def print_phases(rounds: Sequence[Mapping[str, float]]) -> None:
    """Print the medians of what flagperf's phases took, in seconds."""
    for phase in rounds[0]:
        print(f"    {phase:12} {statistics.median(phases[phase] for phases in rounds):6.2f} s")


def last_json(output: str) -> dict[str, Any]:
    """The last line of an output that is JSON."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1]))
