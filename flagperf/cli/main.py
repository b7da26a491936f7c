"""The command line: `flagperf [verb] overrides…`. Parses it, calls the verb, prints errors, exits."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from flagperf import __version__
from flagperf.errors import ConfigError, FlagperfError, HostError, nearest

BEGAN = time.time()  # when the command was given, but for the start of the interpreter

# Verb → its module, imported when it is called. Its `main` takes the options, prints, and returns the exit code.
VERBS = {
    "run": "flagperf.cli.run",
    "list": "flagperf.cli.list",
    "report": "flagperf.cli.report",
    "rerun": "flagperf.cli.rerun",
    "watch": "flagperf.cli.watch",
    "compare": "flagperf.cli.compare",
    "doctor": "flagperf.cli.doctor.hosts",
    "clean": "flagperf.cli.clean",
    "collect": "flagperf.cli.collect",
    "check": "flagperf.cli.check_vendor",
    "data": "flagperf.cli.data",
}

DISK = {  # what the disk of the results may say in the middle of a run
    errno.ENOSPC: "no space is left for results",
    errno.EDQUOT: "the user's quota leaves no space for results",
    errno.EROFS: "the disk of the results became read-only",
}

HELP = """\
flagperf trains real models on AI accelerators and reports numbers that can be compared.

usage: flagperf [VERB] [OVERRIDES…] [OPTIONS]

  flagperf                                             resnet50 (tiny) on this machine's CPU, to its target
  flagperf model=glm nproc=2 repeat=3                  another case, two ranks, three rounds
  flagperf -m model=resnet50,glm nproc=1,2 max_steps=20            a sweep: one job per combination
  flagperf model=glm vendor=nvidia hardware=A100 nnodes=2 nproc=8 cluster=lab data_dir=/data/glm
  flagperf model=glm vendor=nvidia hardware=A100 nproc=8 dry_run=true        print it all, run nothing

verbs:
  run      (the default) compose the configuration, train, report
  list     cases, frameworks, vendors, hardware … that can be chosen; runs [RESULT_DIR]: what was run
  report   RUN_DIR: write the report again, from the files alone
  collect  RUN_DIR: bring the logs that a run had to leave on its hosts, and report it again
  watch    RUN_DIR: what goes on in a run of another terminal
  rerun    RUN_DIR [OVERRIDES…]: give the command of a run again, from its folder alone
  compare  BASE OTHER… [gate='p_train>-3%,accuracy>-1%']: runs or jobs side by side, and an answer for CI
  doctor   can this job run on this cluster? one line a check, and what to do
  clean    remove what runs that died left behind on a cluster
  check    vendor=NAME: what a vendor's files lack
  data     check | sample | prepare: look at a case's data_dir, write sample data, convert the original data

overrides are `key=value`. The ones needed most:
  model=NAME  framework=NAME  vendor=NAME  hardware=NAME  cluster=NAME  size=full|tiny  runtime=docker|process
  nnodes=N  nproc=N                nodes, and devices per node
  data_dir=PATH                    the real data; sample data is used where size=tiny
  max_steps=N  max_epochs=N  max_time=SECONDS      stop early
  train_batch_size=N  lr=X  precision=fp32|tf32|amp_fp16|amp_bf16
  repeat=N                         rounds of the same job
  division=closed|open             open: any key of the case may change, and the report says so
  dry_run=true                     print configuration, changes and commands

options:
  -m, --multirun       sweep over comma-separated values: one job per combination (run only)
  --config-dir DIR     a folder of your own with model/, vendor/, cluster/, experiment/ …; may be repeated
  -sc, --shell-completion install=bash|zsh|fish     shell completion, e.g. eval "$(flagperf -sc install=bash)"
  --version, -h, --help

exit codes: 0 done, 2 wrong usage or configuration, 3 a host cannot be used, 4 no valid case,
            5 a training failed, 6 target missed (require_target=true), 7 a gate failed, 8 a gate is undecided,
            130 interrupted
"""


def main() -> NoReturn:
    """Entry of the console script."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Errors raised on purpose are printed, without a traceback."""
    try:
        options = _parse(argv)
        code: int = importlib.import_module(VERBS[options.verb]).main(options)
        sys.stdout.flush()
        return code
    except FlagperfError as error:
        print(f"flagperf: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in DISK:
            raise
        print(f"flagperf: {DISK[error.errno]}; what was written before stays", file=sys.stderr)
        return HostError.exit_code
    except KeyboardInterrupt:
        print("flagperf: interrupted", file=sys.stderr)
        return 130


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The verb, its arguments and the options. The first argument may be a verb; most take overrides."""
    if any(argument in ("-sc", "--shell-completion") for argument in argv):
        _complete_shell()
    parser = _Parser(prog="flagperf", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-cd", "--config-dir", type=_folder, action="append", default=[])
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_intermixed_args(argv)
    if options.help or options.version:
        print(f"flagperf {__version__}" if options.version else HELP, end="\n" if options.version else "")
        sys.exit(0)
    options.verb, options.began = _verb(options.arguments), BEGAN
    if options.multirun and options.verb != "run":
        advice = "only run sweeps over several values; give one value of each key"
        raise ConfigError(f"{options.verb} takes no -m", key="-m", advice=advice)
    return options


def _verb(arguments: list[str]) -> str:
    """Take the verb off the arguments; "run" unless there is one."""
    if not arguments or "=" in arguments[0] or arguments[0].startswith(("+", "~")):
        return "run"
    verb = arguments.pop(0)
    if verb not in VERBS:
        advice = "overrides are key=value; flagperf --help"
        raise ConfigError("unknown verb", given=verb, allowed=nearest(verb, VERBS), advice=advice)
    return verb


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

    from flagperf.config.search_path import CONF

    hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(lambda _: None)()
    sys.exit(0)
