"""FlagPerf's cluster_conf.py and test_conf.py → the contents of the cluster's file and of the experiment."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from flagperf.config.files.search_path import VENDORS
from flagperf.config.files.suite import Row
from flagperf.config.parts.image import DOCKERFILE
from flagperf.config.schema.platform import ContainerOptions
from flagperf.contract.build import build
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.checkout import FILE_NAME
from flagperf.partners.flagperf.importing.docker_options import read_options
from flagperf.partners.flagperf.importing.texts import plain
from flagperf.partners.flagperf.importing.values import FileContent, Value
from flagperf.partners.flagperf.importing.words import case_of, hardware_of, why_no_case

NAME = "flagperf"  # of the cluster and of the experiment
IMAGE = "flagperf-{vendor}-{framework}:t_v0.1"  # FlagPerf's name of the image that it builds
LEVELS = ("debug", "info", "warning", "error")
FORM = "model:framework:hardware:nnodes:nproc:repeat"

CLUSTER_WITHOUT = {"HOSTS_PORTS": "the nodes of TensorFlow find free ports by themselves"}
TEST_WITHOUT = {"FLAGPERF_PATH": "code is sent to the hosts for each run"}


@dataclass
class Site:
    """The contents of the two files."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    cluster: dict[str, Any] = field(default_factory=dict)  # further keys
    experiment: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    suite: list[tuple[str, Row]] = field(default_factory=list)  # FlagPerf's key of a case, and the job
    vendor: str | None = None
    visible_devices: str | None = None
    left: list[str] = field(default_factory=list)  # a line for each value without a counterpart


@dataclass(frozen=True)
class Known:
    """The cases, vendors and products that flagperf and the user already have."""

    cases: Mapping[tuple[str, str], str]  # (case, framework) → model=
    vendors: Mapping[str, Mapping[str, Any]]  # vendor → `vendor` of its file
    hardware: Mapping[str, str | None]  # product → its vendor

    def model(self, model: str, framework: str) -> str | None:
        """Our case for FlagPerf's model and framework; None where we have no such case. Versions do not count."""
        return self.cases.get((case_of(model), framework.partition("_")[0]))

    def has_image(self, vendor: str, framework: str) -> bool:
        """Whether a known vendor has an image for a framework."""
        entries = {f"{name}_".partition("_")[0] for name in self.vendors[vendor].get("image", {})}
        return framework in entries or (VENDORS / vendor / "docker" / framework / DOCKERFILE).is_file()


def read_site(cluster_conf: FileContent | None, test_conf: FileContent | None, known: Known) -> Site:
    """The contents of both files. Without cluster_conf.py the cluster is this machine."""
    site = Site()
    if cluster_conf:
        _hosts(site, cluster_conf)
    if test_conf:
        _test(site, test_conf, known)
        _cases(site, test_conf, known)
    for content, known_keys in ((cluster_conf, _HOST_KEYS), (test_conf, _TEST_KEYS)):
        for value in content.values.values() if content else ():
            if value.name not in known_keys:
                reason = {**CLUSTER_WITHOUT, **TEST_WITHOUT}.get(value.name, "flagperf has no such key")
                site.left.append(_line(value, reason))
            elif value.name in _TEXT_KEYS and not isinstance(value.value, str | None):
                site.left.append(_line(value, "no text"))
    return site


_TEXT_KEYS = (
    "VENDOR", "ACCE_CONTAINER_OPT", "ACCE_VISIBLE_DEVICE_ENV_NAME", "PIP_SOURCE", "FLAGPERF_LOG_PATH", "SHM_SIZE",
)  # fmt: skip
_HOST_KEYS = ("HOSTS", "SSH_PORT", "MASTER_PORT")
_TEST_KEYS = (*_TEXT_KEYS, "FLAGPERF_LOG_LEVEL", "CLEAR_CACHES", "CASES")


def _line(value: Value, reason: str) -> str:
    return f"{value.source.short}: {value.name} = {plain(value.value)}    ({reason})"


def _leave(site: Site, content: FileContent, name: str, reason: str) -> None:
    """Record a key without a counterpart, where the file has it."""
    if name in content.values:
        site.left.append(_line(content.values[name], reason))


def _hosts(site: Site, content: FileContent) -> None:
    port = _port(content.get("SSH_PORT"))
    hosts = content.get("HOSTS", [])
    for host in hosts if isinstance(hosts, list) else [hosts]:
        if isinstance(host, str) and host:
            site.nodes.append({"address": host} | ({"port": port} if port not in (None, 22) else {}))
        else:
            _leave(site, content, "HOSTS", f"{plain(host)} is no address")
    if master := _port(content.get("MASTER_PORT")):
        site.cluster["rendezvous"] = {"port": master}
    for name in ("SSH_PORT", "MASTER_PORT"):
        if _port(content.get(name)) is None:
            _leave(site, content, name, "no port")


def _port(text: Any) -> int | None:
    return int(text) if str(text).isdecimal() and 0 < int(text) < 65536 else None


def _test(site: Site, content: FileContent, known: Known) -> None:
    site.vendor, site.visible_devices = _text(content, "VENDOR"), _text(content, "ACCE_VISIBLE_DEVICE_ENV_NAME")
    if site.vendor and not re.fullmatch(FILE_NAME, site.vendor):
        _leave(site, content, "VENDOR", "no name of a vendor")
        site.vendor = None
    if site.visible_devices and site.vendor and site.vendor in known.vendors:
        variable = known.vendors[site.vendor].get("visible_devices")
        if variable != site.visible_devices:
            _leave(site, content, "ACCE_VISIBLE_DEVICE_ENV_NAME", f"the file of {site.vendor} here says {variable}")
    options: dict[str, Any] = {}
    if text := _text(content, "ACCE_CONTAINER_OPT"):
        options, site.variables, left = read_options(text)
        site.cluster["container"] = dict(options)
        site.left += (
            f"{content.values['ACCE_CONTAINER_OPT'].source.short}: {option}    (no option here)" for option in left
        )
    if size := _text(content, "SHM_SIZE"):
        site.cluster.setdefault("container", {})["shm_size"] = size.lower()
        options.pop("shm_size", None)
    _check_container(site, content, options)
    if index := _text(content, "PIP_SOURCE"):
        site.cluster["image"] = {"index": index}
    if folder := _text(content, "FLAGPERF_LOG_PATH"):
        site.experiment["result_dir"] = folder.rstrip("/") or "/"
    if isinstance(caches := content.get("CLEAR_CACHES"), bool):
        site.experiment["clear_caches"] = caches
    else:
        _leave(site, content, "CLEAR_CACHES", "no such value here")
    if (level := (_text(content, "FLAGPERF_LOG_LEVEL") or "").lower()) in LEVELS:
        site.experiment["log_level"] = level
    else:
        _leave(site, content, "FLAGPERF_LOG_LEVEL", "no such value here")


def _text(content: FileContent, name: str) -> str | None:
    value = content.get(name)
    return value.strip() or None if isinstance(value, str) else None


def _check_container(site: Site, content: FileContent, options: Collection[str]) -> None:
    """Remove the options that are wrong for a container; of a list, its wrong entries.

    Args:
        options: those that ACCE_CONTAINER_OPT names.
    """
    container = site.cluster.get("container", {})
    for key, value in list(container.items()):
        kept = []
        for entry in value if isinstance(value, list) else [value]:
            try:
                build(ContainerOptions, {key: [entry] if isinstance(value, list) else entry}, "cluster.container", str)
                kept.append(entry)
            except ConfigError as error:
                reason = f"{error.problem}; allowed: {error.allowed}" if error.allowed else error.problem
                source = content.values["ACCE_CONTAINER_OPT" if key in options else "SHM_SIZE"].source.short
                site.left.append(f"{source}: {key}: {plain(entry)}    ({reason})")
        if not kept:
            del container[key]
        elif isinstance(value, list):
            container[key] = kept


def _cases(site: Site, content: FileContent, known: Known) -> None:
    if "CASES" not in content.values:
        return
    value = content.values["CASES"]
    cases = value.value if isinstance(value.value, dict) else {}
    if not isinstance(value.value, dict):
        _leave(site, content, "CASES", f"no mapping of {FORM} to a folder of data")
    for key, folder in cases.items():
        row = _row(key, folder, site, known)
        if any(row == job for _, job in site.suite):
            row = "the same job as one before"
        if isinstance(row, str):
            site.left.append(f'{value.source.short}: CASES "{key}": {plain(folder)}    ({row})')
        else:
            site.suite.append((key, row))


def _row(key: str, folder: Any, site: Site, known: Known) -> Row | str:
    """The job for an entry of CASES; or the reason why it has none."""
    parts = [part.strip() for part in key.split(":")]
    counts = parts[3:6]
    if len(parts) < 6 or not all(re.fullmatch(r"[1-9]\d*", count) for count in counts):
        return f"not of the form {FORM}"
    if site.vendor is None:
        return "no VENDOR says whose case it is"
    model, framework, hardware = parts[:3]
    case = known.model(model, framework)
    if case is None:
        return why_no_case(model, framework)
    product = hardware_of(hardware)
    if not re.fullmatch(FILE_NAME, product) or not re.fullmatch(FILE_NAME, framework):
        return "no name of a product or framework"
    owner = known.hardware.get(product)
    if owner not in (None, site.vendor):
        return f"{product} is a product of {owner} here"
    nnodes, nproc, repeat = map(int, counts)
    row: dict[str, Any] = {"model": case, "hardware": product, "scale": f"{nnodes}x{nproc}", "repeat": repeat}
    if not isinstance(folder, str | None):
        return "no folder of data"
    if folder:
        row["data_dir"] = folder.rstrip("/") or "/"
    image = IMAGE.format(vendor=site.vendor, framework=framework)
    return row | {f"vendor.image.{framework.partition('_')[0]}": {"name": image}}
