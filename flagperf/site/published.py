"""The figures that FlagPerf publishes (conf/published/), as rows of the site. Nobody can verify these figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.compare.published import NAME, VENDOR
from flagperf.config.files.layers import Load, compose_layers
from flagperf.config.files.search_path import CONF
from flagperf.config.files.sweep import make_jobs
from flagperf.contract.regular import read_yaml
from flagperf.report.cells import number
from flagperf.site.entries import PUBLISHED, RATE, Entry, Figure

RATES = (RATE, "p_whole", "p_core")
OTHERS = {"e2e_time": ("time of the run", " s"), "memory": ("memory of a device [GiB]", "")}
SETTINGS = {"train_batch_size": "batch size of a device", "lr": "learning rate"}


def published_entries() -> list[Entry]:
    """A row for each configuration with a throughput that FlagPerf publishes."""
    load = Load((CONF,))
    return [
        entry for path in sorted((CONF / NAME).glob("*.yaml")) for entry in _of_case(path.stem, load, read_yaml(path))
    ]


def _of_case(case: str, load: Load, known: Mapping[str, Any]) -> Iterator[Entry]:
    (job,) = make_jobs(["size=full", f"model={case}"], False, (CONF,))
    unit = str(compose_layers(job, load, (CONF,)).case.get("throughput_unit"))
    for index, row in enumerate(known["results"], 1):
        product, _, scale = str(row["config"]).partition("x")
        nnodes, nproc = map(int, scale.split("x"))
        yield Entry(
            id=f"published-{case}-{index}",
            case=case,
            vendor=VENDOR,
            product=product,
            scale=scale,
            devices=nnodes * nproc,
            precision=str(row["precision"]),
            division="–",
            verdict=PUBLISHED,
            rate=float(row[RATE]) if RATE in row else None,
            unit=unit,
            versions=tuple((name, str(version)) for name, version in (known.get("versions") or {}).items()),
            figures=tuple(_figures(row, unit)),
            remarks=(str(known["machine"]),),
        )


def _figures(row: Mapping[str, Any], unit: str) -> Iterator[Figure]:
    for name in RATES:
        if name in row:
            yield Figure(f"throughput, {name}", f"{number(row[name])} {unit}", float(row[name]))
    for name, (title, of) in OTHERS.items():
        if name in row:
            yield Figure(title, f"{number(row[name])}{of}", float(row[name]))
    for name, title in SETTINGS.items():
        if name in row:
            yield Figure(title, number(row[name]))
