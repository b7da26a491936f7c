"""flagperf's own starter of ranks, with workload.py in the trainer's place."""

from __future__ import annotations

import sys

from flagperf.trainer.start import node as start

if __name__ == "__main__":
    start.TRAINER = "workload"
    sys.exit(start.main(sys.argv[1:]))
