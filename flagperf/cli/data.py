"""flagperf data: check a case's data_dir, write sample data, or convert the original data

usage: flagperf data check|sample|prepare model=NAME data_dir=PATH [source=PATH] [OVERRIDES…]

words:
  check    check that data_dir has the files of the case, and read the first samples
  sample   write the sample data of the case's tiny size to data_dir
  prepare  convert the original data of source=PATH, and write it to data_dir

options: --config-dir

examples:
  flagperf data check model=resnet50 data_dir=/data/imagenet
  flagperf data prepare model=bert data_dir=/data/bert source=/data/wikipedia

exit codes: 0, 2, 5, 130
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from flagperf.cli.help import usage
from flagperf.config.compose import compose
from flagperf.config.parts.data_layout import check_layout, count_entries, expected, has_layout
from flagperf.config.schema.values import JobConfig
from flagperf.contract.extent import NOT_THE_CASE
from flagperf.contract.regular import yaml_text
from flagperf.contract.splits import check_disjoint
from flagperf.errors import ConfigError, InterruptedRunError, TrainingError, nearest
from flagperf.hosts import guard
from flagperf.run.command_file import key_of
from flagperf.run.copies import check_copies
from flagperf.user import user_path

SIZES = {"check": "full", "sample": "tiny", "prepare": "full"}  # action → size, unless an override chooses a size
GRACE = 5.0  # seconds between SIGTERM and SIGKILL of a stopped writer


def main(options: argparse.Namespace) -> int:
    """Check a case's data, write its sample data or convert its original data; then print the number of its files."""
    action, *arguments = options.arguments or [""]
    if action not in SIZES:
        allowed = nearest(action, SIZES)
        raise ConfigError("data needs an action first", given=action, allowed=allowed, advice=usage("data"))
    sources = [argument for argument in arguments if argument.startswith("source=")]
    job = compose_case(action, [argument for argument in arguments if argument not in sources], options.config_dir)
    if action == "sample":
        write_sample(job)
    elif action == "prepare":
        prepare(job, sources[0].removeprefix("source=") if sources else None)
    folder, layout = Path(job.data_dir), job.data
    print(f"in {folder}:", flush=True)
    for pattern, least, count in count_entries(layout, folder):
        print(f"{count:>12,}  {pattern}" + (f"    MISSING: at least {least:,}" if count < least else ""), flush=True)
    if action == "check":
        check_layout(layout, folder)
        check_disjoint(job.config, folder, quick=False)
        check_copies(job.config, folder)
        if not read(job):
            print(f"not opened: no {job.framework.product} here; runtime.python=PATH names a Python that has it")
    return 0


def compose_case(action: str, overrides: Sequence[str], config_dirs: Sequence[Path]) -> JobConfig:
    """The case of the data. `data_dir` of its configuration is the folder.

    Raises:
        ConfigError: the overrides name no folder, or a folder on other hosts.
    """
    keys = {key_of(override) for override in overrides}
    if "data_dir" not in keys:
        advice = f"flagperf data {action} model=NAME data_dir=PATH"
        raise ConfigError("the folder of the data is missing", key="data_dir", advice=advice)
    size = [] if "size" in keys else [f"size={SIZES[action]}"]
    job = compose([*size, "division=open", *overrides, "dry_run=true"], config_dirs)  # this gives no result
    if not all(node.same_files for node in job.cluster.nodes or (job.cluster.stand_in(0),)):
        raise ConfigError(
            "this command reads the data of this machine only",
            key="cluster",
            given=job.cluster.name,
            allowed="clusters with this machine's files",
            advice="start flagperf on the host; flagperf doctor checks the data_dir of every host",
        )
    return job


def read(job: JobConfig) -> bool:
    """Open the data sets with the case's own code, print their numbers of samples, and read the first sample of each.

    Returns False where this machine has no training environment; then nothing is read.

    Raises:
        ConfigError: the data cannot be read. The reason is on the terminal.
    """
    if not can_read(job):
        return False
    _call_case(job, "read")
    return True


def can_read(job: JobConfig) -> bool:
    """Whether this machine has a training environment."""
    return _python(job) != sys.executable or find_spec(job.framework.module) is not None


def other_data(job: JobConfig) -> str:
    """The line of `read` on data that is not that of the full-size case; "" for its own data, and where unknown."""
    if not can_read(job):
        return ""
    with _config_file(job) as path:
        argv = [_python(job), "-m", "flagperf.trainer.data.case_data", path, "read"]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    return next((line for line in done.stdout.splitlines() if line.startswith(NOT_THE_CASE)), "")


def write_sample(job: JobConfig) -> None:
    """Write the sample data of the case and size into data_dir.

    Raises:
        ConfigError: the case has no sample data, or the folder is not empty.
        TrainingError: the writer crashed. Its traceback is on the terminal.
    """
    folder = Path(job.data_dir)
    if not job.data.get("sample"):
        raise ConfigError("the case has no sample data", key="data.sample", given="null")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            "the folder is not empty" if folder.is_dir() else "a file has the name of this folder",
            key="data_dir",
            given=folder,
            advice="sample data is written into a new or empty folder",
        )
    with _staged(folder) as staged:
        _call_case(job, "sample", str(staged))


def prepare(job: JobConfig, source: str | None) -> None:
    """Convert the original data at `source` into the files that the case reads, in data_dir.

    Raises:
        ConfigError: the case needs no conversion, the source is wrong, or a file would be overwritten.
        TrainingError: the conversion crashed. Its traceback is on the terminal.
    """
    data, folder = job.data, Path(job.data_dir)
    if not data.get("prepare"):
        problem = "the data of this case needs no conversion"
        raise ConfigError(problem, key="data.prepare", given="null", allowed=expected(data))
    if source is None:
        advice = f"flagperf data prepare model={job.case} source=PATH data_dir={folder}"
        raise ConfigError("the original data is missing", key="source", advice=advice)
    path = user_path(source).absolute()
    if not path.exists():
        raise ConfigError("no such file or folder", key="source", given=path)
    if existing := _existing_data(job, folder):  # checked before hours of work
        advice = "choose another data_dir, or move the files away that you want to make again"
        raise ConfigError("data_dir holds data of this case already", key="data_dir", given=existing, advice=advice)
    with _staged(folder) as staged:
        _call_case(job, "prepare", str(path), str(staged))


def _existing_data(job: JobConfig, folder: Path) -> Path | None:
    """The case's data that is already in the folder: a split, or the folder itself where it is complete."""
    splits = [folder / job.config[key] for key in ("train_path", "eval_path") if job.config.get(key)]
    complete = job.data["require"] and has_layout(job.data, folder)
    return next((path for path in splits if path.exists()), folder if complete else None)


@contextlib.contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """A temporary folder in `folder`. Its content moves up where the block ends without an error."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=".flagperf-", dir=folder))
    except OSError as error:
        raise ConfigError("data_dir cannot be written", key="data_dir", given=folder, advice=str(error)) from None
    try:
        yield staged
        if taken := list(_taken(staged, folder)):
            raise ConfigError(
                "files would be overwritten; data_dir did not change",
                key="data_dir",
                given=", ".join(str(path) for path in taken[:5]) + (" …" if len(taken) > 5 else ""),
                advice="choose another data_dir, or move these away",
            )
        _move(staged, folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # a folder with data stays
                folder.rmdir()


def _taken(source: Path, target: Path) -> Iterator[Path]:
    """The files that would be overwritten by moving the content of a folder into another. Folders are merged."""
    for path in sorted(source.iterdir()):
        existing = target / path.name
        if path.is_dir() and existing.is_dir():
            yield from _taken(path, existing)
        elif existing.is_symlink() or existing.exists():
            yield existing


def _move(source: Path, target: Path) -> None:
    """Move the content of a folder, in sorted order: the marker of sample data comes before the data."""
    for path in sorted(source.iterdir()):
        if (target / path.name).is_dir():
            _move(path, target / path.name)
        else:
            path.rename(target / path.name)


def _call_case(job: JobConfig, action: str, *paths: str) -> None:
    """Call the case's own code in the training environment; its output goes to this terminal."""
    with _config_file(job) as path:
        status = _call(_python(job), "-m", "flagperf.trainer.data.case_data", path, action, *paths)
    problem = "the data cannot be read" if action == "read" else "nothing was written"
    if status == ConfigError.exit_code:
        raise ConfigError(f"{problem}, for the reason above", key="data_dir", given=job.data_dir)
    if status:
        raise TrainingError(f"{problem}: the code of the case ended with exit status {status}")


@contextlib.contextmanager
def _config_file(job: JobConfig) -> Iterator[str]:
    """The path of a temporary file with the configuration."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as config:
        config.write(yaml_text(dict(job.config)))
        config.flush()
        yield config.name


def _python(job: JobConfig) -> str:
    """The interpreter of the training environment on this machine."""
    return job.runtime.python or job.local_python


def _call(*argv: str) -> int:
    """Run a command, and return its exit status. None of its processes outlives this process."""
    command = [sys.executable, "-I", "-S", guard.__file__, str(GRACE), *argv]
    before = signal.signal(signal.SIGTERM, _interrupt)
    # A session of its own: Ctrl-C reaches only this process, which then closes the guard's input. That stops the guard.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        raise InterruptedRunError("; data_dir did not change") from None
    finally:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
