"""Types and checks the platform of a job: framework, product, vendor, hosts and runtime."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.files.layer import Layer
from flagperf.config.files.search_path import find, options
from flagperf.config.parts.image import check_version, choose_image, pod_image
from flagperf.config.parts.names import check_ascii
from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.framework import check_framework
from flagperf.config.schema.monitor_tool import make_table
from flagperf.config.schema.platform import ContainerOptions, Hardware, Image, RuntimeSettings, Vendor
from flagperf.config.schema.schedulers import SOURCES
from flagperf.config.schema.values import JobConfig, Typed
from flagperf.contract.build import Where, build
from flagperf.errors import ConfigError

EXCLUSIVE = "cluster.slurm.exclusive"
# Variables that flagperf and the ranks' launcher set for processes. A user's value would mislead the processes.
OWN_VARIABLES = re.compile(
    r"FLAGPERF_\w+|PET_\w+|TORCHELASTIC_\w+|PYTHON_EXEC|MASTER_(ADDR|PORT)|((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)"
)


def check_hardware_chosen(final: Layer, chosen: Container[str], folders: Sequence[Path]) -> None:
    """Refuse a vendor with another vendor's default hardware, before errors that follow from it.

    `chosen`: the config groups in the command line.
    """
    vendor, product_vendor = final.choices["vendor"], final.get("hardware.vendor")
    if "hardware" in chosen or product_vendor in (None, vendor):
        return
    files = {product: find(f"hardware/{product}", folders) for product in options("hardware", folders)}
    products = [
        name
        for name, path in files.items()
        if path and re.search(rf"^vendor: *{vendor}\b", path.read_text("utf-8"), re.M)
    ]
    allowed = ", ".join(products) or f"a file hardware/<product>.yaml with vendor: {vendor}"
    raise ConfigError(
        f"vendor={vendor} needs its hardware", key="hardware", allowed=allowed, advice=f"vendor={vendor} hardware=NAME"
    )


def typed_parts(config: Mapping[str, Any], where: Where) -> Typed:
    """The typed parts of a resolved configuration.

    Raises:
        ConfigError: a value is wrong, or two values do not fit.
    """
    parts = {field.name: config[field.name] for field in dataclasses.fields(Typed)}
    typed = build(Typed, {**parts, "target": parts["target"] or None}, "", where)
    check_framework(typed.framework, config, where)
    _check_hardware(typed.hardware, typed.vendor.name, config["nproc"], where)
    _check_vendor(typed.vendor, typed.hardware, where)
    _check_cluster(typed.cluster, config["cluster"], where)
    _check_runtime(typed.runtime, typed.cluster, config["dry_run"], where)
    return typed


def _check_hardware(hardware: Hardware, vendor: str, nproc: int, where: Where) -> None:
    """Refuse a product of another vendor, or with too few devices."""
    check_ascii("hardware", hardware.name, where("hardware.title"))
    most = hardware.devices_per_node
    if hardware.vendor not in (None, vendor):
        problem = f"hardware {hardware.name} is a product of vendor {hardware.vendor}, not of {vendor}"
        advice = f"choose hardware of {vendor} (flagperf list hardware), or vendor={hardware.vendor}"
        raise ConfigError(problem, key="hardware", given=hardware.name, advice=advice)
    if most is not None and nproc > most:
        allowed = f"at most {most}, the devices of a node with {hardware.name}"
        raise ConfigError("more ranks than devices", where=where("nproc"), key="nproc", given=nproc, allowed=allowed)


def _check_cluster(cluster: Cluster, section: Mapping[str, Any], where: Where) -> None:
    """Refuse a cluster without nodes and scheduler, and two nodes with one name."""
    _check_source(section, where)
    node_names = [node.name for node in cluster.nodes]
    if not node_names and cluster.is_listed:
        raise ConfigError("the cluster has no nodes", where=where("cluster.nodes"), key="cluster.nodes")
    for index, name in enumerate(node_names):
        if name in node_names[:index]:
            key = f"cluster.nodes[{index}].name"
            raise ConfigError("two nodes have one name", where=where(key), key=key, given=name)


def _check_source(cluster: Mapping[str, Any], where: Where) -> None:
    """Refuse a cluster with no source of hosts, or with several.

    Raises:
        ConfigError: the cluster has none of `SOURCES`, or several; or a scheduler has no name.
    """
    sources = [source for source in SOURCES if cluster.get(source) is not None]
    if sources == ["scheduler"] and not isinstance(cluster["scheduler"].get("name"), str):
        key = "cluster.scheduler.name"
        raise ConfigError("a scheduler needs its name", where=where(key), key=key, advice="docs/adding-a-scheduler.md")
    if len(sources) == 1:
        return
    raise ConfigError(
        "a cluster has exactly one source of its hosts",
        where=where(f"cluster.{sources[-1]}" if sources else "cluster.title"),
        key="cluster",
        given=" and ".join(sources) or f"none of {', '.join(SOURCES)}",
        allowed=f"exactly one of {', '.join(SOURCES)}",
    )


def _check_vendor(vendor: Vendor, product: Hardware, where: Where) -> None:
    """Refuse variables that flagperf itself sets, and a wrong description of the vendor's tool."""
    for part in ("environment", "deterministic_environment"):
        for name in getattr(vendor, part):
            if OWN_VARIABLES.fullmatch(name):
                key = f"vendor.{part}"
                problem, advice = "flagperf itself sets this variable, or leaves it out", "take it out"
                raise ConfigError(problem, where=where(f"{key}.{name}"), key=key, given=name, advice=advice)
    if vendor.monitor is not None:
        make_table(vendor.monitor, product, where)


def container_options(runtime: RuntimeSettings, vendor: Vendor, hosts: Cluster) -> ContainerOptions | None:
    """The options of containers, merged from runtime, vendor and cluster; None: no containers of docker."""
    if runtime.kind != "docker" or hosts.kubernetes:
        return None
    return merged(runtime.container, vendor.container, hosts.container)


def merged(*layers: ContainerOptions) -> ContainerOptions:
    """Options of several sources: lists and mappings are joined, of other values the last one counts."""
    result = ContainerOptions()
    for layer in layers:
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(layer):
            before, value = getattr(result, field.name), getattr(layer, field.name)
            if isinstance(value, Mapping):
                changes[field.name] = {**before, **value}
            elif isinstance(value, tuple):
                changes[field.name] = before + tuple(item for item in value if item not in before)
            elif value is not None:
                changes[field.name] = value
        result = dataclasses.replace(result, **changes)
    return result


def image(typed: Typed, where: Where, *, dry_run: bool) -> Image | None:
    """The image; None where the runtime needs no image. Pods always have an image."""
    vendor, framework, hosts = typed.vendor, typed.framework, typed.cluster
    if framework.version is not None:
        check_version(vendor, framework, where)
    if hosts.kubernetes is not None:
        return pod_image(vendor, framework, hosts.kubernetes, hosts.image, where)
    if typed.runtime.kind != "docker":
        return None
    return choose_image(vendor, framework, hosts.image, where, dry_run=dry_run)


def _check_runtime(runtime: RuntimeSettings, hosts: Cluster, dry_run: bool, where: Where) -> None:
    """Refuse a runtime without its image, and a runtime that the hosts do not have."""
    if runtime.contained and runtime.image is None and not dry_run:
        advice = "runtime.image=PATH, or a reference that the site's tool takes"
        raise ConfigError(
            "the runtime needs an image", where=where("runtime.image"), key="runtime.image", advice=advice
        )
    if runtime.kind == "docker" and hosts.slurm is not None and not hosts.slurm.exclusive:
        problem, key = "Slurm does not limit what docker's containers use: they need whole nodes", EXCLUSIVE
        advice = "or another runtime: process, apptainer, pyxis"
        raise ConfigError(problem, where=where(key), key=key, given=False, allowed="true", advice=advice)
    if runtime.srun and hosts.slurm is None:
        problem = "this runtime needs Slurm"
        raise ConfigError(problem, key="runtime", given=runtime.name, advice="cluster=slurm, or another runtime")


def check_hosts(job: JobConfig) -> None:
    """Refuse more nodes than the cluster lists. A scheduler gives its nodes only when the job runs."""
    hosts = len(job.cluster.nodes)
    if hosts < job.nnodes and job.cluster.is_listed:
        raise ConfigError(
            f"the cluster has too few hosts for nnodes={job.nnodes}",
            where=f"cluster {job.cluster.name}",
            key="nnodes",
            given=job.nnodes,
            allowed=f"1 to {hosts}",
            advice="choose a larger cluster (cluster=NAME), or see the plan with dry_run=true",
        )
