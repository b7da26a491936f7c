"""flagperf modelzoo: write or check a model's folder for Tecorigin's ModelZoo

usage: flagperf modelzoo export model=NAME vendor=NAME into=FOLDER [runs=RUN…] | check FOLDER [step=N] [KEY=VALUE…]

words:
  export                        write scripts, requirements, README and the entry of model.yaml
  model=NAME vendor=NAME        the case, and tecorigin or cpu
  framework=NAME hardware=NAME  pytorch or paddle; the product, where there are several
  train_batch_size=N lr=X       values of the README's commands and of the entry that replace those of the case
  data_dir=PATH                 the data on the ModelZoo's machines; without it the entry trains on sample data
  into=FOLDER                   a new or empty folder
  runs=RUN…                     folders of runs on the product and on the reference, between commas
  account=NAME                  your account in the ModelZoo, for model.yaml
  check                         check a folder as the test of a submission does: layout, arguments, README, the entry's
                                command for a few steps, and its log
  step=N device=NAME …          parameters of the short run in place of the entry's
  python=PATH limit=SECONDS     interpreter and time limit of the short run (1800)

examples:
  flagperf modelzoo export model=resnet50 vendor=tecorigin runs=result/t100,result/a100 into=resnet50
  flagperf modelzoo check resnet50 step=5 device=cpu nproc_per_node=1 autocast=False

exit codes: 0, 2, 9, 130
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from flagperf.cli.help import usage
from flagperf.cli.words import above_0, expect, need, paths_and_options, runs_and_overrides
from flagperf.errors import ConfigError, nearest
from flagperf.partners.flagperf.pages.chosen import chosen
from flagperf.partners.flagperf.submission import jobs_in
from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.check import CheckResult, check
from flagperf.partners.modelzoo.export import export
from flagperf.partners.modelzoo.results import of_others
from flagperf.plain import plain
from flagperf.user import user_path

ACCOUNT = "flagperf"  # until the user names an account
VENDORS = ("tecorigin", "cpu")
TAKEN = ("model", "framework", "vendor", "hardware", "data_dir", "train_batch_size", "lr")  # overrides of an export
FAULTS = 9  # exit code: the folder has faults
RUN_OPTIONS = {"python": sys.executable, "limit": "1800"}  # of the short run: interpreter, and most seconds


def main(options: argparse.Namespace) -> int:
    """Call the action of the first word."""
    actions = {"export": _export, "check": _check}
    action, *arguments = options.arguments or [""]
    if action not in actions:
        allowed = nearest(action, actions)
        raise ConfigError("modelzoo needs an action first", given=action, allowed=allowed, advice=usage("modelzoo"))
    return actions[action](arguments, options.config_dir)


def _export(arguments: Sequence[str], config_dirs: Sequence[Path]) -> int:
    """Print the written files. Jobs that are left out are listed on standard error."""
    runs, options, overrides = runs_and_overrides(arguments, ("into", "account"))
    words = dict(word.split("=", 1) for word in overrides)
    need("modelzoo export", ("model", "vendor", "into"), words | options)
    if words["vendor"] not in VENDORS:
        allowed = " or ".join(VENDORS)
        raise ConfigError("the ModelZoo is Tecorigin's", key="vendor", given=words["vendor"], allowed=allowed)
    if other := [*config_dirs, *(f"{key}={value}" for key, value in words.items() if key not in TAKEN)]:
        allowed = f"{', '.join(TAKEN)}: shipped cases, and what the scripts' arguments carry"
        raise ConfigError("this cannot be exported", given=other[0], allowed=allowed)
    jobs = [job for run in runs for job in jobs_in(run)]
    full = chosen([*overrides, "size=full"])
    short = full if "data_dir" in words else chosen([*overrides, "size=tiny"])
    for path in export(full, short, jobs, user_path(options["into"]), options.get("account", ACCOUNT)):
        print(path)
    for job in of_others(full, jobs):
        print(plain(f"left out: {job.folder}: on another subject than this folder"), file=sys.stderr)
    return 0


def _check(arguments: Sequence[str], _: Sequence[Path]) -> int:
    """Print the faults, then a line on the short run. The exit code is 9 where the folder has faults."""
    folders, params = paths_and_options("modelzoo", arguments, (*RUN_OPTIONS, *guide.PARAMS))
    expect("modelzoo", folders, 1, "one folder to check")
    python, limit = (params.pop(key, default) for key, default in RUN_OPTIONS.items())
    result = check(folders[0].resolve(), params, python, above_0("limit", limit, "no time", "seconds above 0"))
    for fault in result.faults:
        print(plain(f"{fault}\n"))
    print(plain(_short(result)))
    print("nothing is wrong" if not result.faults else f"{len(result.faults)} found")
    return FAULTS if result.faults else 0


def _short(result: CheckResult) -> str:
    """The short run in a line."""
    if result.ran is None:
        return f"no short run: {guide.ENTRY} and {guide.REQUIREMENTS} have to be right first"
    log = result.ran.log
    log_text = f"{len(log.metrics)} metrics in {result.ran.log_name}" if log else "no log"
    return f"short run, {result.ran.seconds:.0f} s, {log_text}: {shlex.join(result.argv)}"
