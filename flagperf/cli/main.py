"""The command line `flagperf [verb] overrides…`: parses the line, calls the verb, prints errors, and exits."""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from flagperf import __version__
from flagperf.cli.commit import commit
from flagperf.cli.help import DEFAULT, DEFAULT_MODULE, INTERRUPTED, help_text, verb_help, verbs
from flagperf.errors import ConfigError, FlagperfError, HostError, nearest, with_details
from flagperf.plain import is_text, plain
from flagperf.user import set_for_libraries, user_path

SWEEP = (DEFAULT, "predict")  # verbs that take -m
RENAMED = {  # verb of 0.1 → the command that replaces it
    "submit": "docs submission RUN…",
    "collect": "report RUN_DIR collect=true",
    "bundle": "export RUN_DIR FILE.tar.zst",
    "probe": "run probe=alone",
}
BEGAN = time.time()  # the time of the command, without the start of the interpreter


def main() -> NoReturn:
    """The entry of the console script. Never returns."""
    gc.set_threshold(20_000)  # imports make many objects that stay: visiting them took a tenth of a dry run
    _open_closed_streams()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a terminal without ≥, as stderr
    set_for_libraries()
    assert logging.lastResort is not None
    logging.lastResort.setFormatter(_Warning())
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt)
    sys.exit(run_command(sys.argv[1:]))


class _Warning(logging.Formatter):
    """A warning outside of a run, which has a log: readable text, also of files of anyone, and no traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(record.getMessage())


def _open_closed_streams() -> None:
    """Replace streams that the shell closed (`>&-`) by /dev/null. Otherwise the next open file gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def _interrupt(*_: object) -> None:
    """Treat a signal like Ctrl-C, so that asyncio ends its work in good order."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in a shell's background job
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def run_command(argv: Sequence[str]) -> int:
    """Run a command line, and return the exit code. FlagperfErrors are printed without a traceback."""
    try:
        options = _parse(argv)
        module = DEFAULT_MODULE if options.verb == DEFAULT else verbs()[options.verb]
        code: int = importlib.import_module(module).main(options)
        sys.stdout.flush()
        return code
    except FlagperfError as error:
        print(f"flagperf: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        from flagperf.run.folder import DISK

        file = error.filename2 or error.filename
        if error.errno in DISK:
            problem = f"{DISK[error.errno]}; files that were written before stay"
        elif isinstance(file, str):
            problem = with_details("a file cannot be read or written", {"where": file, "given": str(error.strerror)})
        else:
            raise
        print(f"flagperf: {plain(problem)}", file=sys.stderr)
        return HostError.exit_code
    except KeyboardInterrupt:
        print("flagperf: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The verb, its arguments and the options. The first argument may be a verb."""
    if any(argument in ("-sc", "--shell-completion") for argument in argv):
        importlib.import_module("flagperf.cli.complete").main(argv)
    parser = _Parser(prog="flagperf", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-cd", "--config-dir", type=_folder, action="append", default=[])
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_intermixed_args(argv)
    if options.version:
        print(" ".join(filter(None, ["flagperf", __version__, commit()])))
        sys.exit(0)
    if options.arguments[:1] == ["help"]:
        options.help = bool(options.arguments.pop(0))
    has_verb = not _names_no_verb(options.arguments)
    empty = not options.arguments
    options.verb, options.began = _verb(options.arguments), BEGAN
    if options.help:
        print(verb_help(options.verb) if has_verb else help_text(), end="")
        sys.exit(0)
    if options.multirun and options.verb not in SWEEP:
        advice = f"only {' and '.join(SWEEP)} sweep over several values; give one value of each key"
        raise ConfigError(f"{options.verb} takes no -m", key="-m", advice=advice)
    if options.multirun and empty:
        advice = "give several values of a key: flagperf -m model=resnet50,glm nproc=1,2"
        raise ConfigError("a sweep needs overrides", key="-m", advice=advice)
    return options


def _verb(arguments: list[str]) -> str:
    """Remove the verb from the arguments, and return it; the default verb where the arguments have none."""
    if _names_no_verb(arguments):
        return DEFAULT
    verb = arguments.pop(0)
    if verb in RENAMED:
        raise RenamedError(verb)
    if verb != DEFAULT and verb not in verbs():
        advice = "overrides are key=value; flagperf --help"
        raise ConfigError("unknown verb", given=verb, allowed=nearest(verb, verbs()), advice=advice)
    return verb


def _names_no_verb(arguments: Sequence[str]) -> bool:
    return not arguments or "=" in arguments[0] or arguments[0].startswith(("+", "~"))


class RenamedError(FlagperfError):
    """The line names a verb of an older release."""

    exit_code = ConfigError.exit_code

    def __init__(self, verb: str) -> None:
        super().__init__(f'"flagperf {verb}" is now: flagperf {RENAMED[verb]}')


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        overrides = re.findall(r"(?<=\s)--?([A-Za-z_][\w.]*=\S*)", message)
        advice = f"overrides have no dashes: {' '.join(overrides)}" if overrides else "flagperf --help"
        raise ConfigError(message, advice=advice)


def _folder(text: str) -> Path:
    path = user_path(text)
    if not path.is_dir():
        raise ConfigError("no such folder", key="--config-dir", given=text)
    if not is_text(str(path.resolve())):
        raise ConfigError("this path is not UTF-8, and files of a run name it", key="--config-dir", given=text)
    return path.resolve()
