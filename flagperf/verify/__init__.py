"""A run's figures, computed a second time from the logs of its ranks and monitors, and held against those it states.

Comes in: the folder of a run. Goes out: a Row for each figure: what is stated, what the logs give, whether they agree.
This package imports nothing of flagperf, so that no mistake of the code that wrote a figure can hide in it. What each
figure is, it has from docs/perflog.md, docs/results.md and docs/monitors.md.
"""

from flagperf.verify.check import check
from flagperf.verify.values import Row

__all__ = ["Row", "check"]
