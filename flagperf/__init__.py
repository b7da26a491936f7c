"""flagperf: compares AI accelerators by training real models on them."""

from flagperf import installed_cases

__version__ = "0.2.0"

installed_cases.install()
