"""A Site → the texts of its files: the cluster, the experiment, and new vendors and products."""

from __future__ import annotations

from collections.abc import Iterable

from flagperf.partners.flagperf.importing.site import IMAGE, NAME, Site
from flagperf.partners.flagperf.importing.texts import COLUMN, entry, plain, title
from flagperf.partners.flagperf.importing.values import VendorConfig


def cluster_text(site: Site) -> str:
    """The text of cluster/flagperf.yaml."""
    lines = title(
        f"flagperf --config-dir . cluster={NAME} vendor={site.vendor or 'NAME'} hardware=NAME data_dir=/data",
        ["Imported from FlagPerf's cluster_conf.py and test_conf.py. docs/clusters.md explains each key."],
        rooted=False,
    )
    lines += [entry("title", "the hosts of FlagPerf's cluster_conf.py" if site.nodes else "this machine"), ""]
    lines.append("nodes:".ljust(COLUMN - 1) + " # the first nnodes of them are used; the first is node 0")
    lines += [f"  - {plain(node)}" for node in site.nodes or [{"address": "127.0.0.1", "local": True}]]
    if len(site.nodes) > 0:
        lines += ["ssh:", entry("strict", True, "false, as FlagPerf has it, accepts any host key", indent=2)]
    for key, value in site.cluster.items():
        lines += [
            f"{key}:",
            *(entry(name, item, _CLUSTER_COMMENTS.get((key, name), ""), indent=2) for name, item in value.items()),
        ]
    return "\n".join(lines) + "\n"


_CLUSTER_COMMENTS = {
    ("rendezvous", "port"): "MASTER_PORT",
    ("container", "shm_size"): "SHM_SIZE: /dev/shm of a container, unless ipc is host",
    ("image", "index"): "PIP_SOURCE: Python package index of a build",
}


def show(site: Site) -> str:
    """The overrides of a dry run of the experiment."""
    if site.suite:
        return f"-m +experiment={NAME} dry_run=true"
    vendor = "" if site.vendor else "vendor=NAME "
    return f"+experiment={NAME} model=NAME {vendor}hardware=NAME data_dir=/data dry_run=true"


def experiment_text(site: Site) -> str:
    """The text of experiment/flagperf.yaml: CASES as a suite, with the other values of test_conf.py."""
    command = f"flagperf --config-dir . {show(site)}"
    about = ["Imported from FlagPerf's test_conf.py and cluster_conf.py. docs/from-flagperf.md explains it."]
    if site.left:
        about.append("Without counterpart:\n" + "\n".join(f"  {line}" for line in site.left))
    lines = [*title(command, about), "defaults:"]
    lines += [f"  - override /vendor: {site.vendor}"] if site.vendor else []
    lines += [f"  - override /cluster: {NAME}", ""]
    if site.suite:
        lines.append("suite:".ljust(COLUMN - 1) + " # CASES; scale: nodes x devices of each; repeat: rounds")
    for key, row in site.suite:
        lines.append(f"  # {' '.join(key.split())}")
        lines += [f"  {'- ' if name == 'model' else '  '}{name}: {plain(value)}" for name, value in row.items()]
    if site.suite and (site.experiment or site.variables):
        lines.append("")
    lines += [entry(key, value, _EXPERIMENT_COMMENTS[key]) for key, value in site.experiment.items()]
    if site.variables:
        lines += ["vendor:", "  environment:".ljust(COLUMN - 1) + " # --env of ACCE_CONTAINER_OPT"]
        lines += [entry(name, value, indent=4) for name, value in site.variables.items()]
    return "\n".join(lines) + "\n"


_EXPERIMENT_COMMENTS = {
    "result_dir": "FLAGPERF_LOG_PATH: where run folders are made",
    "clear_caches": "CLEAR_CACHES: hosts forget cached files before each round",
    "log_level": "FLAGPERF_LOG_LEVEL: what flagperf_run.log keeps",
}


def vendor_text(vendor: str, site: Site, configs: Iterable[VendorConfig]) -> str:
    """The text of vendor/<vendor>.yaml, for a new vendor."""
    own_configs = [config for config in configs if config.vendor == vendor]
    backends = [value for config in own_configs if isinstance(value := config.content.get("dist_backend"), str)]
    frameworks = sorted({config.framework.partition("_")[0] for config in own_configs}) or ["pytorch"]
    remark = (
        "Imported from FlagPerf, whose files do not name a device: its driver takes CUDA for every vendor that it "
        "does not know. docs/adding-a-vendor.md says what is missing here, such as the monitor."
    )
    lines = title(f"flagperf --config-dir . vendor={vendor} hardware=NAME data_dir=/data", [remark])
    lines += ["defaults:", "  - override /runtime: docker", "  - override /size: full", "  - _self_", "", "vendor:"]
    visible = site.visible_devices if site.vendor == vendor else None
    lines += [
        entry("title", vendor, indent=2),
        entry("device", "cuda", "torch device type", indent=2),
        entry("backend", backends[0] if backends else "nccl", "torch.distributed backend: dist_backend", indent=2),
        entry("plugin", None, "module that adds the device to torch", indent=2),
        entry("visible_devices", visible, "ACCE_VISIBLE_DEVICE_ENV_NAME", indent=2),
        entry("container", {"privileged": True}, "as FlagPerf runs it; to name its devices would be less", indent=2),
        "  image:".ljust(COLUMN - 1) + " # as FlagPerf names what it builds",
    ]
    lines += [f"    {name}: {{name: {plain(IMAGE.format(vendor=vendor, framework=name))}}}" for name in frameworks]
    return "\n".join(lines) + "\n"


def hardware_text(product: str, vendor: str, nproc: int) -> str:
    """The text of hardware/<product>.yaml, for a new product."""
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
