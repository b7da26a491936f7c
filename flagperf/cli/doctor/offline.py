"""`flagperf doctor offline=true`: the downloads of a run on each host: source and size."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from flagperf.cli.doctor.software import plan_of_node
from flagperf.config.parts.data_layout import DATA_DIR
from flagperf.config.parts.image import own_requirements
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.platform import Image
from flagperf.config.schema.values import JobConfig
from flagperf.contract.sample_data import is_sample_folder
from flagperf.docker.daemon import DaemonError, DockerHost
from flagperf.docker.image_supply import image_layers
from flagperf.errors import ConfigError, FlagperfError
from flagperf.hosts.connect import make_transports
from flagperf.hosts.findings import Row, failed_row
from flagperf.hosts.transport import Transport
from flagperf.kit.build_steps import build_downloads, registry
from flagperf.run import preflight
from flagperf.run.runtime import environment
from flagperf.secret import without_logins

PACK = "flagperf pack … into=kit.tar.zst brings it into a room without internet"


async def examine_offline(job: JobConfig) -> list[Row]:
    """A row for each thing that a run would download. flagperf itself is installed, or it would not run."""
    if job.cluster.source != "nodes":
        where = f"cluster.{job.cluster.source}"
        raise ConfigError("hosts of a scheduler are not known before the job", key="offline", given=where)
    hosts = list(zip(job.cluster.nodes, make_transports(job, job.cluster.nodes), strict=True))
    rows = await asyncio.gather(*(_host(job, *host, first=index == 0) for index, host in enumerate(hosts)))
    return [*(row for part in rows for row in part), *_of_all(job)]


async def _host(job: JobConfig, node: Node, transport: Transport, *, first: bool) -> list[Row]:
    """The rows of packages, image and data of a host."""
    try:
        async with transport:
            software = (
                _packages(job, node, transport) if job.image is None else _image(job.image, node, transport, first)
            )
            return [*await software, await _data(job, node, transport)]
    except FlagperfError as error:
        return [failed_row(node.name, "host", error)]


async def _packages(job: JobConfig, node: Node, transport: Transport) -> list[Row]:
    """Whether the Python of the ranks has all packages. A run installs none: it would be refused."""
    try:
        plan = plan_of_node(job, node)
        versions = await environment(job, transport, plan.launch, plan.wrapper)
    except FlagperfError as error:
        row = failed_row(node.name, "pip", error)
        names = _listed(own_requirements(job.framework.extra))
        text = f"{row.text}; needed are {names}, from the index of pip's configuration, else pypi.org; size unknown"
        return [Row(node.name, "pip", "warning", text, f"{job.framework.install}, or {PACK}")]
    installed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [Row(node.name, "pip", "ok", f"nothing: {installed}")]


async def _image(image: Image, node: Node, transport: Transport, first: bool) -> list[Row]:
    """The image, or what its build downloads on the first node. The other nodes copy the image of a build."""
    rows = []
    try:
        async with DockerHost(transport) as docker:
            if await image_layers(docker, image.reference) is not None:
                return [Row(node.name, "image", "ok", f"nothing: {image.reference} is there")]
    except DaemonError as error:
        rows.append(Row(node.name, "docker", "warning", f"{error.problem}: no image can be there", error.advice or ""))
    if image.policy == "build" and first:
        return [*rows, *_build(image, node.name)]
    where = {
        "build": "the first host, which copies it here",
        "pull": f"{registry(image.reference)}; size unknown",
        "load": f"the launcher's file {image.settings.archive}",
        "present": "no place: a run is refused without it",
    }[image.policy]
    here = image.policy in ("build", "load")
    text = f"{image.reference} from {where}"
    return [*rows, Row(node.name, "image", "ok" if here else "warning", text, "" if here else PACK)]


def _build(image: Image, host: str) -> Iterator[Row]:
    """What the build of the image downloads. The advice stands once, below the last row."""
    downloads = list(build_downloads(image))
    for number, download in enumerate(downloads, 1):
        names = _listed(download.names.split(", "))
        text = f"{names} from {without_logins(download.where)}, for the build of {image.reference}; size unknown"
        yield Row(host, download.kind, "warning", text, PACK if number == len(downloads) else "")


async def _data(job: JobConfig, node: Node, transport: Transport) -> Row:
    """The data of the case. Nothing here downloads data: the user brings it."""
    folder = node.data_dir or job.data_dir
    if is_sample_folder(job.config):
        return Row(node.name, "data", "ok", f"nothing: sample data is made in {folder}")
    size = ", ".join(f"{count:,} {name}" for name, count in _extent(job)) or "size unknown"
    text = f"{job.data.get('name', 'the data of the case')}, {size}; flagperf does not download data"
    advice = "bring it to the hosts, and name it: data_dir=PATH"
    if folder == DATA_DIR:
        return Row(node.name, "data", "warning", text, advice)
    try:
        await preflight.check_data(job, transport, folder)
    except ConfigError as error:
        return Row(node.name, "data", "warning", f"{text}; {folder}: {error.problem}", advice)
    return Row(node.name, "data", "ok", f"nothing: {folder}")


def _extent(job: JobConfig) -> Iterator[tuple[str, int]]:
    """Name and number of the samples of each part of the full data."""
    extent = job.data.get("extent") or {}
    unit = extent.get("unit", "samples")
    yield from (
        (f"{unit} to {verb}", extent[key])
        for key, verb in (("train", "train"), ("eval", "evaluate"))
        if extent.get(key)
    )


def _of_all(job: JobConfig) -> Iterator[Row]:
    """The rows of the launcher: weights to start from, and git."""
    if job.config.get("init_checkpoint"):
        given = job.config["init_checkpoint"]
        yield Row("launcher", "weights", "ok", f"nothing: init_checkpoint={given} is read from the hosts' disks")
    yield Row("launcher", "git", "ok", "nothing: a run clones no repository")


def _listed(names: Sequence[str]) -> str:
    """The names; of Python packages those of the ranks before flagperf's own."""
    return ", ".join(sorted(names, key=set(own_requirements(None)).__contains__))
