"""The shipped cases and vendors, by name."""

from __future__ import annotations

from flagperf.config.files.search_path import CONF, family_of

CASES = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))  # on PyTorch
FAMILIES = sorted({family_of(case, (CONF,)) for case in CASES})  # one case for each tiny size
VENDORS = sorted(path.stem for path in (CONF / "vendor").glob("*.yaml"))
