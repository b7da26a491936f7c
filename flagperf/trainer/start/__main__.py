"""Starts the ranks of a node: python -m flagperf.trainer.start (see node.py)."""

from __future__ import annotations

import sys

from flagperf.trainer.start.node import main

sys.exit(main(sys.argv[1:]))
