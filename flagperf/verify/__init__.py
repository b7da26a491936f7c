"""Computes the figures of a run a second time, and compares them with the figures that the run states.

Input: the folder of a run. Output: one Row for each figure, with the stated value, the value from the logs of ranks and
monitors, and whether they agree.
This package imports nothing of flagperf. So an error in the code that wrote a figure cannot hide here. The definitions
of the figures come from docs/perflog.md, docs/results.md and docs/monitors.md.
"""

from flagperf.verify.check import check
from flagperf.verify.judgement import objections, texts
from flagperf.verify.values import Row

__all__ = ["Row", "check", "objections", "texts"]
