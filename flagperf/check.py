"""`flagperf check vendor=NAME`: what a vendor's files lack, before any accelerator is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from flagperf.errors import ConfigError, nearest
from flagperf.image import choose_image
from flagperf.monitors.table import FIGURES, make_table
from flagperf.origin import Where
from flagperf.places import find, options, search_path
from flagperf.schema import Hardware, ImageSettings, Vendor
from flagperf.typed import build

SCALES = ("1x1", "1x8", "2x8")  # at which FlagPerf wants every case of a vendor
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")


class Lack(NamedTuple):
    """One thing that is wrong or missing."""

    file: str
    key: str
    what: str
    needed: bool = True  # False: it runs without, with less to show


def check_vendor(name: str, config_dirs: Sequence[Path] = ()) -> list[Lack]:
    """All that a vendor's files lack, file by file.

    Raises:
        ConfigError: there is no such vendor, or a file is no YAML.
    """
    folders = search_path(config_dirs)
    path = find(f"vendor/{name}", folders)
    if path is None:
        raise ConfigError("no such vendor", key="vendor", given=name, allowed=nearest(name, options("vendor", folders)))
    text = _read(path)
    said = text.get("vendor") or {}
    if said.get("device") == "cpu" and not said.get("monitor"):
        return []  # the host's own processor: every host has it, and the node's monitors watch it
    products = dict(_products(name, folders))
    try:
        vendor = build(Vendor, {"name": name, **said}, "vendor", _always(path))
    except ConfigError as error:
        lacks = [_lack(error, path)]
    else:
        lacks = [*_vendor(vendor, path), *_image(vendor, path), *_monitor(vendor, path, products)]
    return [*_defaults(text, path), *lacks, *_hardware(name, products, folders), *_tunings(name, products, folders)]


def _defaults(text: Mapping[str, Any], path: Path) -> Iterator[Lack]:
    said = [entry for entry in text.get("defaults", []) if isinstance(entry, dict)]
    for group, option in (("runtime", "docker"), ("size", "full")):
        if {f"override /{group}": option} not in said:
            what = f"`override /{group}: {option}`, which accelerators default to"
            yield Lack(str(path), "defaults", what, needed=False)


def _vendor(vendor: Vendor, path: Path) -> Iterator[Lack]:
    if vendor.visible_devices is None:
        yield Lack(str(path), "vendor.visible_devices", "null: a run cannot be kept to some devices", needed=False)
    if vendor.device_files is None:
        yield Lack(str(path), "vendor.device_files", "null: devices are not counted before a run starts", needed=False)
    if vendor.container.privileged:
        yield Lack(str(path), "vendor.container.privileged", "true: devices by name would be less", needed=False)


def _image(vendor: Vendor, path: Path) -> Iterator[Lack]:
    """For PyTorch, and what other frameworks the file names: an image by name, or a Dockerfile."""
    for framework in {"pytorch": None, **vendor.image}:
        try:
            choose_image(vendor, framework, ImageSettings(), _always(path))
        except ConfigError as error:
            yield _lack(error, path)


def _monitor(vendor: Vendor, path: Path, products: Mapping[str, Hardware | ConfigError]) -> Iterator[Lack]:
    if vendor.monitor is None:
        yield Lack(str(path), "vendor.monitor", "null: temperature, power, memory and utilisation stay unknown")
        return
    hardware = next((known for known in products.values() if isinstance(known, Hardware)), None)
    try:
        table = make_table(vendor.monitor, vendor.name, hardware or Hardware("", "", None, None, {}))
    except ConfigError as error:
        yield _lack(error, path)
        return
    missing = [figure for figure in FIGURES if figure != "energy" and figure not in table.figures]
    if missing:
        yield Lack(str(path), "vendor.monitor.parse", f"no group for: {', '.join(missing)}", needed=False)


def _products(name: str, folders: Sequence[Path]) -> Iterator[tuple[str, Hardware | ConfigError]]:
    """The hardware files of a vendor, each as it is read or the error in it."""
    for product in options("hardware", folders):
        path = find(f"hardware/{product}", folders)
        assert path is not None
        text = _read(path)
        if text.get("vendor") != name:
            continue
        try:
            yield product, build(Hardware, {"name": product, **text}, "hardware", _always(path))
        except ConfigError as error:
            yield product, error


def _hardware(name: str, products: Mapping[str, Hardware | ConfigError], folders: Sequence[Path]) -> Iterator[Lack]:
    if not products:
        yield Lack(f"hardware/<product>.yaml, with vendor: {name}", "", "no product")
    for product, hardware in products.items():
        path = find(f"hardware/{product}", folders)
        assert path is not None
        if isinstance(hardware, ConfigError):
            yield _lack(hardware, path)
            continue
        for key in ("memory_gib", "power_w", "devices_per_node"):
            if getattr(hardware, key) is None:
                yield Lack(str(path), key, "null", needed=False)
        unknown = [precision for precision in PRECISIONS if precision not in hardware.peak_flops]
        if unknown:
            yield Lack(str(path), "peak_flops", f"none for {', '.join(unknown)}: no MFU there", needed=False)


def _tunings(name: str, products: Mapping[str, object], folders: Sequence[Path]) -> Iterator[Lack]:
    """The scales of each product that cases have no tuning for. A file of the product alone stands for all scales."""
    for product in products:
        lacking: dict[tuple[str, ...], list[str]] = {}
        for case in options("model", folders):
            file = f"vendor/{name}/{case}/{product}"
            missing = tuple(scale for scale in SCALES if find(f"{file}x{scale}", folders) is None)
            if missing and find(file, folders) is None:
                lacking.setdefault(missing, []).append(case)
        for scales, cases in lacking.items():
            what = f"none for {', '.join(scales)} of {', '.join(cases)}: the case's own values are used"
            yield Lack(f"vendor/{name}/<case>/{product}x<scale>.yaml", "", what, needed=False)


def _always(path: Path) -> Where:
    """Names one file as the source of every key."""
    return lambda _: str(path)


def _lack(error: ConfigError, path: Path) -> Lack:
    """A refused value as a row."""
    told = [error.problem, f"given {error.given}" if error.given is not None else None, error.advice or error.allowed]
    return Lack(str(path), error.key or "", "; ".join(part for part in told if part))


def _read(path: Path) -> dict[str, Any]:
    try:
        text = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError("not YAML", where=str(path), given=" ".join(str(error).split())) from None
    if not isinstance(text, dict):
        raise ConfigError("not a mapping of keys to values", where=str(path))
    return text
