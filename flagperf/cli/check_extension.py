"""`flagperf check vendor=NAME model=CASE …`: compares the vendor's own code with the case in real ranks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from flagperf.config.compose import compose
from flagperf.config.rules.extension import KEY, WITHIN, proof_path, replaced
from flagperf.config.schema.values import JobConfig
from flagperf.contract.regular import yaml_text
from flagperf.errors import ConfigError
from flagperf.plan.dry_run import dry_run_text
from flagperf.run.ranks_alone import ask_ranks

PROVING = ("size=tiny", "prove=true")  # the reduced case, on sample data
PROOF_FIELDS = ("differences", "optimizer", "same_modules", "classes", "steps", "device", "versions")  # fields of PROOF
HEADER = """\
# flagperf check vendor={} model={}
#
# That the vendor's own code does what the case does, for the files below as they were. Written by this command.
"""


def main(options: argparse.Namespace) -> int:
    """Train the reduced case with and without the vendor's code, print the differences, and write the proof."""
    job = compose([*options.arguments, *PROVING], options.config_dir)
    extension = job.vendor.extension
    if not extension.has_code:
        advice = "name it in the vendor's file or in a tuning; docs/adding-a-vendor.md shows how"
        raise ConfigError("the vendor has no own code for this case", key=KEY, given=job.case, advice=advice)
    if job.dry_run:
        print(dry_run_text(job))
        return 0
    _, logs = ask_ranks(job, "check")
    proof = worst([event.value for log in logs for event in log.all("PROOF")])
    return keep(job, proof) if shows_the_same(job, proof) else ConfigError.exit_code


def worst(proofs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The PROOF event of the rank with the largest difference."""
    return max(proofs, key=lambda proof: max(proof.get("differences", {"": float("inf")}).values()))


def shows_the_same(job: JobConfig, proof: Mapping[str, Any]) -> bool:
    """Print the parts that the vendor's code replaces, and the differences. True where they are small enough."""
    for part, class_path in replaced(job.vendor.extension).items():
        print(f"{part + ':':20} {class_path}")
    if "other_network" in proof:
        print(f"{'network:':20} another network than the case's: {proof['other_network']}")
        return False
    for part, value in proof["differences"].items():
        verdict = "" if value <= WITHIN else "   too much"
        print(f"{'difference, ' + part + ':':20} {value:.3g} of at most {WITHIN:g}{verdict}")
    part, value = max(proof["differences"].items(), key=lambda item: item[1])
    print(f"largest difference: {value:.3g} ({part}), in {proof['steps']} steps in fp32 on {proof['device']}")
    return bool(value <= WITHIN)


def keep(job: JobConfig, proof: Mapping[str, Any]) -> int:
    """Write the proof beside the vendor's code, and print its path.

    Raises:
        ConfigError: the proof cannot be written.
    """
    path = proof_path(job.vendor.extension, job.config)
    record = {
        "case": job.case,
        "revision": job.identity.revision,
        "replaced": replaced(job.vendor.extension),
        "files": job.config["extension"]["files"],
        **{name: proof[name] for name in PROOF_FIELDS},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = yaml_text(record)
        path.write_text(HEADER.format(job.vendor.name, job.case) + text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the proof cannot be written: {error.strerror}", key=f"{KEY}.folder", given=path) from None
    print(path)
    return 0
