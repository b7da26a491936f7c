"""FlagPerf's cluster_conf.py and test_conf.py → the cluster's file, the experiment; and files of what is new here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flagperf.config.build import build
from flagperf.config.platform import ContainerOptions
from flagperf.config.suite import Row
from flagperf.errors import ConfigError
from flagperf.importing.checkout import NAME as NAMES
from flagperf.importing.docker_options import read_options
from flagperf.importing.texts import COLUMN, entry, plain, title
from flagperf.importing.values import Said, Value, VendorConfig
from flagperf.importing.words import case_of, hardware_of

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
    vendors: Sequence[str]
    hardware: Mapping[str, str | None]  # product → whose it is

    def model(self, model: str, framework: str) -> str | None:
        """FlagPerf's model and framework, which may name its version → the case here."""
        return self.cases.get((case_of(model), framework.partition("_")[0]))


def read_site(cluster_conf: Said | None, test_conf: Said | None, known: Known) -> Site:
    """Both files. One that is not there says nothing: the cluster is then this machine."""
    site = Site()
    if cluster_conf:
        _hosts(site, cluster_conf)
    if test_conf:
        _test(site, test_conf)
        _cases(site, test_conf, known)
    for said, taken in ((cluster_conf, _HOST_KEYS), (test_conf, _TEST_KEYS)):
        for value in said.values.values() if said else ():
            if value.name not in taken:
                why = {**CLUSTER_WITHOUT, **TEST_WITHOUT}.get(value.name, "flagperf has no such key")
                site.left.append(_line(value, why))
    return site


_HOST_KEYS = ("HOSTS", "SSH_PORT", "MASTER_PORT")
_TEST_KEYS = (
    "VENDOR", "ACCE_CONTAINER_OPT", "ACCE_VISIBLE_DEVICE_ENV_NAME", "PIP_SOURCE", "FLAGPERF_LOG_PATH",
    "FLAGPERF_LOG_LEVEL", "SHM_SIZE", "CLEAR_CACHES", "CASES",
)  # fmt: skip


def _line(value: Value, why: str) -> str:
    return f"{value.place.short}: {value.name} = {plain(value.value)}    ({why})"


def _hosts(site: Site, said: Said) -> None:
    port = _port(said.get("SSH_PORT"))
    hosts = said.get("HOSTS", [])
    for host in hosts if isinstance(hosts, list) else [hosts]:
        if isinstance(host, str) and host:
            site.nodes.append({"address": host} | ({"port": port} if port not in (None, 22) else {}))
        else:
            site.left.append(_line(said.values["HOSTS"], f"{plain(host)} is no address"))
    if master := _port(said.get("MASTER_PORT")):
        site.cluster["rendezvous"] = {"port": master}
    for name in ("SSH_PORT", "MASTER_PORT"):
        if name in said.values and _port(said.get(name)) is None:
            site.left.append(_line(said.values[name], "no port"))


def _port(text: Any) -> int | None:
    return int(text) if str(text).isdigit() and 0 < int(text) < 65536 else None


def _test(site: Site, said: Said) -> None:
    site.vendor, site.visible_devices = _text(said, "VENDOR"), _text(said, "ACCE_VISIBLE_DEVICE_ENV_NAME")
    if site.vendor and not re.fullmatch(NAMES, site.vendor):
        site.left.append(_line(said.values["VENDOR"], "no name of a vendor"))
        site.vendor = None
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
    if isinstance(said.get("CLEAR_CACHES"), bool):
        site.experiment["clear_caches"] = said.get("CLEAR_CACHES")
    if (level := _text(said, "FLAGPERF_LOG_LEVEL")) and level.lower() in LEVELS:
        site.experiment["log_level"] = level.lower()
    for name in ("CLEAR_CACHES", "FLAGPERF_LOG_LEVEL"):
        key = {"CLEAR_CACHES": "clear_caches", "FLAGPERF_LOG_LEVEL": "log_level"}[name]
        if name in said.values and key not in site.experiment:
            site.left.append(_line(said.values[name], "no such value here"))


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
        site.left.append(_line(value, f"no mapping of {FORM} to a folder of data"))
    for key, folder in cases.items():
        row = _row(key, folder, site, known)
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
    if not re.fullmatch(NAMES, product) or not re.fullmatch(NAMES, framework):
        return "no name of a product or framework"
    maker = known.hardware.get(product)
    if maker not in (None, site.vendor):
        return f"{product} is a product of {maker} here"
    nnodes, nproc, repeat = map(int, counts)
    row: dict[str, Any] = {"model": case, "hardware": product, "scale": f"{nnodes}x{nproc}", "repeat": repeat}
    if isinstance(folder, str) and folder:
        row["data_dir"] = folder.rstrip("/") or "/"
    image = IMAGE.format(vendor=site.vendor, framework=framework)
    return row | {f"vendor.image.{framework.partition('_')[0]}": {"name": image}}


def cluster_text(site: Site) -> str:
    """cluster/flagperf.yaml."""
    lines = title(
        f"flagperf --config-dir . cluster={NAME} vendor={site.vendor or 'NAME'} hardware=NAME data_dir=/data",
        ["Imported from FlagPerf's cluster_conf.py and test_conf.py. docs/clusters.md explains each key."],
        rooted=False,
    )
    lines += [entry("title", "the hosts of FlagPerf's cluster_conf.py"), ""]
    lines.append("nodes:".ljust(COLUMN - 1) + " # the first nnodes of them are used; the first is node 0")
    lines += [f"  - {plain(node)}" for node in site.nodes or [{"address": "127.0.0.1", "local": True}]]
    if len(site.nodes) > 0:
        lines += ["ssh:", entry("strict", True, "false, as FlagPerf has it, accepts any host key", indent=2)]
    for key, value in site.cluster.items():
        lines += [f"{key}:", *(entry(name, item, _SAID.get((key, name), ""), indent=2) for name, item in value.items())]
    return "\n".join(lines) + "\n"


_SAID = {
    ("rendezvous", "port"): "MASTER_PORT",
    ("container", "shm_size"): "SHM_SIZE: /dev/shm of a container, unless ipc is host",
    ("image", "index"): "PIP_SOURCE: Python package index of a build",
}


def experiment_text(site: Site) -> str:
    """experiment/flagperf.yaml: the CASES list as a suite, with what else test_conf.py says of all of them."""
    many = "-m " if site.suite else ""
    command = f"flagperf --config-dir . {many}+experiment={NAME}"
    about = ["Imported from FlagPerf's test_conf.py and cluster_conf.py. docs/from-flagperf.md explains it."]
    if site.left:
        about.append("Without counterpart:\n" + "\n".join(f"  {line}" for line in site.left))
    lines = [*title(f"{command} dry_run=true", about), "defaults:"]
    lines += [f"  - override /vendor: {site.vendor}"] if site.vendor else []
    lines += [f"  - override /cluster: {NAME}", ""]
    if site.suite:
        lines.append("suite:".ljust(COLUMN - 1) + " # CASES; scale: nodes x devices of each; repeat: rounds")
    for key, row in site.suite:
        lines.append(f"  # {' '.join(key.split())}")
        lines += [f"  {'- ' if name == 'model' else '  '}{name}: {plain(value)}" for name, value in row.items()]
    lines += [entry(key, value, _EXPERIMENT[key]) for key, value in site.experiment.items()]
    if site.variables:
        lines += ["vendor:", "  environment:".ljust(COLUMN - 1) + " # --env of ACCE_CONTAINER_OPT"]
        lines += [entry(name, value, indent=4) for name, value in site.variables.items()]
    return "\n".join(lines) + "\n"


_EXPERIMENT = {
    "result_dir": "FLAGPERF_LOG_PATH: where run folders are made",
    "clear_caches": "CLEAR_CACHES: hosts forget cached files before each round",
    "log_level": "FLAGPERF_LOG_LEVEL: what flagperf_run.log keeps",
}


def vendor_text(vendor: str, site: Site, configs: Iterable[VendorConfig]) -> str:
    """vendor/<vendor>.yaml of a vendor that is not here yet."""
    mine = [config for config in configs if config.vendor == vendor]
    backends = [value for config in mine if isinstance(value := config.said.get("dist_backend"), str)]
    frameworks = sorted({config.framework.partition("_")[0] for config in mine}) or ["pytorch"]
    about = (
        "Imported from FlagPerf, whose files do not name a device: its driver takes CUDA for every vendor that it "
        "does not know. docs/adding-a-vendor.md says what is missing here, such as the monitor."
    )
    lines = title(f"flagperf --config-dir . vendor={vendor} hardware=NAME data_dir=/data", [about])
    lines += ["defaults:", "  - override /runtime: docker", "  - override /size: full", "  - _self_", "", "vendor:"]
    visible = site.visible_devices if site.vendor == vendor else None
    lines += [
        entry("title", vendor, indent=2),
        entry("device", "cuda", "torch device type", indent=2),
        entry("backend", backends[0] if backends else "nccl", "torch.distributed backend: dist_backend", indent=2),
        entry("plugin", None, "module that adds the device to torch", indent=2),
        entry("visible_devices", visible, "ACCE_VISIBLE_DEVICE_ENV_NAME", indent=2),
        "  image:".ljust(COLUMN - 1) + " # as FlagPerf names what it builds",
    ]
    lines += [f"    {name}: {{name: {plain(IMAGE.format(vendor=vendor, framework=name))}}}" for name in frameworks]
    return "\n".join(lines) + "\n"


def hardware_text(product: str, vendor: str, nproc: int) -> str:
    """hardware/<product>.yaml of a product that is not here yet."""
    about = "Imported from FlagPerf, whose files say no more of a product than its name: fill in the data sheet's."
    lines = title(f"flagperf --config-dir . vendor={vendor} hardware={product} data_dir=/data", [about], rooted=False)
    lines += [
        entry("title", product),
        entry("vendor", vendor),
        entry("memory_gib", None, "of one device"),
        entry("power_w", None, "of one device"),
        entry("devices_per_node", nproc, "as many as FlagPerf's files use"),
        entry("peak_flops", {}, "FLOP/s of one device per precision, from the data sheet; MFU is measured by it"),
    ]
    return "\n".join(lines) + "\n"
