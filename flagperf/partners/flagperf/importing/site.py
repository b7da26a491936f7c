"""FlagPerf's cluster_conf.py and test_conf.py → what the cluster's file and the experiment say."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from flagperf.partners.flagperf.importing.values import Said, Value
from flagperf.partners.flagperf.importing.words import case_of, hardware_of

NAME = "flagperf"  # of the cluster and of the experiment
IMAGE = "flagperf-{vendor}-{framework}:t_v0.1"  # as FlagPerf names the image that it builds
LEVELS = ("debug", "info", "warning", "error")
FORM = "model:framework:hardware:nnodes:nproc:repeat"

CLUSTER_WITHOUT = {"HOSTS_PORTS": "the nodes of TensorFlow find free ports by themselves"}
TEST_WITHOUT = {"FLAGPERF_PATH": "code is sent to the hosts for each run"}


@dataclass
class Site:
    """What goes into the two files."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    cluster: dict[str, Any] = field(default_factory=dict)  # further keys
    experiment: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    suite: list[tuple[str, Row]] = field(default_factory=list)  # FlagPerf's key of a case, and the job
    vendor: str | None = None
    visible_devices: str | None = None
    left: list[str] = field(default_factory=list)  # what has no counterpart, a line each


@dataclass(frozen=True)
class Known:
    """What there is here already."""

    cases: Mapping[tuple[str, str], str]  # (case, framework) → model=
    vendors: Mapping[str, Mapping[str, Any]]  # vendor → what its file says of it
    hardware: Mapping[str, str | None]  # product → whose it is

    def model(self, model: str, framework: str) -> str | None:
        """FlagPerf's model and framework, which may name its version → the case here."""
        return self.cases.get((case_of(model), framework.partition("_")[0]))

    def has_image(self, vendor: str, framework: str) -> bool:
        """Whether a vendor that is here names or builds an image for a framework."""
        entries = {f"{name}_".partition("_")[0] for name in self.vendors[vendor].get("image", {})}
        return framework in entries or (VENDORS / vendor / "docker" / framework / DOCKERFILE).is_file()


def read_site(cluster_conf: Said | None, test_conf: Said | None, known: Known) -> Site:
    """Both files. One that is not there says nothing: the cluster is then this machine."""
    site = Site()
    if cluster_conf:
        _hosts(site, cluster_conf)
    if test_conf:
        _test(site, test_conf, known)
        _cases(site, test_conf, known)
    for said, taken in ((cluster_conf, _HOST_KEYS), (test_conf, _TEST_KEYS)):
        for value in said.values.values() if said else ():
            if value.name not in taken:
                why = {**CLUSTER_WITHOUT, **TEST_WITHOUT}.get(value.name, "flagperf has no such key")
                site.left.append(_line(value, why))
            elif value.name in _TEXTS and not isinstance(value.value, str | None):
                site.left.append(_line(value, "no text"))
    return site


_TEXTS = (
    "VENDOR", "ACCE_CONTAINER_OPT", "ACCE_VISIBLE_DEVICE_ENV_NAME", "PIP_SOURCE", "FLAGPERF_LOG_PATH", "SHM_SIZE",
)  # fmt: skip
_HOST_KEYS = ("HOSTS", "SSH_PORT", "MASTER_PORT")
_TEST_KEYS = (*_TEXTS, "FLAGPERF_LOG_LEVEL", "CLEAR_CACHES", "CASES")


def _line(value: Value, why: str) -> str:
    return f"{value.place.short}: {value.name} = {plain(value.value)}    ({why})"


def _leave(site: Site, said: Said, name: str, why: str) -> None:
    """Tell a key that has no counterpart, where it is there."""
    if name in said.values:
        site.left.append(_line(said.values[name], why))


def _hosts(site: Site, said: Said) -> None:
    port = _port(said.get("SSH_PORT"))
    hosts = said.get("HOSTS", [])
    for host in hosts if isinstance(hosts, list) else [hosts]:
        if isinstance(host, str) and host:
            site.nodes.append({"address": host} | ({"port": port} if port not in (None, 22) else {}))
        else:
            _leave(site, said, "HOSTS", f"{plain(host)} is no address")
    if master := _port(said.get("MASTER_PORT")):
        site.cluster["rendezvous"] = {"port": master}
    for name in ("SSH_PORT", "MASTER_PORT"):
        if _port(said.get(name)) is None:
            _leave(site, said, name, "no port")


def _port(text: Any) -> int | None:
    return int(text) if str(text).isdecimal() and 0 < int(text) < 65536 else None


def _test(site: Site, said: Said, known: Known) -> None:
    site.vendor, site.visible_devices = _text(said, "VENDOR"), _text(said, "ACCE_VISIBLE_DEVICE_ENV_NAME")
    if site.vendor and not re.fullmatch(FILE_NAME, site.vendor):
        _leave(site, said, "VENDOR", "no name of a vendor")
        site.vendor = None
    if site.visible_devices and site.vendor and site.vendor in known.vendors:
        variable = known.vendors[site.vendor].get("visible_devices")
        if variable != site.visible_devices:
            _leave(site, said, "ACCE_VISIBLE_DEVICE_ENV_NAME", f"the file of {site.vendor} here says {variable}")
    if options := _text(said, "ACCE_CONTAINER_OPT"):
        container, site.variables, left = read_options(options)
        site.cluster["container"] = container
        site.left += (f"{said.values['ACCE_CONTAINER_OPT'].place.short}: {one}    (no option here)" for one in left)
    if size := _text(said, "SHM_SIZE"):
        site.cluster.setdefault("container", {})["shm_size"] = size.lower()
    _check_container(site, said)
    if index := _text(said, "PIP_SOURCE"):
        site.cluster["image"] = {"index": index}
    if folder := _text(said, "FLAGPERF_LOG_PATH"):
        site.experiment["result_dir"] = folder.rstrip("/") or "/"
    if isinstance(caches := said.get("CLEAR_CACHES"), bool):
        site.experiment["clear_caches"] = caches
    else:
        _leave(site, said, "CLEAR_CACHES", "no such value here")
    if (level := (_text(said, "FLAGPERF_LOG_LEVEL") or "").lower()) in LEVELS:
        site.experiment["log_level"] = level
    else:
        _leave(site, said, "FLAGPERF_LOG_LEVEL", "no such value here")


def _text(said: Said, name: str) -> str | None:
    value = said.get(name)
    return value.strip() or None if isinstance(value, str) else None


def _check_container(site: Site, said: Said) -> None:
    """Take out the options that no container could be made with."""
    for key, value in list(site.cluster.get("container", {}).items()):
        try:
            build(ContainerOptions, {key: value}, "cluster.container", str)
        except ConfigError as error:
            del site.cluster["container"][key]
            site.left.append(f"{said.files[0].name}: {key}: {plain(value)}    ({error.problem})")


def _cases(site: Site, said: Said, known: Known) -> None:
    if "CASES" not in said.values:
        return
    value = said.values["CASES"]
    cases = value.value if isinstance(value.value, dict) else {}
    if not isinstance(value.value, dict):
        _leave(site, said, "CASES", f"no mapping of {FORM} to a folder of data")
    for key, folder in cases.items():
        row = _row(key, folder, site, known)
        if any(row == job for _, job in site.suite):
            row = "the same job as one before"
        if isinstance(row, str):
            site.left.append(f'{value.place.short}: CASES "{key}": {plain(folder)}    ({row})')
        else:
            site.suite.append((key, row))


def _row(key: str, folder: Any, site: Site, known: Known) -> Row | str:
    """The job of a case of FlagPerf; or why there is none."""
    parts = [part.strip() for part in key.split(":")]
    counts = parts[3:6]
    if len(parts) < 6 or not all(re.fullmatch(r"[1-9]\d*", count) for count in counts):
        return f"not of the form {FORM}"
    if site.vendor is None:
        return "no VENDOR says whose case it is"
    model, framework, hardware = parts[:3]
    case = known.model(model, framework)
    if case is None:
        return f"there is no case {model} on {framework} here"
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
