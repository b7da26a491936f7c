"""flagperf: compares AI accelerators by training real models on them."""

__version__ = "0.2.0"
