"""`flagperf check vendor=NAME model=CASE …`: does the vendor's own code do what the case does? Shown by a real rank."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from flagperf.config.compose import compose
from flagperf.config.rules.extension import KEY, WITHIN, proof_path, replaced
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.plan.dry_run import dry_run_text
from flagperf.run.ranks_alone import ask_ranks

ALONE = ("size=tiny", "prove=true")  # the reduced case, on sample data
KEPT = ("differences", "optimizer", "same_modules", "classes", "steps", "device", "versions")  # of what a rank says
HEADER = """\
# flagperf check vendor={} model={}
#
# That the vendor's own code does what the case does, for the files below as they were. Written by this command.
"""


def main(options: argparse.Namespace) -> int:
    """Train the reduced case with and without the vendor's code, print the differences, and keep them as a proof."""
    job = compose([*options.arguments, *ALONE], options.config_dir)
    own = job.vendor.extension
    if not own.has_code:
        advice = "name it in the vendor's file or in a tuning; docs/adding-a-vendor.md shows how"
        raise ConfigError("the vendor has no own code for this case", key=KEY, given=job.case, advice=advice)
    if job.dry_run:
        print(dry_run_text(job))
        return 0
    _, logs = ask_ranks(job, "check")
    found = worst([event.value for log in logs for event in log.all("PROOF")])
    return keep(job, found) if shows_the_same(job, found) else ConfigError.exit_code


def worst(proofs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the rank found that differs the most from the case."""
    return max(proofs, key=lambda proof: max(proof.get("differences", {"": float("inf")}).values()))


def shows_the_same(job: JobConfig, found: Mapping[str, Any]) -> bool:
    """Print what the vendor's code replaces and the largest differences; whether they are small enough."""
    for what, by in replaced(job.vendor.extension).items():
        print(f"{what + ':':20} {by}")
    if "other_network" in found:
        print(f"{'network:':20} another network than the case's: {found['other_network']}")
        return False
    for what, value in found["differences"].items():
        verdict = "" if value <= WITHIN else "   too much"
        print(f"{'difference, ' + what + ':':20} {value:.3g} of at most {WITHIN:g}{verdict}")
    what, value = max(found["differences"].items(), key=lambda item: item[1])
    print(f"largest difference: {value:.3g} ({what}), in {found['steps']} steps in fp32 on {found['device']}")
    return bool(value <= WITHIN)


def keep(job: JobConfig, found: Mapping[str, Any]) -> int:
    """Write the proof beside the vendor's code.

    Raises:
        ConfigError: it cannot be written.
    """
    path = proof_path(job.vendor.extension, job.config)
    said = {
        "case": job.case,
        "revision": job.identity.revision,
        "replaced": replaced(job.vendor.extension),
        "files": job.config["extension"]["files"],
        **{name: found[name] for name in KEPT},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=120)
        path.write_text(HEADER.format(job.vendor.name, job.case) + text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the proof cannot be written: {error.strerror}", key=f"{KEY}.folder", given=path) from None
    print(path)
    return 0
