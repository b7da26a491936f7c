"""The test against a real checkout of FlagPerf is collected where FLAGPERF_CHECKOUT names one."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("FLAGPERF_CHECKOUT") else ["test_real_checkout.py"]
