"""The faults of a model folder: of its files, arguments, README and entry, of a short run, and of the run's log."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flagperf.errors import ConfigError
from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.arguments import accepted, argument_faults
from flagperf.partners.modelzoo.entry import Entry, read_entry
from flagperf.partners.modelzoo.fault import Fault
from flagperf.partners.modelzoo.install import install
from flagperf.partners.modelzoo.layout import layout_faults
from flagperf.partners.modelzoo.log_rules import log_faults
from flagperf.partners.modelzoo.readme import readme_faults
from flagperf.partners.modelzoo.short_run import ShortRun, short_run


@dataclass(frozen=True)
class CheckResult:
    """The faults of a folder. `ran` is None where faults of the entry or of requirements.txt prevent the short run."""

    faults: tuple[Fault, ...]
    argv: tuple[str, ...] = ()
    ran: ShortRun | None = None


def check(folder: Path, params: Mapping[str, str], python: str, limit: float) -> CheckResult:
    """Check a model folder as the test of a submission does.

    Args:
        params: parameters of the short run that replace those of the entry, such as step or device.
        python: the interpreter of the short run.
        limit: seconds that the short run may take.

    Raises:
        ConfigError: the folder does not exist, or `step` is no number of steps.
    """
    if not folder.is_dir():
        raise ConfigError("no such folder", given=folder, advice="give the folder of a model")
    entry, of_entry = read_entry(folder)
    faults = [*layout_faults(folder), *argument_faults(folder), *readme_faults(folder), *of_entry]
    if entry is None:
        return CheckResult(tuple(faults))
    entry = _changed(entry, params)
    with tempfile.TemporaryDirectory(prefix="flagperf-modelzoo-") as scratch:
        if (folder / guide.REQUIREMENTS).is_file():
            python, fault = install(folder, python, Path(scratch) / "environment", limit)
            if fault:
                return CheckResult((*faults, fault))
        argv = entry.argv(python, accepted(folder))
        ran = short_run(folder, argv, limit)
    faults += _of_run(entry, ran, limit)
    return CheckResult(tuple(faults), tuple(argv), ran)


def _changed(entry: Entry, params: Mapping[str, str]) -> Entry:
    if not re.fullmatch(r"0*[1-9]\d*", params.get("step", "1")):
        raise ConfigError("no number of steps", key="step", given=params["step"], allowed="a whole number above 0")
    return dataclasses.replace(entry, params={**entry.params, **params})


def _of_run(entry: Entry, ran: ShortRun, limit: float) -> Iterator[Fault]:
    """The faults of the short run."""
    output = f"\n{ran.last_lines}".replace("\n", "\n           ") if ran.last_lines else "; it printed nothing"
    if ran.status != 0:
        status = f"still running after {limit:g} s" if ran.status is None else f"exit status {ran.status}"
        yield Fault(entry.run_file, status + output, "the entry's command ends with 0", "run it by hand")
    if ran.log is not None:
        yield from log_faults(ran.log_name, ran.log, int(entry.params["step"]))
    elif ran.status == 0:
        state = "no file with lines of tcap_dllogger, in the folder and below it"
        yield Fault(
            "the log of the short run", state, "a log as tcap_dllogger writes it", "log with its JSONStreamBackend"
        )
