"""Results → report.md, report.html and a table for the terminal.

cells.py says how a figure is written, once for all three; files.py reads and writes the run folder.
"""

from flagperf.report.files import read_run, write
from flagperf.report.terminal import terminal_table

__all__ = ["read_run", "terminal_table", "write"]
