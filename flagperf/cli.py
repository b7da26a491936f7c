"""The command line: `flagperf [verb] words…`. The only place that prints and that exits."""

from __future__ import annotations

import argparse
import asyncio
import errno
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from flagperf import __version__
from flagperf.errors import ConfigError, FlagperfError, HostError, NoValidCaseError, nearest

if TYPE_CHECKING:
    from flagperf.doctor import Row
    from flagperf.schema import RunConfig

BEGAN = time.time()  # of the command, but for the start of the interpreter

HELP = """\
flagperf trains real models on AI accelerators and reports numbers that can be compared.

usage: flagperf [VERB] [WORDS…] [OPTIONS]

  flagperf                                             resnet50 (tiny) on this machine's CPU, to its target
  flagperf model=glm nproc=2 repeat=3                  another case, two ranks, three rounds
  flagperf -m model=resnet50,glm nproc=1,2 max_steps=20            a sweep: one job per combination
  flagperf model=glm vendor=nvidia hardware=A100 nnodes=2 nproc=8 cluster=lab data_dir=/data/glm
  flagperf model=glm vendor=nvidia hardware=A100 nproc=8 dry_run=true        print it all, run nothing

verbs:
  run      (the default) compose the words, train, report
  list     cases, vendors, hardware, clusters and experiments that can be chosen
  report   RUN_DIR: write the report again, from the files alone
  doctor   can these words run on this cluster? one line a check, and what to do
  clean    remove what runs that died left behind on a cluster
  check    vendor=NAME: what a vendor's files lack
  data     check | sample | prepare: look at a case's data_dir, write sample data, convert the original data

words are `key=value`. The ones needed most:
  model=NAME  vendor=NAME  hardware=NAME  cluster=NAME  size=full|tiny  runtime=docker|process
  nnodes=N  nproc=N                nodes, and devices per node
  data_dir=PATH                    the real data; sample data is used where size=tiny
  max_steps=N  max_epochs=N  max_time=SECONDS      stop early
  train_batch_size=N  lr=X  precision=fp32|tf32|amp_fp16|amp_bf16
  repeat=N                         rounds of the same job
  division=closed|open             open: any key of the case may change, and the report says so
  dry_run=true                     print configuration, changes and commands

options:
  -m, --multirun       sweep over comma-separated values
  --config-dir DIR     a folder of your own with model/, vendor/, cluster/, experiment/ …; may be repeated
  -sc, --shell-completion install=bash|zsh|fish     shell completion, e.g. eval "$(flagperf -sc install=bash)"
  --version, -h, --help

exit codes: 0 done, 2 wrong usage or configuration, 3 a host cannot be used, 4 no valid case,
            5 a training failed, 6 target missed (require_target=true), 130 interrupted
"""


def main() -> NoReturn:
    """Entry of the console script."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Errors raised on purpose are printed, without a traceback."""
    try:
        options = _parse(argv)
        code = VERBS[options.verb](options)
        sys.stdout.flush()
        return code
    except FlagperfError as error:
        print(f"flagperf: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # who reads the output has had enough of it, as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print("flagperf: no space is left for results; what was written before stays", file=sys.stderr)
        return HostError.exit_code
    except KeyboardInterrupt:
        print("flagperf: interrupted", file=sys.stderr)
        return 130


def run(options: argparse.Namespace) -> int:
    """Compose, plan, execute, read, report."""
    from flagperf.compose import compose_jobs
    from flagperf.plan import dry_run_text

    jobs = compose_jobs(options.words, multirun=options.multirun, config_dirs=options.config_dir)
    if not jobs:
        raise NoValidCaseError("no case is left to run")
    if jobs[0].config["dry_run"]:
        print("\n".join(dry_run_text(job) for job in jobs))
        return 0
    from rich.console import Console

    from flagperf.session import run_jobs

    return asyncio.run(run_jobs(jobs, Console(), BEGAN))


def list_choices(options: argparse.Namespace) -> int:
    """Print what can be chosen, one line each."""
    from rich.console import Console
    from rich.table import Table

    from flagperf import listing

    kinds = options.words or list(listing.KINDS)
    for kind in kinds:
        if kind not in listing.KINDS:
            raise ConfigError("unknown kind of list", given=kind, allowed=nearest(kind, listing.KINDS))
        table = Table(title=kind, title_justify="left", box=None, show_header=False)
        for name, title in listing.rows(kind, options.config_dir):
            table.add_row(name, title)
        Console().print(table)
    return 0


def report_again(options: argparse.Namespace) -> int:
    """Write the report of a finished run again."""
    from rich.console import Console

    from flagperf import report

    if len(options.words) != 1:
        raise ConfigError(
            "report takes one run folder", given=" ".join(options.words), advice="flagperf report RUN_DIR"
        )
    folder = Path(options.words[0])
    summaries = report.read_run(folder)
    Console().print(report.terminal_table(summaries))
    for path in report.write(folder, summaries):
        print(path)
    return 0


def check(options: argparse.Namespace) -> int:
    """Print what a vendor's files lack; exit code 2 where something is lacking that a run needs."""
    from flagperf.check import check_vendor

    key, _, name = " ".join(options.words).partition("=")
    if key != "vendor" or not name:
        raise ConfigError("check takes one vendor", given=" ".join(options.words), advice="flagperf check vendor=NAME")
    lacks = check_vendor(name, options.config_dir)
    for file, of_file in itertools.groupby(lacks, key=lambda lack: lack.file):
        print(file)
        for lack in of_file:
            needed = "" if lack.needed else "    (runs without)"
            print(f"  {lack.key + ':' if lack.key else 'missing:':12} {lack.what}{needed}")
    if not lacks:
        print(f"vendor {name}: nothing is missing")
    return ConfigError.exit_code if any(lack.needed for lack in lacks) else 0


def data(options: argparse.Namespace) -> int:
    """Look at a case's data, write its sample data or convert its original data; then print what is there."""
    from flagperf import data as case_data
    from flagperf.data_layout import check_layout, count_entries

    action, *words = options.words or [""]
    if action not in case_data.SIZES:
        allowed = nearest(action, case_data.SIZES)
        advice = "flagperf data check model=NAME data_dir=PATH"
        raise ConfigError("data takes first what to do", given=action, allowed=allowed, advice=advice)
    source = next((word.removeprefix("source=") for word in words if word.startswith("source=")), None)
    job = case_data.compose_case(action, [word for word in words if not word.startswith("source=")], options.config_dir)
    if action == "sample":
        case_data.write_sample(job)
    elif action == "prepare":
        case_data.prepare(job, source)
    folder, layout = Path(job.config["data_dir"]), job.config["data"]
    print(f"in {folder}:", flush=True)
    for pattern, least, found in count_entries(layout, folder):
        print(f"{found:>12,}  {pattern}" + (f"    MISSING: at least {least:,}" if found < least else ""), flush=True)
    if action == "check":
        check_layout(layout, folder)
        if not case_data.read(job):
            print("not opened: no PyTorch here; runtime.python=PATH names a Python that has it")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Print what may keep the words from running on the cluster; exit code 3 when something will."""
    from flagperf.doctor import examine

    return _print_rows(asyncio.run(examine(_only_job(options))))


def clean(options: argparse.Namespace) -> int:
    """Remove what dead runs left on the cluster, and print it."""
    from flagperf.clean import clean as clean_hosts

    return _print_rows(asyncio.run(clean_hosts(_only_job(options))))


def _only_job(options: argparse.Namespace) -> RunConfig:
    """The job of a verb that looks at a cluster; unlike a run it does not need a data_dir."""
    from flagperf.compose import compose

    return compose([*options.words, "dry_run=true"], options.config_dir)


def _print_rows(rows: Sequence[Row]) -> int:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("host", "check", "state", box=None)
    for name in ("found", "do"):
        table.add_column(name, overflow="fold")  # a long path is shown whole
    for row in rows:
        colour = {"ok": "green", "warning": "yellow", "failed": "red"}[row.state]
        table.add_row(row.host, row.check, f"[{colour}]{row.state}[/]", escape(row.found), escape(row.advice))
    Console().print(table)
    return HostError.exit_code if any(row.state == "failed" for row in rows) else 0


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run,
    "list": list_choices,
    "report": report_again,
    "check": check,
    "data": data,
    "doctor": doctor,
    "clean": clean,
}


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Split options from words; the first word may be a verb."""
    if any(word in ("-sc", "--shell-completion") for word in argv):
        _complete_shell()
    parser = _Parser(prog="flagperf", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-cd", "--config-dir", type=_folder, action="append", default=[])
    parser.add_argument("words", nargs="*")
    options = parser.parse_intermixed_args(argv)
    if options.help or options.version:
        print(f"flagperf {__version__}" if options.version else HELP, end="\n" if options.version else "")
        sys.exit(0)
    options.verb = "run"
    if options.words and "=" not in options.words[0] and not options.words[0].startswith(("+", "~")):
        options.verb = options.words.pop(0)
        if options.verb not in VERBS:
            raise ConfigError(
                "unknown verb",
                given=options.verb,
                allowed=nearest(options.verb, VERBS),
                advice="words are key=value; flagperf --help",
            )
    return options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, advice="flagperf --help")


def _folder(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_dir():
        raise ConfigError("no such folder", key="--config-dir", given=text)
    return path.resolve()


def _complete_shell() -> NoReturn:
    """Let Hydra install or answer shell completion, over flagperf's own configuration."""
    import hydra

    from flagperf.places import CONF

    hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(lambda _: None)()
    sys.exit(0)
