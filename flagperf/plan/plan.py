"""JobConfig → Plan: the exact commands of a round, per node. Pure.

`make_plan` makes the plan once. `with_rendezvous` returns a new plan with the facts that only the hosts know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import flagperf
from flagperf.config.parts.platform import check_hosts
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.contract.monitor_log import HOST, NODE_FIGURES
from flagperf.contract.sample_data import is_sample_folder
from flagperf.contract.settings import round_seed
from flagperf.plan.container import Paths, make_container, sample_root
from flagperf.plan.values import (
    CONFIG,
    Container,
    NodePlan,
    Plan,
    Rendezvous,
    config_file,
    secrets_file,
    with_script,
    with_secrets,
)

STAND_IN_PORT = 29500  # a round looks for a free port unless one is configured
CODE = "code"  # folder of a run on a host: the packages that training processes import
UNCACHED = "flagperf/trainer/start/uncached.py"  # runs a module of the ranks from its source
OWN_CODE = Path(flagperf.__file__).resolve().parents[1]  # what ranks on this machine import
SCRATCH = ".scratch"  # in a node's log folder, while it runs: files that the ranks' launcher writes for itself
MONITORS = (*NODE_FIGURES, HOST)


def make_plan(
    job: JobConfig, round_number: int, folder: Path = Path(), *, on_hosts: str = "", placeholders: bool = False
) -> Plan:
    """Plan one round. The rendezvous is that of the cluster's file, with defaults for missing values.

    Args:
        job: the configured case.
        round_number: from 1.
        folder: the run folder.
        on_hosts: name of the run's folder in the work_dir of other hosts; empty: that of the run folder.
        placeholders: name hosts that the cluster lacks `<host-N>`, instead of an error. Hosts that a scheduler has not
            given yet are always named `node<N>`.

    Raises:
        ConfigError: the cluster has fewer hosts than nnodes.
    """
    nodes = _nodes(job, placeholders)
    rendezvous = _configured_rendezvous(job, nodes)
    elsewhere = PurePosixPath(job.cluster.work_dir, on_hosts or folder.name)
    roots = [PurePosixPath(folder) if node.same_files else elsewhere for node in nodes]
    return Plan(
        case=job.case,
        framework=job.framework.name,
        round=round_number,
        config=_config(job, round_number, nodes, roots[0]),
        nodes=tuple(
            _node_plan(job, round_number, rank, nodes[rank], root, rendezvous) for rank, root in enumerate(roots)
        ),
        master_address=rendezvous.address,
        master_port=rendezvous.port,
        deadlines=job.deadlines,
    )


def with_rendezvous(plan: Plan, job: JobConfig, rendezvous: Rendezvous) -> Plan:
    """The same plan with another rendezvous.

    Args:
        job: the configured case of the plan; has the launch command as a template.
    """
    nodes = []
    for node in plan.nodes:
        launch, container = _commands(job, node.node, node.rank, PurePosixPath(node.log_dir), rendezvous, node.script)
        nodes.append(replace(node, launch=launch, container=container))
    return replace(plan, nodes=tuple(nodes), master_address=rendezvous.address, master_port=rendezvous.port)


def _configured_rendezvous(job: JobConfig, nodes: tuple[Node, ...]) -> Rendezvous:
    """The rendezvous of the cluster's file; by default node 0's address."""
    configured = job.cluster.rendezvous
    node0 = nodes[0]
    all_local = all(node.local for node in nodes)
    unreachable = node0.local and not all_local and node0.address.startswith("127.")  # by the other nodes
    return Rendezvous(
        address=configured.address or (node0.name if unreachable else node0.address),
        port=configured.port or STAND_IN_PORT,
        interfaces=(configured.interface,) * len(nodes),
    )


def _nodes(job: JobConfig, placeholders: bool) -> tuple[Node, ...]:
    """The first nnodes hosts of the cluster."""
    if not placeholders:
        check_hosts(job)
    hosts = job.cluster.nodes[: job.nnodes]
    return hosts + tuple(job.cluster.stand_in(rank) for rank in range(len(hosts), job.nnodes))


def _config(job: JobConfig, round_number: int, nodes: tuple[Node, ...], root: PurePosixPath) -> Mapping[str, object]:
    """The content of the round's config.yaml, with node 0's path of the checkpoints to resume from.

    Nodes of a scheduler are added, because no file lists them.
    """
    resume = job.resume if job.resume is None or nodes[0].same_files else str(root / "resume")
    config = {**job.config, "seed": round_seed(job.config, round_number), "resume": resume}
    if not job.cluster.is_listed:
        listed = [{"name": node.name, "address": node.address, "shared": node.shared} for node in nodes]
        config["cluster"] = {**config["cluster"], "nodes": listed}
    return config


def _node_plan(
    job: JobConfig, round_number: int, rank: int, node: Node, root: PurePosixPath, rendezvous: Rendezvous
) -> NodePlan:
    """The plan of a node, on which the run's folder is `root`."""
    case_dir = root / job.name
    log_dir = case_dir / f"round{round_number}" / f"{node.name}_noderank{rank}"
    script = _script(job, node, root)
    launch, container = _commands(job, node, rank, log_dir, rendezvous, script)
    return NodePlan(
        rank=rank,
        node=node,
        launch=launch,
        ranks=tuple(range(rank * job.nproc, (rank + 1) * job.nproc)),
        case_dir=str(case_dir),
        log_dir=str(log_dir),
        container=container,
        script=script,
        wrapper=_wrapper(job, node, root),
        contained=job.container is None and job.runtime.contained,
        monitors=(*MONITORS, job.vendor.name) if job.vendor.monitor else MONITORS,
        secrets=tuple(job.secrets),
        own_config=_has_own_config(job, node),
    )


def _has_own_config(job: JobConfig, node: Node) -> bool:
    """Whether the ranks of a node read another config.yaml than the round's: it has the data at another path."""
    elsewhere = node.data_dir not in (None, job.data_dir) and not is_sample_folder(job.config)
    return node.same_files and job.container is None and elsewhere


def _wrapper(job: JobConfig, node: Node, root: PurePosixPath) -> tuple[str, ...]:
    """The command that starts another command in a container of the site, with the run's folder and the data."""
    if not job.runtime.wrapper:
        return ()
    data = sample_root(job, node) if is_sample_folder(job.config) else node.data_dir or job.data_dir
    return tuple(word.format(image=job.runtime.image or "IMAGE", run=root, data=data) for word in job.runtime.wrapper)


def _script(job: JobConfig, node: Node, root: PurePosixPath) -> str | None:
    """Path of the vendor's script on the node: in the sent code, else in the vendor's folder."""
    extension = job.vendor.extension
    if extension.environment_script is None or extension.code is None:
        return None
    return str((root / CODE if _is_sent(job, node) else extension.code) / extension.environment_script)


def _is_sent(job: JobConfig, node: Node) -> bool:
    """Whether the ranks import a copy of the launcher's code that this run sends."""
    return job.container is not None or job.runtime.contained or not node.same_files


def _commands(
    job: JobConfig, node: Node, rank: int, log_dir: PurePosixPath, rendezvous: Rendezvous, script: str | None
) -> tuple[Command, Container | None]:
    """The launch command of a node's ranks, and its container; None where the runtime has no containers."""
    launch = launch_command(job, node, rank, log_dir, rendezvous, rendezvous.interfaces[rank])
    start = with_script(launch, script, str(log_dir.parent / CONFIG))
    start = with_secrets(start, secrets_file(str(log_dir), rank)) if job.secrets else start
    root = log_dir.parent.parent.parent
    return launch, make_container(job, node, rank, Paths(root, log_dir.parent, log_dir), start)


def launch_command(
    job: JobConfig, node: Node, rank: int | str, log_dir: PurePosixPath, rendezvous: Rendezvous, interface: str | None
) -> Command:
    """The launch command of a node's ranks.

    Args:
        rank: of the node; or a text in its place, where nodes share one command.
        log_dir: of the node, in the folder of the round.
        interface: network interface that leads to node 0; None: left to the library.
    """
    case_dir = log_dir.parent.parent
    root = case_dir.parent
    fields = {
        "python": _python(job, node),
        "nnodes": job.nnodes,
        "nproc": job.nproc,
        "node_rank": rank,
        "master_address": rendezvous.address,
        "master_port": rendezvous.port,
        "config": config_file(log_dir, _has_own_config(job, node)),
        "uncached": PurePosixPath(root / CODE if _is_sent(job, node) else OWN_CODE, UNCACHED),
        "scratch": log_dir / SCRATCH,
    }
    env = {"FLAGPERF_LOG_DIR": str(log_dir), "PYTHONFAULTHANDLER": "1"}
    env |= job.vendor.deterministic_environment if job.deterministic else {}
    env |= job.vendor.environment
    if _is_sent(job, node):
        env["PYTHONPATH"] = str(root / CODE)
    elif job.code_dirs:
        further = env.get("PYTHONPATH", job.python_path)
        env["PYTHONPATH"] = ":".join([*map(str, job.code_dirs), *([further] if further else [])])
    if interface:
        names = (*job.framework.interface_variables, *job.vendor.interface_variables)
        env = dict.fromkeys(names, interface) | env
    return Command(tuple(argument.format(**fields) for argument in job.framework.launch), env)


def _python(job: JobConfig, node: Node) -> str:
    """The interpreter of the ranks: the configured one, else the launcher's where the node has the same files."""
    return job.runtime.python or (job.local_python if node.same_files else "python3")
