"""flagperf modelzoo: a model's folder for Tecorigin's ModelZoo: write it, or check one as the test of a submission does

usage: flagperf modelzoo export model=NAME vendor=NAME into=FOLDER [runs=RUN…] | check FOLDER [step=N] [KEY=VALUE…]

words:
  export                        write scripts, requirements, README and the entry of model.yaml
  model=NAME vendor=NAME        the case, and tecorigin or cpu
  framework=NAME hardware=NAME  pytorch or paddle; the product, where there are several
  train_batch_size=N lr=X       of the README's commands and of the entry, in place of the case's
  data_dir=PATH                 where the ModelZoo's machines have the data; without it the entry trains on sample data
  into=FOLDER                   a new or empty folder
  runs=RUN…                     what was measured, on the product and on the reference: folders of runs, between commas
  account=NAME                  your account in the ModelZoo, for model.yaml
  check                         a folder's layout, arguments, README, the entry's command for a few steps, and the log
                                of that
  step=N device=NAME …          parameters of the short run in place of the entry's
  python=PATH limit=SECONDS     interpreter of the short run, and how long it may take (1800)

examples:
  flagperf modelzoo export model=resnet50 vendor=tecorigin runs=result/t100,result/a100 into=resnet50
  flagperf modelzoo check resnet50 step=5 device=cpu nproc_per_node=1 autocast=False

exit codes: 0, 2, 9, 130
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from flagperf.cli.help import usage
from flagperf.cli.words import expect, need, paths_and_options, runs_and_overrides
from flagperf.config.files.user_path import user_path
from flagperf.errors import ConfigError, nearest
from flagperf.partners.flagperf.pages.chosen import chosen
from flagperf.partners.flagperf.submission import jobs_in
from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.check import Checked, check
from flagperf.partners.modelzoo.export import export
from flagperf.partners.modelzoo.results import of_others
from flagperf.plain import plain

ACCOUNT = "flagperf"  # until the user names an account
VENDORS = ("tecorigin", "cpu")
TAKEN = ("model", "framework", "vendor", "hardware", "data_dir", "train_batch_size", "lr")  # overrides of an export
FAULTS = 9  # exit code: the folder is not what it should be
OWN = {"python": sys.executable, "limit": "1800"}  # of the short run: interpreter, and most seconds


def main(options: argparse.Namespace) -> int:
    """Do what the first word says."""
    actions = {"export": _export, "check": _check}
    action, *arguments = options.arguments or [""]
    if action not in actions:
        allowed = nearest(action, actions)
        raise ConfigError("modelzoo takes first what to do", given=action, allowed=allowed, advice=usage("modelzoo"))
    return actions[action](arguments, options.config_dir)


def _export(arguments: Sequence[str], config_dirs: Sequence[Path]) -> int:
    """Print the files that were written; which jobs have no part in them goes to standard error."""
    runs, given, overrides = runs_and_overrides(arguments, ("into", "account"))
    words = dict(word.split("=", 1) for word in overrides)
    need("modelzoo export", ("model", "vendor", "into"), words | given)
    if words["vendor"] not in VENDORS:
        allowed = " or ".join(VENDORS)
        raise ConfigError("the ModelZoo is Tecorigin's", key="vendor", given=words["vendor"], allowed=allowed)
    if other := [*config_dirs, *(f"{key}={value}" for key, value in words.items() if key not in TAKEN)]:
        allowed = f"{', '.join(TAKEN)}: shipped cases, and what the scripts' arguments carry"
        raise ConfigError("this cannot be exported", given=other[0], allowed=allowed)
    jobs = [job for run in runs for job in jobs_in(run)]
    full = chosen([*overrides, "size=full"])
    short = full if "data_dir" in words else chosen([*overrides, "size=tiny"])
    for path in export(full, short, jobs, user_path(given["into"]), given.get("account", ACCOUNT)):
        print(path)
    for job in of_others(full, jobs):
        print(plain(f"left out: {job.folder}: not of what this folder is about"), file=sys.stderr)
    return 0


def _check(arguments: Sequence[str], _: Sequence[Path]) -> int:
    """Print what is wrong, then how the short run went. Exit code 9 when something is wrong."""
    folders, given = paths_and_options("modelzoo", arguments, (*OWN, *guide.PARAMS))
    expect("modelzoo", folders, 1, "one folder to check")
    python, limit = (given.pop(key, default) for key, default in OWN.items())
    found = check(folders[0].resolve(), given, python, _seconds(limit))
    for fault in found.faults:
        print(plain(f"{fault}\n"))
    print(plain(_short(found)))
    print("nothing is wrong" if not found.faults else f"{len(found.faults)} found")
    return FAULTS if found.faults else 0


def _short(found: Checked) -> str:
    """What the short run did, in a line."""
    if found.ran is None:
        return f"no short run: {guide.ENTRY} and {guide.REQUIREMENTS} have to be right first"
    log = found.ran.log
    told = f"{len(log.metrics)} metrics in {found.ran.log_name}" if log else "no log"
    return f"short run, {found.ran.seconds:.0f} s, {told}: {shlex.join(found.argv)}"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError("no time", key="limit", given=text, allowed="seconds above 0")
    return value
