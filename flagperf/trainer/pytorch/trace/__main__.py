"""Traces configurations: python -m flagperf.trainer.pytorch.trace config.yaml …

Prints a line of JSON for each: {"trace": {…}, "seconds": …, "gib": …}, or {"module": …, "reason": …} where a
configuration cannot be traced. `gib` is the largest memory of this process so far. The name of a file is the
fingerprint of its trace.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import sys
import time
import traceback
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from flagperf.errors import FlagperfError
from flagperf.trainer.__main__ import read_config
from flagperf.trainer.pytorch.trace.traced import trace
from flagperf.trainer.start.extension import apply_extension, import_modules
from flagperf.trainer.start.imports import import_components, without_garbage_collection


def main() -> None:
    """Trace the configurations that the command line names."""
    warnings.filterwarnings("ignore")
    for path in sys.argv[1:]:
        began = time.perf_counter()
        answer = _answer(path)
        answer["seconds"] = round(time.perf_counter() - began, 1)
        answer["gib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
        print(json.dumps(answer), flush=True)


def _answer(path: str) -> dict[str, Any]:
    try:
        config = read_config([path])
        with without_garbage_collection():
            config = apply_extension(config)
            import_components(config)
            import_modules(config)
        versions = {"torch": torch.__version__, "flagperf": version("flagperf")}
        return {"trace": dataclasses.asdict(trace(config, Path(path).stem, versions))}
    except FlagperfError as error:
        return {"module": "", "reason": str(error)}
    except Exception as error:  # of any kind: whatever a network does without values
        traceback.print_exc()
        first = (str(error).splitlines() or [""])[0]
        return {"module": getattr(error, "traced_module", ""), "reason": f"{type(error).__name__}: {first}"}


if __name__ == "__main__":
    main()
