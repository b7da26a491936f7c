"""The parts of a JobConfig that need more than a check of their types: data, vendor, hardware, cluster, image."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from socket import gethostname
from string import Template
from typing import Any

from flagperf.config.files.layer import Layer
from flagperf.config.files.search_path import find, options
from flagperf.config.files.user_path import user_path
from flagperf.config.parts.data_layout import DATA_DIR, sample_folder
from flagperf.config.parts.image import choose_image, pod_image
from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.monitor_tool import make_table
from flagperf.config.schema.platform import ContainerOptions, Framework, Hardware, Image, RuntimeSettings, Vendor
from flagperf.config.schema.schedulers import SOURCES
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import Where, build
from flagperf.contract.extent import Extent, extent_of
from flagperf.contract.leaves import Leaves
from flagperf.errors import ConfigError

EXCLUSIVE = "cluster.slurm.exclusive"
OWN_VARIABLES = (
    re.compile(  # by which flagperf, and what starts the ranks, speak to processes: a user's would mislead them
        r"FLAGPERF_\w+|PET_\w+|TORCHELASTIC_\w+|PYTHON_EXEC|MASTER_(ADDR|PORT)|((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)"
    )
)
ASCII_NAME = re.compile(r"[A-Za-z0-9._+-]+")
NAMED = ("vendor", "hardware", "cluster", "runtime", "framework")  # groups whose part of the config has a name


def names(final: Layer) -> dict[str, Any]:
    """The names of the chosen options, and of nodes without a name: this machine's host name, or the address."""
    found: dict[str, Any] = {f"{group}.name": final.choices[group] for group in NAMED}
    nodes = final.get("cluster.nodes")
    if isinstance(nodes, list):
        found["cluster.nodes"] = [_named(node) if isinstance(node, dict) else node for node in nodes]
    return found


def size(final: Layer, folders: Sequence[Path]) -> str:
    """The size's name; "full" where no file says how it reduces the case, which then stays as it is written."""
    chosen = final.choices["size"]
    return chosen if find(f"size/{chosen}/{final.choices['model']}", folders) else "full"


def _named(node: Mapping[str, Any]) -> Mapping[str, Any]:
    if node.get("name") is not None:
        return node
    return {**node, "name": gethostname() if node.get("local") else node.get("address")}


def data_dir(final: Layer) -> tuple[str, str | None]:
    """Where the data lies, and a note for the log unless the user chose the place."""
    given = final.get("data_dir")
    if given is not None:
        if not (given.startswith("/") or _has_same_files(final)):
            raise ConfigError("data_dir lies on other hosts", key="data_dir", given=given, allowed="an absolute path")
        folder = Path(given).expanduser().absolute()
        return str(folder), _missing(folder, final)
    sample = final.get("data.sample")
    # A full case trains on generated data only when data_dir says so, or when it is synthetic and only shapes count.
    if sample and (final.choices["size"] != "full" or final.get("synthetic")):
        folder = sample_folder(final.get("sample_dir"), final.get("case"), sample)
        return str(folder), f"sample data: {folder}"
    if final.get("dry_run"):
        return DATA_DIR, f"no data_dir is given: {DATA_DIR} stands for it"
    tree = final.get("data.tree") or ""
    allowed = f"a folder with {final.get('data.name')}" + "".join(f"\n    {line}" for line in tree.splitlines())
    raise ConfigError("the case needs its data", key="data_dir", allowed=allowed, advice="size=tiny has sample data")


def _missing(folder: Path, final: Layer) -> str | None:
    """What a dry run says of a folder that is not there. A run makes sample data where there is none yet."""
    made = folder.is_relative_to(Path(final.get("sample_dir")).expanduser().absolute())
    if made or folder.is_dir() or not (final.get("dry_run") and _has_same_files(final)):
        return None
    return f"data_dir {folder} is no folder of this machine: a run would be refused"


def check_users(values: Leaves, where: Where) -> None:
    """Refuse a path in the home of a user who is not there."""
    for key, value in values.items():
        if isinstance(value, str) and value.startswith("~"):
            user_path(value, where=where(key), key=key)


def _has_same_files(final: Layer) -> bool:
    """Whether all hosts have this machine's files."""
    if final.get("cluster.kubernetes") is not None:
        return False
    slurm = final.get("cluster.slurm")
    if slurm is not None:
        return not isinstance(slurm, dict) or bool(slurm.get("shared", True))
    nodes = final.get("cluster.nodes") or []
    return all(isinstance(node, dict) and (node.get("local") or node.get("shared")) for node in nodes)


def data_section(config: Mapping[str, Any]) -> dict[str, Any]:
    """The case's `data`. `require` also asks for the weights to start from, if they lie below data_dir.

    ${…} is replaced in its globs, which are keys: OmegaConf resolves values only.
    """
    found, weights = config.get("data", {}), Path(config["init_checkpoint"] or "")
    require = {Template(pattern).safe_substitute(config): least for pattern, least in found.get("require", {}).items()}
    if weights.is_relative_to(config["data_dir"]):
        require[glob.escape(str(weights.relative_to(config["data_dir"])))] = 1
    return {**found, "require": require}


def extent(config: Mapping[str, Any], where: Where) -> Extent | None:
    """The extent that the data must have, all of whose fields are of the right type."""
    if stated := config["data"].get("extent"):
        build(Extent, stated, "data.extent", where)
    return extent_of(config)


def check_hardware_chosen(final: Layer, chosen: Container[str], folders: Sequence[Path]) -> None:
    """Refuse a vendor without its hardware, before anything that follows from the wrong hardware.

    `chosen`: the groups of which the command line chooses.
    """
    maker, of_whom = final.choices["vendor"], final.get("hardware.vendor")
    if "hardware" in chosen or of_whom in (None, maker):
        return
    found = {product: find(f"hardware/{product}", folders) for product in options("hardware", folders)}
    made = [
        name
        for name, path in found.items()
        if path and re.search(rf"^vendor: *{maker}\b", path.read_text("utf-8"), re.M)
    ]
    allowed = ", ".join(made) or f"a file hardware/<product>.yaml with vendor: {maker}"
    raise ConfigError(
        f"vendor={maker} needs its hardware", key="hardware", allowed=allowed, advice=f"vendor={maker} hardware=NAME"
    )


def check_ascii(key: str, name: str, where: str) -> None:
    """Refuse the name of a case or product that could look like that of another one."""
    if not ASCII_NAME.fullmatch(name):
        allowed = "ASCII letters, digits, and any of . _ + -"
        raise ConfigError(
            "this name may look like another one", where=where, key=key, given=ascii(name), allowed=allowed
        )


def hardware(config: Mapping[str, Any], where: Where) -> Hardware:
    """The hardware, made by the vendor and with enough devices."""
    made = build(Hardware, config["hardware"], "hardware", where)
    check_ascii("hardware", made.name, where("hardware.title"))
    maker, nproc, most = config["vendor"]["name"], config["nproc"], made.devices_per_node
    if made.vendor not in (None, maker):
        problem = f"hardware {made.name} is a product of vendor {made.vendor}, not of {maker}"
        advice = f"choose hardware of {maker} (flagperf list hardware), or vendor={made.vendor}"
        raise ConfigError(problem, key="hardware", given=made.name, advice=advice)
    if most is not None and nproc > most:
        allowed = f"at most {most}, the devices of a node with {made.name}"
        raise ConfigError("more ranks than devices", where=where("nproc"), key="nproc", given=nproc, allowed=allowed)
    return made


def cluster(config: Mapping[str, Any], where: Where) -> Cluster:
    """The cluster: with at least one node, each of its own name, or with a scheduler."""
    made = build(Cluster, config["cluster"], "cluster", where)
    _check_source(config["cluster"], where)
    node_names = [node.name for node in made.nodes]
    if not node_names and made.scheduler is None:
        raise ConfigError("the cluster has no nodes", where=where("cluster.nodes"), key="cluster.nodes")
    for index, name in enumerate(node_names):
        if name in node_names[:index]:
            key = f"cluster.nodes[{index}].name"
            raise ConfigError("two nodes have one name", where=where(key), key=key, given=name)
    return made


def _check_source(cluster: Mapping[str, Any], where: Where) -> None:
    """Refuse a cluster whose hosts come from nowhere, or from two places.

    Raises:
        ConfigError: it has none of `SOURCES`, or several.
    """
    said = [source for source in SOURCES if cluster.get(source) is not None]
    if len(said) == 1:
        return
    raise ConfigError(
        "a cluster says in one way where its hosts come from",
        where=where(f"cluster.{said[-1]}" if said else "cluster.title"),
        key="cluster",
        given=" and ".join(said) or f"none of {', '.join(SOURCES)}",
        allowed=f"exactly one of {', '.join(SOURCES)}",
    )


def vendor(config: Mapping[str, Any], product: Hardware, where: Where) -> Vendor:
    """The vendor, whose tool can be read as its file says."""
    made = build(Vendor, config["vendor"], "vendor", where)
    for part in ("environment", "deterministic_environment"):
        for name in getattr(made, part):
            if OWN_VARIABLES.fullmatch(name):
                key = f"vendor.{part}"
                problem, advice = "flagperf itself sets this variable, or leaves it out", "take it out"
                raise ConfigError(problem, where=where(f"{key}.{name}"), key=key, given=name, advice=advice)
    if made.monitor is not None:
        make_table(made.monitor, product, where)
    return made


def container_options(runtime: RuntimeSettings, maker: Vendor, hosts: Cluster) -> ContainerOptions | None:
    """How docker makes containers, by the runtime, then the vendor, then the cluster; None where it makes none."""
    if runtime.kind != "docker" or hosts.kubernetes:
        return None
    return merged(runtime.container, maker.container, hosts.container)


def merged(*layers: ContainerOptions) -> ContainerOptions:
    """Options of several sources: lists and mappings grow, of other values the last one given counts."""
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


def image(runtime: RuntimeSettings, maker: Vendor, framework: Framework, hosts: Cluster, where: Where) -> Image | None:
    """The image; None when the runtime needs none. Pods always have one."""
    if hosts.kubernetes is not None:
        return pod_image(maker, framework, hosts.kubernetes, hosts.image, where)
    if runtime.kind != "docker":
        return None
    return choose_image(maker, framework, hosts.image, where)


def runtime(config: Mapping[str, Any], where: Where) -> RuntimeSettings:
    """The runtime, which has an image where a container needs one."""
    made = build(RuntimeSettings, config["runtime"], "runtime", where)
    if made.contained and made.image is None and not config["dry_run"]:
        advice = "runtime.image=PATH, or a reference that the site's tool takes"
        raise ConfigError(
            "the runtime needs an image", where=where("runtime.image"), key="runtime.image", advice=advice
        )
    if made.kind == "docker" and (config["cluster"].get("slurm") or {}).get("exclusive") is False:
        problem, key = "Slurm does not limit what docker's containers use: they need whole nodes", EXCLUSIVE
        advice = "or another runtime: process, apptainer, pyxis"
        raise ConfigError(problem, where=where(key), key=key, given=False, allowed="true", advice=advice)
    if made.srun and not config["cluster"].get("slurm"):
        problem = "this runtime is one of Slurm"
        raise ConfigError(problem, key="runtime", given=made.name, advice="cluster=slurm, or another runtime")
    return made


def check_hosts(job: JobConfig) -> None:
    """Refuse more nodes than the cluster has. Of a scheduler they are asked when the job runs."""
    hosts = len(job.cluster.nodes)
    if hosts < job.nnodes and job.cluster.scheduler is None:
        raise ConfigError(
            f"the cluster has too few hosts for nnodes={job.nnodes}",
            where=f"cluster {job.cluster.name}",
            key="nnodes",
            given=job.nnodes,
            allowed=f"1 to {hosts}",
            advice="choose a larger cluster (cluster=NAME), or see the plan with dry_run=true",
        )
