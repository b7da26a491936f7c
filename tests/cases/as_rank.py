"""One rank of `python -m flagperf.trainer` in a process that was forked; and several trainings, one after the other.

    python tests/cases/as_rank.py TRAININGS

TRAININGS is a YAML file: folder → configuration. It is run by older Pythons, too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from toy import fork_here

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.train import train
from flagperf.trainer.pytorch.entry import engine
from flagperf.trainer.start.imports import import_components


def as_rank(config: Mapping[str, Any], folder: Path, code: Path | None = None) -> None:
    """Train as the rank whose own folder this is; its log lies beside it, as in the folder of a round.

    Args:
        code: a folder of modules of the user's or the vendor's.
    """
    sys.path[:0] = [str(code)] if code else []
    rank = int(os.environ["RANK"])
    log = folder.parent / "here_noderank0" / f"rank{rank}.out.log"
    log.parent.mkdir(exist_ok=True)
    perflog = PerfLog(rank, os.open(log, os.O_WRONLY | os.O_CREAT))
    if rank == 0:
        perflog.log("SUBMIT_INFO", {"config": config})
    import_components(config)
    train(engine(config), perflog, time.perf_counter())


def main() -> None:
    """Fork the ranks of each training from this process, which imports the framework once."""
    for folder, config in yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        import_components(config)
        fork_here(partial(as_rank, config), Path(folder), ranks=config["nproc"])


if __name__ == "__main__":
    main()
