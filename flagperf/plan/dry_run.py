"""What `dry_run=true` prints: the configuration, its changes with their sources, and the commands of each node."""

from __future__ import annotations

import shlex
from pathlib import Path

from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.contract.mesh import SIDES
from flagperf.contract.regular import yaml_text
from flagperf.contract.settings import round_seed
from flagperf.plain import comment
from flagperf.plan.container import docker_run_argv
from flagperf.plan.plan import make_plan
from flagperf.plan.values import CONFIG, ENVIRONMENT, NodePlan, Plan
from flagperf.user import user_path

SHOWN = 8  # groups of ranks at most


def dry_run_text(job: JobConfig) -> str:
    """The text of a job: the plan of its first round. A run would execute the plan in a folder of its own."""
    folder = user_path(Path(job.result_dir, job.run_name or "dry-run")).absolute()
    plan = make_plan(job, 1, folder, placeholders=True)
    notes = [*job.notes, *_plan_notes(job, plan)]
    blocks = [
        comments(f"{job.name}, {job.repeat} round{'s' if job.repeat > 1 else ''}, division {job.division}", notes),
        comments("Changes against the case:", changed(job)),
        _mesh(job),
        _config_document(plan),
        *(_node_commands(node) for node in plan.nodes),
    ]
    return "\n\n".join(blocks) + "\n"


def changed(job: JobConfig) -> list[str]:
    """The changes against the case, each with its source."""
    lines = [
        f"{change.key}: {_plain(change.before)} -> {_plain(change.after)}    ({change.source})"
        for change in job.changes
    ]
    return lines or ["none"]


def _mesh(job: JobConfig) -> str:
    """The mesh of the ranks: the size of each side, and its groups of ranks."""
    mesh = job.mesh
    batch, accumulation = job.train_batch_size, job.gradient_accumulation_steps
    samples = f"{batch} x {accumulation} x {mesh.data_ranks} = {batch * accumulation * mesh.data_ranks}"
    lines = [f"strategy: {(job.strategy or 'DDP').rpartition('.')[2]}"]
    lines.append(f"samples of a step: {samples} (train_batch_size x gradient_accumulation_steps x data ranks)")
    for side, size in ((side, mesh.shown[side]) for side in SIDES if side in mesh.shown):
        groups = [",".join(map(str, group)) for group in mesh.groups(side)] if size > 1 else []
        hidden = f" and {len(groups) - SHOWN} more groups" if len(groups) > SHOWN else ""
        lines.append(f"{side} {size}" + (f": ranks {' | '.join(groups[:SHOWN])}{hidden}" if groups else ""))
    return comments(f"Mesh of {mesh.size} rank{'s' if mesh.size > 1 else ''}:", lines)


def _plain(value: object) -> str:
    """A value as an override writes it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _plan_notes(job: JobConfig, plan: Plan) -> list[str]:
    notes = []
    if job.repeat > 1:
        seeds = (str(round_seed(job.config, number)) for number in range(1, job.repeat + 1))
        notes.append(f"seeds of the rounds: {', '.join(seeds)}")
    if not job.cluster.is_listed:
        node0, last = plan.nodes[0].node.name, plan.nodes[-1].node.name
        stand_in = f"{node0} stands for it" if node0 == last else f"{node0} to {last} stand for them"
        notes.append(f"{job.cluster.source.capitalize()} chooses the nodes of a run: here {stand_in}")
    elif len(job.cluster.nodes) < job.nnodes:
        notes.append(
            f"cluster {job.cluster.name} has {len(job.cluster.nodes)} of the {job.nnodes} hosts: "
            "<host-N> stands for a missing one, and a run would be refused"
        )
    if not job.cluster.rendezvous.port:
        notes.append(f"port {plan.master_port} stands for a free one, which each round looks for on node 0")
    if folders := sorted({node.sent_code for node in plan.nodes if node.sent_code}):
        notes.append(f"a run sends the packages flagperf and cases first, to {' and '.join(folders)}")
    notes.append(
        f"a run starts the ranks by {ENVIRONMENT} beside {CONFIG}: with the variables that are listed, and no others"
    )
    for node in plan.nodes if job.secrets else ():
        notes.append(f"a run first writes {', '.join(node.secrets)} to {node.secrets_file}, for nobody else to read")
    return notes


def _config_document(plan: Plan) -> str:
    files = " and ".join(sorted({node.config_file for node in plan.nodes}))
    text = yaml_text(dict(plan.config))
    return f"{comment(f'Effective configuration, which every node gets as {files}:')}\n{text.rstrip()}"


def _node_commands(node: NodePlan) -> str:
    make_folder = Command(("mkdir", "-p", node.log_dir))
    ranks = f"rank {node.ranks[0]}" if len(node.ranks) == 1 else f"ranks {node.ranks[0]}-{node.ranks[-1]}"
    return comments(f"Node {node.rank}, {node.node.name}: {ranks}") + f"\n{make_folder.line()}\n{start_line(node)}"


def start_line(node: NodePlan) -> str:
    """The command that starts the ranks of a node, as a line of shell."""
    return shlex.join(docker_run_argv(node.container)) if node.container else node.start.line()


def comments(title: str, lines: list[str] | None = None) -> str:
    """A title and lines as comments."""
    return "\n".join(map(comment, [title, *(f"  {line}" for line in lines or ())]))
