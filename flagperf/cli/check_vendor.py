"""flagperf check: find gaps in a vendor's files, compare a vendor's own code with a case, or bound the time of a case

usage: flagperf check vendor=NAME [model=CASE OVERRIDES…]
       flagperf check model=CASE [OVERRIDES…]

words:
  vendor=NAME  check the vendor's file, its products, and its tunings of all cases
  vendor=NAME model=CASE
               train the reduced case with the vendor's own code and without it, and write their differences as a proof
  model=CASE   the least time of the whole schedule on one machine with eight A100, against FlagPerf's limit of a week;
               hardware=, nnodes= and other keys change the machine

options: --config-dir

examples:
  flagperf check vendor=nvidia
  flagperf check vendor=acme --config-dir my_conf
  flagperf check vendor=acme model=resnet50 hardware=A1 --config-dir my_conf
  flagperf check model=resnet50
  flagperf check model=llama3_8b hardware=H100 nnodes=8

exit codes: 0, 2, 3, 5, 130
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, get_args

from rich.status import Status

from flagperf.cli.help import usage
from flagperf.cli.vendor_files import (
    NO_FIGURES,
    Lack,
    Product,
    Tuning,
    always,
    lack_of,
    products_of,
    read,
    tunings_of,
)
from flagperf.config.compose import compose_each
from flagperf.config.files.search_path import cases, find, options, search_path
from flagperf.config.files.user_files import check_user_files
from flagperf.config.parts.image import choose_image, version_of
from flagperf.config.schema.keys import is_under
from flagperf.config.schema.monitor_columns import INDEX
from flagperf.config.schema.monitor_tool import make_table
from flagperf.config.schema.platform import Framework, Hardware, ImageSettings, NumberFormat, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import read_fields
from flagperf.contract.monitor_log import DEVICE_FIGURES
from flagperf.errors import ConfigError, nearest
from flagperf.run.command_file import key_of
from flagperf.run.console import Terminal

SCALES = ((1, 1), (1, 8), (2, 8))  # nnodes and nproc; FlagPerf asks for every case at these scales
NOTHING = {"title": "", "device": "", "backend": "", "plugin": None, "visible_devices": None}


def main(options: argparse.Namespace) -> int:
    """Print the gaps of a vendor's files, file by file. The exit code is 2 where a run needs a missing value."""
    keys = {key_of(word) for word in options.arguments}
    if "model" in keys and "vendor" not in keys:
        from flagperf.cli import check_case  # heavy, and not needed to check files

        return check_case.main(options)
    if len(options.arguments) > 1 and "vendor" in keys:
        from flagperf.cli import check_extension  # heavy, and not needed to check files

        return check_extension.main(options)
    name = options.arguments[0].partition("=")[2] if keys == {"vendor"} else ""
    if not name:
        given = " ".join(options.arguments) or None
        raise ConfigError("check takes a vendor, a case, or both", given=given, advice=usage("check"))
    lacks = check_vendor(name, options.config_dir)
    for file, file_lacks in itertools.groupby(lacks, key=lambda lack: lack.file):
        print(file)
        for lack in file_lacks:
            suffix = "" if lack.needed else "    (runs without)"
            print("  " + (f"{lack.key + ':':12} " if lack.key else "") + lack.problem + suffix)
    if not lacks:
        print(f"vendor {name}: nothing is missing")
    return ConfigError.exit_code if any(lack.needed for lack in lacks) else 0


def check_vendor(name: str, config_dirs: Sequence[Path] = ()) -> list[Lack]:
    """All gaps of a vendor's files, file by file.

    Raises:
        ConfigError: the vendor does not exist.
    """
    folders = search_path(config_dirs)
    path = find(f"vendor/{name}", folders)
    if path is None:
        raise ConfigError("no such vendor", key="vendor", given=name, allowed=nearest(name, options("vendor", folders)))
    products, unread = products_of(name, folders)
    tunings = list(tunings_of(name, folders))
    lacks = [*unread, *_hardware(name, products)]
    try:
        check_user_files([f"vendor/{name}"], folders)
    except ConfigError as error:
        lacks.insert(0, lack_of(error, path))
    else:
        lacks[:0] = _vendor(name, path, products, folders)
        known = [lack.key for lack in lacks if lack.key and (lack.needed or is_under(lack.key, ["vendor.image"]))]
        lacks += (lack for lack in _refused(name, products, tunings, config_dirs) if not is_under(lack.key, known))
    lacks += [*_unused(tunings, products, folders), *_untuned(name, products, folders)]
    files = list(dict.fromkeys(lack.file for lack in lacks))
    return sorted(lacks, key=lambda lack: files.index(lack.file))


def _vendor(name: str, path: Path, products: Mapping[str, Product], folders: Sequence[Path]) -> Iterator[Lack]:
    """The gaps of the vendor's own file. A wrong field does not hide errors of other fields."""
    text = read(path)
    section = text.get("vendor", {key: value for key, value in text.items() if key != "defaults"})
    if not isinstance(section, dict):
        yield Lack(str(path), "vendor", f"wrong type of value; given {section}; a mapping")
        return
    fields, refused = read_fields(Vendor, {"name": name, **section}, "vendor", always(path))
    vendor = Vendor(**{"name": name, **NOTHING, **fields})
    yield from (lack_of(error, path) for error in refused)
    wrong = {_part(error.key or "") for error in refused}
    further = itertools.chain(_defaults(text, path), _options(vendor, path), _image(vendor, path, folders))
    yield from (lack for lack in (*further, *_tool(vendor, path, products)) if _part(lack.key) not in wrong)


def _part(key: str) -> str:
    """vendor.monitor.parse → vendor.monitor."""
    return ".".join(key.split(".")[:2])


def _defaults(text: Mapping[str, Any], path: Path) -> Iterator[Lack]:
    entries = [entry for entry in text.get("defaults") or [] if isinstance(entry, dict)]
    for group, option in (("runtime", "docker"), ("size", "full")):
        if {f"override /{group}": option} not in entries:
            default = f"`override /{group}: {option}`, which accelerators default to"
            yield Lack(str(path), "defaults", default, needed=False)


def _options(vendor: Vendor, path: Path) -> Iterator[Lack]:
    if vendor.visible_devices is None:
        yield Lack(str(path), "vendor.visible_devices", "null: a run cannot be kept to some devices", needed=False)
    if vendor.device_files is None:
        yield Lack(str(path), "vendor.device_files", "null: devices are not counted before a run starts", needed=False)
    if vendor.container.privileged:
        yield Lack(str(path), "vendor.container.privileged", "true: devices by name would be less", needed=False)


def _image(vendor: Vendor, path: Path, folders: Sequence[Path]) -> Iterator[Lack]:
    """Gaps of images. The main framework, and each framework in the file, needs an image or a Dockerfile."""
    files = {name: file for name in options("framework", folders) if (file := find(f"framework/{name}", folders))}
    main = [name for name, file in files.items() if read(file).get("main") is True]
    for entry in {**dict.fromkeys(main), **vendor.image, **vendor.frameworks}:
        name, version = entry.partition("_")[0], version_of(entry)
        if not version and entry not in vendor.image and any(key.startswith(f"{name}_") for key in vendor.image):
            continue  # its images are listed by version
        text = read(files[name]) if name in files else {}
        framework = Framework(
            name,
            (),
            text.get("title", name),
            packages=tuple(text.get("packages", ())),
            needs=text.get("needs", {}),
            version=version or None,
        )
        try:
            choose_image(vendor, framework, ImageSettings(), always(path))
        except ConfigError as error:
            yield lack_of(error, path)._replace(needed=name in main or entry in vendor.image)


def _tool(vendor: Vendor, path: Path, products: Mapping[str, Product]) -> Iterator[Lack]:
    if vendor.monitor is None:
        problem = "null: temperature, power, memory and utilisation of devices stay unknown"
        yield Lack(str(path), "vendor.monitor", problem, needed=False)
        return
    hardware = next((product.hardware for product in products.values()), Hardware("", **NO_FIGURES))
    try:
        table = make_table(vendor.monitor, hardware, always(path))
    except ConfigError as error:
        yield lack_of(error, path)
        return
    key, part = ("parse", "group") if vendor.monitor.parse else ("columns", "column")
    names = table.reader.names
    missing = [name for name, figure in DEVICE_FIGURES.items() if not figure.extra and name not in names]
    if missing:
        yield Lack(str(path), f"vendor.monitor.{key}", f"no {part} for: {', '.join(missing)}", needed=False)
    if INDEX not in names:
        problem = f"no {part} {INDEX}: a sample that lacks a device cannot be used: the device is unknown"
        yield Lack(str(path), f"vendor.monitor.{key}", problem, needed=False)


def _hardware(name: str, products: Mapping[str, Product]) -> Iterator[Lack]:
    if not products:
        yield Lack(f"hardware/<product>.yaml, with vendor: {name}", "", "no product")
    for path, hardware, refused in products.values():
        yield from (lack_of(error, path) for error in refused)
        for key in ("memory_gib", "power_w", "devices_per_node"):
            if getattr(hardware, key) is None:
                yield Lack(str(path), key, "null", needed=False)
        figures = {
            "memory_bandwidth": hardware.memory_bandwidth,
            "links.node.bandwidth": hardware.links.node.bandwidth,
            "links.network.bandwidth": hardware.links.network.bandwidth,
        }
        if unknown := [key for key, figure in figures.items() if figure is None]:
            yield Lack(str(path), "predict", f"no {', '.join(unknown)}: no predicted times there", needed=False)
        formats = (name for name in get_args(NumberFormat) if name != "fp8")  # not every chip has an fp8 peak
        unknown = [name for name in formats if name not in hardware.peak_flops]
        if unknown:
            yield Lack(str(path), "peak_flops", f"none for {', '.join(unknown)}: no MFU there", needed=False)


def _unused(tunings: Iterable[Tuning], products: Mapping[str, Product], folders: Sequence[Path]) -> Iterator[Lack]:
    """Tunings that no run can use."""
    known = cases(folders)
    for tuning in tunings:
        if tuning.case not in known:
            yield Lack(str(tuning.path), "", f"there is no case {tuning.case}: {nearest(tuning.case, known)}")
        elif tuning.product not in products:
            problem = f"the vendor has no product {tuning.product}"
            yield Lack(str(tuning.path), "", f"{problem}: {nearest(tuning.product, products)}" if products else problem)


def _refused(
    name: str, products: Mapping[str, Product], tunings: Iterable[Tuning], config_dirs: Sequence[Path]
) -> list[Lack]:
    """The reasons why runs would be refused: a run with each product, and a run with each tuning.

    The runs of a case have much in common, so that one process composes them together.
    """
    known = cases(search_path(config_dirs))
    jobs = [Tuning(product.path, "resnet50", name, 1, 1) for name, product in products.items()]
    jobs += [tuning for tuning in tunings if tuning.case in known and tuning.product in products]
    parts = [list(part) for _, part in itertools.groupby(jobs, key=lambda job: (job.case, job.path.parent))]
    work = partial(_lacks_of, name, config_dirs)
    results: list[list[Lack]] = []
    workers = min(len(os.sched_getaffinity(0)), len(parts))
    pool = ProcessPoolExecutor(max(1, workers), initializer=gc.disable)  # the collector takes a tenth of the time
    with Status("", console=Terminal(stderr=True)) as status, pool:
        for part, lacks in zip(parts, pool.map(work, parts), strict=True):
            results.append(lacks)
            done = sum(map(len, parts[: len(results)]))
            status.update(f"{done} of {len(jobs)} configurations composed, last {name} {part[0].case}")
    return list(dict.fromkeys(itertools.chain.from_iterable(results)))


def _lacks_of(name: str, config_dirs: Sequence[Path], jobs: Sequence[Tuning]) -> list[Lack]:
    """Compose some jobs, and return the reasons why they would be refused."""
    commands = [
        (
            f"vendor={name}",
            f"model={tuning.case}",
            f"hardware={tuning.product}",
            f"nnodes={tuning.nnodes}",
            f"nproc={tuning.nproc}",
            "runtime=docker",
            "size=full",
            "dry_run=true",
        )
        for tuning in jobs
    ]
    composed = zip(jobs, compose_each(commands, config_dirs), strict=True)
    return [lack for tuning, job in composed for lack in _of_job(name, tuning, job)]


def _of_job(name: str, tuning: Tuning, job: JobConfig | ConfigError) -> Iterator[Lack]:
    """The reason why a job is refused, or why it does not use its own tuning."""
    of_tuning = tuning.path.parent.as_posix().endswith(f"/{name}/{tuning.case}")
    if isinstance(job, ConfigError):
        yield from (lack_of(error, tuning.path) for error in (job, *job.also))
    elif of_tuning and job.tuning != f"{name}/{tuning.case}/{tuning.path.stem}":
        yield Lack(str(tuning.path), "", f"no run uses it: {job.name} is tuned by {job.tuning or 'nothing'}")
    elif (
        (of_tuning or not job.tuning)  # the tuning of a tuned product has this gap
        and (extension := job.config.get("extension"))
        and extension["has_code"]
        and not extension["proof"]
    ):
        problem = f"no proof, so that a run is open: {extension['no_proof']}"
        yield Lack(str(tuning.path), "vendor.extension", problem, needed=False)


def _untuned(name: str, products: Mapping[str, Product], folders: Sequence[Path]) -> Iterator[Lack]:
    """The scales of each product without tunings, by cases. A tuning of the product alone is for all scales."""
    for product, (_, hardware, _) in products.items():
        scales = [f"{nnodes}x{nproc}" for nnodes, nproc in SCALES if nproc <= (hardware.devices_per_node or nproc)]
        lacking: dict[tuple[str, ...], list[str]] = {}
        for case in options("model", folders):
            file = f"vendor/{name}/{case}/{product}"
            missing = tuple(scale for scale in scales if find(f"{file}x{scale}", folders) is None)
            if missing and find(file, folders) is None:
                lacking.setdefault(missing, []).append(case)
        for missing, untuned in lacking.items():
            problem = f"none for {', '.join(missing)} of {', '.join(untuned)}: the case's own values are used"
            yield Lack(f"vendor/{name}/<case>/{product}x<scale>.yaml", "", problem, needed=False)
