"""The trainer of a framework is found by its name; nothing outside its package knows torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.errors import ConfigError
from flagperf.trainer.start import framework
from flagperf.trainer.start.framework import import_framework

TRAINERS = list(Path(framework.__file__).parents[1].glob("*/entry.py"))


def test_a_framework_without_a_trainer() -> None:
    with pytest.raises(ConfigError) as refused:
        import_framework({"framework": {"name": "none"}})
    assert str(refused.value) == (
        "there is no trainer for this framework\n"
        "  where:   config.yaml\n"
        "  key:     framework.name\n"
        "  given:   none\n"
        f"  allowed: {', '.join(sorted(path.parent.name for path in TRAINERS))}"
    )


def test_the_shared_part_knows_no_framework() -> None:
    program = (
        "import pkgutil, sys, flagperf.trainer as trainer\n"
        "for module in pkgutil.iter_modules(trainer.__path__, 'flagperf.trainer.'):\n"
        "    __import__(module.name)\n"
        "known = ('torch', 'paddle', 'tensorflow', 'mindspore')\n"
        "print([name for name in sys.modules if name.split('.')[0] in known])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
