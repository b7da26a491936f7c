"""RunConfig → Plan: the exact commands of a round, per node. Pure; `flagperf … dry_run=true` prints what it gives."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from flagperf.command import Command
from flagperf.config.values import Node, RunConfig
from flagperf.errors import ConfigError
from flagperf.monitor_log import NODE_FIGURES
from flagperf.plan.container import Paths, docker_run_argv, make_container
from flagperf.plan.values import Deadlines, NodePlan, Plan

STAND_IN_PORT = 29500  # torchrun's own default; a round looks for a free port unless one is configured
CODE = "code"  # folder of a run on a host: the packages that training processes import
SCRATCH = ".scratch"  # in a node's log folder, while it runs: what the ranks' launcher writes for itself
MONITORS = tuple(NODE_FIGURES)


@dataclass(frozen=True)
class Rendezvous:
    """Where the ranks meet: an address and a port of node 0, and each node's network interface that leads there."""

    address: str
    port: int
    interfaces: tuple[str | None, ...] = ()  # per node; None: left to the library


def make_plan(
    run: RunConfig,
    round_number: int,
    *,
    folder: Path = Path(),
    rendezvous: Rendezvous | None = None,
    placeholders: bool = False,
) -> Plan:
    """Plan one round.

    Args:
        run: the configured case.
        round_number: from 1.
        folder: the run folder; relative paths, as a dry run shows them, unless given.
        rendezvous: what was found out on the hosts; what the cluster's file says unless given.
        placeholders: stand in `<host-N>` for hosts that the cluster lacks, instead of refusing.

    Raises:
        ConfigError: the cluster has fewer hosts than nnodes.
    """
    nodes = _nodes(run, placeholders)
    meeting = rendezvous or configured_rendezvous(run, nodes)
    return Plan(
        case=run.case,
        framework=run.framework,
        round=round_number,
        config=_config(run, nodes, folder),
        nodes=tuple(_node_plan(run, round_number, rank, node, folder, meeting) for rank, node in enumerate(nodes)),
        master_address=meeting.address,
        master_port=meeting.port,
        deadlines=Deadlines(**run.config["deadlines"]),
    )


def configured_rendezvous(run: RunConfig, nodes: tuple[Node, ...]) -> Rendezvous:
    """The rendezvous as the cluster's file says it, node 0's address where it says nothing."""
    words = run.cluster.rendezvous
    first = nodes[0]
    alone = all(node.local for node in nodes)
    unreachable = first.local and not alone and first.address.startswith("127.")  # by the other nodes
    return Rendezvous(
        address=words.address or (first.name if unreachable else first.address),
        port=words.port or STAND_IN_PORT,
        interfaces=(words.interface,) * len(nodes),
    )


def _nodes(run: RunConfig, placeholders: bool) -> tuple[Node, ...]:
    """The first nnodes hosts of the cluster."""
    hosts = run.cluster.nodes[: run.nnodes]
    if len(hosts) == run.nnodes:
        return hosts
    if not placeholders:
        raise ConfigError(
            f"the cluster has too few hosts for nnodes={run.nnodes}",
            where=f"cluster {run.cluster.name}",
            key="nnodes",
            given=run.nnodes,
            allowed=f"1 to {len(hosts)}",
            advice="choose a larger cluster (cluster=NAME), or see the plan with dry_run=true",
        )
    missing = range(len(hosts) + 1, run.nnodes + 1)
    return hosts + tuple(Node(name=f"<host-{number}>", address=f"<host-{number}>") for number in missing)


def _root(run: RunConfig, node: Node, folder: Path) -> PurePosixPath:
    """The run's folder on a node."""
    return PurePosixPath(folder) if node.local else PurePosixPath(run.cluster.work_dir, folder.name)


def _config(run: RunConfig, nodes: tuple[Node, ...], folder: Path) -> Mapping[str, object]:
    """What config.yaml holds: on other hosts the checkpoints to resume from lie where they are sent to."""
    if nodes[0].local or not run.config["resume"]:
        return run.config
    return {**run.config, "resume": str(_root(run, nodes[0], folder) / "resume")}


def _node_plan(run: RunConfig, round_number: int, rank: int, node: Node, folder: Path, meeting: Rendezvous) -> NodePlan:
    root = _root(run, node, folder)
    case_dir = root / run.name
    log_dir = case_dir / f"round{round_number}" / f"{node.name}_noderank{rank}"
    fields = {
        "python": _python(run, node),
        "nnodes": run.nnodes,
        "nproc": run.nproc,
        "node_rank": rank,
        "master_address": meeting.address,
        "master_port": meeting.port,
        "config": case_dir / "config.yaml",
        "scratch": log_dir / SCRATCH,
    }
    env = {"FLAGPERF_LOG_DIR": str(log_dir), "PYTHONFAULTHANDLER": "1"}
    env |= run.vendor.deterministic_environment if run.config.get("deterministic") else {}
    env |= run.vendor.environment
    if run.container or not node.local:
        env["PYTHONPATH"] = str(root / CODE)  # the launcher's own version, sent for this run
    if interface := next(iter(meeting.interfaces[rank : rank + 1]), None):
        names = ("GLOO_SOCKET_IFNAME", *run.vendor.interface_variables)  # torch uses gloo beside any vendor's backend
        env = dict.fromkeys(names, interface) | env
    launch = Command(tuple(word.format(**fields) for word in run.config["framework"]["launch"]), env)
    return NodePlan(
        rank=rank,
        node=node,
        launch=launch,
        ranks=tuple(range(rank * run.nproc, (rank + 1) * run.nproc)),
        case_dir=str(case_dir),
        log_dir=str(log_dir),
        container=make_container(run, node, rank, Paths(root, log_dir.parent, log_dir), launch),
        monitors=(*MONITORS, run.vendor.name) if run.vendor.monitor else MONITORS,
    )


def _python(run: RunConfig, node: Node) -> str:
    """The interpreter of the training processes: the configured one, on this machine else the launcher's own."""
    return run.runtime.python or (sys.executable if node.local else "python3")


def dry_run_text(run: RunConfig) -> str:
    """What `dry_run=true` prints: configuration, changes with their sources, and the commands of each node."""
    folder = Path(run.config["result_dir"], run.config["run_name"] or "dry-run").expanduser().absolute()
    plan = make_plan(run, 1, folder=folder, placeholders=True)
    notes = [*run.notes, *_plan_notes(run, plan)]
    changes = [f"{one.key}: {_plain(one.before)} -> {_plain(one.after)}    ({one.source})" for one in run.changes]
    blocks = [
        _comments(f"{run.name}, {run.repeat} round(s), division {run.division}", notes),
        _comments("Changes against the case:", changes or ["none"]),
        _config_document(run, plan),
        *(_node_commands(node) for node in plan.nodes),
    ]
    return "\n\n".join(blocks) + "\n"


def _plain(value: object) -> str:
    """A value as a word of the command line writes it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _plan_notes(run: RunConfig, plan: Plan) -> list[str]:
    notes = []
    if len(run.cluster.nodes) < run.nnodes:
        notes.append(
            f"cluster {run.cluster.name} has {len(run.cluster.nodes)} of the {run.nnodes} hosts: "
            "<host-N> stands for a missing one, and a run would be refused"
        )
    if not run.cluster.rendezvous.port:
        notes.append(f"port {plan.master_port} stands for a free one, which each round looks for on node 0")
    for folder in sorted({node.launch.env["PYTHONPATH"] for node in plan.nodes if "PYTHONPATH" in node.launch.env}):
        notes.append(f"a run sends the packages flagperf and cases first, to {folder}")
    return notes


def _config_document(run: RunConfig, plan: Plan) -> str:
    files = " and ".join(sorted({f"{node.case_dir}/config.yaml" for node in plan.nodes}))
    text = yaml.safe_dump(dict(run.config), sort_keys=False, allow_unicode=True, width=120)
    return f"# Effective configuration, which every node gets as {files}:\n{text.rstrip()}"


def _node_commands(node: NodePlan) -> str:
    make_folder = Command(("mkdir", "-p", node.log_dir))
    start = shlex.join(docker_run_argv(node.container)) if node.container else node.launch.line()
    ranks = f"rank {node.ranks[0]}" if len(node.ranks) == 1 else f"ranks {node.ranks[0]}-{node.ranks[-1]}"
    return _comments(f"Node {node.rank}, {node.node.name}: {ranks}") + f"\n{make_folder.line()}\n{start}"


def _comments(title: str, lines: list[str] | None = None) -> str:
    """Lines of comment; a name in them may itself have several lines."""
    return "\n".join(line.replace("\n", "\n# ") for line in [f"# {title}", *(f"#   {line}" for line in lines or ())])
