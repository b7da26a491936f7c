"""One rank of a training: python -m flagperf.trainer config.yaml

It writes to its own rank log in $FLAGPERF_LOG_DIR. The exit status is 0 only after a complete training, 2
when the configuration cannot be used, and 1 in all other cases.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from flagperf.contract.perflog import PerfLog
from flagperf.contract.regular import read_yaml
from flagperf.errors import ConfigError, FlagperfError
from flagperf.trainer.data.sample_data import ensure_sample_data
from flagperf.trainer.loop.train import train
from flagperf.trainer.sinks import close_sinks, open_sinks
from flagperf.trainer.start.extension import apply_extension, import_modules
from flagperf.trainer.start.framework import import_framework
from flagperf.trainer.start.imports import import_components, without_garbage_collection
from flagperf.user import set_for_libraries


def main() -> NoReturn:
    """Train, and end the process with the exit status of the training."""
    began = time.perf_counter()
    rank = int(os.environ.get("RANK", "0"))
    redirect_output(rank)
    multiprocessing.set_start_method("fork", force=True)  # of processes that load data; Python 3.14 has another default
    set_for_libraries()
    try:
        config = read_config(sys.argv[1:])
        logging.basicConfig(level=config["log_level"].upper(), format="%(levelname)s %(name)s: %(message)s")
        sinks = open_sinks(config["sinks"], rank, os.environ.get("FLAGPERF_LOG_DIR"))
        run(config, PerfLog(rank, sinks=sinks), began)
        close_sinks(sinks)
        status = 0
    except FlagperfError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        status = 2 if isinstance(error, ConfigError) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    leave(status)


def run(config: Mapping[str, Any], perflog: PerfLog, began: float) -> None:
    """Run one training, or a probe, proof or search alone, up to FINISHED. `began`: by time.perf_counter."""
    vendor = config["vendor"]
    visible = os.environ.get(vendor["visible_devices"] or "")
    submitted = {"vendor": vendor["name"], "case": config["case"], "visible_devices": visible, "config": config}
    perflog.log("SUBMIT_INFO", submitted)
    probing = config.get("probe") not in (None, "run")
    proving, locating = config.get("prove", False), config.get("locate", False)
    with without_garbage_collection():
        framework = import_framework(config)
        if not (probing or proving):
            config = apply_extension(config)
            import_components(config)
            import_modules(config)
    perflog.log("INIT_START")
    if probing:
        framework.probe(config, perflog)
        return
    ensure_sample_data(config)
    if proving:
        framework.prove(config, perflog)
    elif locating:
        framework.locate(config, perflog)
    else:
        train(framework.engine(config), perflog, began)


def read_config(argv: list[str]) -> dict[str, Any]:
    """The resolved configuration in the file that the command line names. Raises ConfigError for any other file."""
    if len(argv) != 1:
        raise ConfigError("usage: python -m flagperf.trainer config.yaml", given=" ".join(argv))
    path = Path(argv[0])
    try:
        config = read_yaml(path)
    except OSError as error:
        raise ConfigError("cannot read the configuration", where=str(path), advice=str(error)) from error
    if not isinstance(config, dict):
        raise ConfigError("the configuration is no mapping", where=str(path))
    return config


def redirect_output(rank: int) -> None:
    """Send standard output and error of this process, and of its children, to the rank's own log."""
    if "FLAGPERF_LOG_DIR" in os.environ:
        path = Path(os.environ["FLAGPERF_LOG_DIR"], f"rank{rank}.out.log")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        os.close(fd)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]


def leave(status: int) -> NoReturn:
    """End the process without Python's own clean-up, in which a framework's threads abort now and then."""
    for process in multiprocessing.active_children():
        process.terminate()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
