"""Summary → the files of a report, and a table for the terminal.

cells.py says how a figure is written, once for all. files.py reads a run folder; writers.py makes the writers.
"""

from flagperf.report.files import is_job, read_jobs, read_run
from flagperf.report.terminal import terminal_table
from flagperf.report.unmet import unmet_lines
from flagperf.report.writers import make_writers, write, write_again

__all__ = ["is_job", "make_writers", "read_jobs", "read_run", "terminal_table", "unmet_lines", "write", "write_again"]
