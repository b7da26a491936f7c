"""Bundles and a site of recorded runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recorded import recorded_run
from signing_key import write_key

from flagperf.bundle.approval import approve
from flagperf.bundle.pack import pack
from flagperf.bundle.signature import private_key

RUNS = ("two-rounds", "sweep")


@dataclass(frozen=True)
class Bundles:
    """Bundles of the recorded runs; `two-rounds` is signed by lab and approved by the vendor cpu."""

    folder: Path
    keys: Path


def write_bundles(folder: Path) -> Bundles:
    for name in ("lab", "vendor"):
        write_key(folder / name)
    keys = folder / "keys"
    keys.write_text(f"lab {(folder / 'lab.pub').read_text()}cpu {(folder / 'vendor.pub').read_text()}")
    packed = folder / "bundles"
    packed.mkdir()
    for name in RUNS:
        run = recorded_run(folder / "result", name)
        pack(run, packed / f"{name}.tar.zst", private_key(folder / "lab") if name == RUNS[0] else None)
    approve(packed / f"{RUNS[0]}.tar.zst", private_key(folder / "vendor"))
    return Bundles(packed, keys)
