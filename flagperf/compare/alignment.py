"""Makes the record of an alignment from its checks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flagperf.compare.golden import Check
from flagperf.config.schema.values import JobConfig
from flagperf.contract.alignment import AlignmentRecord
from flagperf.contract.digest import sha256_of
from flagperf.results.rank_log import RankLog


def record_of(job: JobConfig, checks: Sequence[Check], curves: Path, log: RankLog) -> AlignmentRecord:
    """The record of an alignment.

    Args:
        job: of one of the trainings.
        checks: one of each curve.
        curves: the file of the curves.
        log: of a rank of the trainings.
    """
    built = log.all("BUILT")[-1].value
    return AlignmentRecord(
        case=job.case,
        revision=job.config["revision"],
        framework=job.framework.name,
        vendor=job.vendor.name,
        hardware=job.hardware.name,
        precision=job.config["precision"],
        device=built["device_name"],
        inside=all(check.inside for check in checks),
        curves={check.golden.name: check.verdict for check in checks},
        golden=sha256_of(curves),
        software={name: version for name, version in built["software"]["versions"].items() if version is not None},
    )
