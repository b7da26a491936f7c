"""flagperf node: run this machine's part of a job by hand, for hosts without ssh

usage: flagperf node RUN_DIR|OVERRIDES… node_rank=N master=HOST:PORT

Start the command on every node within deadlines.start. Each node keeps its own run folder. Copy the folders of all
nodes into one folder, and flagperf report reads it.

words:
  RUN_DIR           a run folder, whose command is run again; later overrides replace those of the command
  OVERRIDES…        the overrides of a run, the same on each node: model=, nnodes=, nproc= …
  node_rank=N       the number of this machine, from 0
  master=HOST:PORT  an address of node 0 that all nodes reach, and a free port there; each round uses the next port
  trust=true        use a folder that you did not make on this machine (docs/trust.md)

options: --config-dir

examples:
  flagperf node model=glm nnodes=2 nproc=8 vendor=nvidia hardware=A100 data_dir=/data/glm node_rank=1
      master=10.0.0.1:29500
  flagperf node result/run20260101-120000 node_rank=0 master=10.0.0.1:29500 deadlines.start=3600

exit codes: 0, 2, 3, 5, 130
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import re
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from flagperf.cli import trust
from flagperf.cli.help import usage
from flagperf.config.compose import compose
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Outcome
from flagperf.errors import ConfigError, InterruptedRunError, TrainingError
from flagperf.plan.dry_run import dry_run_text
from flagperf.plan.plan import make_plan
from flagperf.results import parts
from flagperf.run import command_file
from flagperf.run.command_file import Command, merged_overrides
from flagperf.run.console import Terminal
from flagperf.run.execute import execute
from flagperf.run.progress import Progress
from flagperf.run.rounds import Ended, folder_of_run, rounds
from flagperf.user import user_path

VERB_KEYS = ("node_rank", "master")  # keys of this verb; all others are overrides
LAST_PORT = 65535


def main(options: argparse.Namespace) -> int:
    """Run the node's part of every round, and print the folder of its logs. Returns the exit code."""
    arguments, is_trusted = trust.trusted(options.arguments)
    verb_words = [text for text in arguments if text.partition("=")[0] in VERB_KEYS]
    words = {key: value for key, _, value in (text.partition("=") for text in verb_words)}
    run_words = [text for text in arguments if text not in verb_words]
    if set(words) != set(VERB_KEYS) or not run_words:
        text = " ".join(options.arguments) or None
        raise ConfigError("node takes a run, node_rank and master", given=text, advice=usage("node"))
    if len(verb_words) > len(VERB_KEYS):  # with two node ranks, another node would wait for this node
        raise ConfigError("node takes one node_rank and one master", given=" ".join(verb_words), advice=usage("node"))
    overrides, folders = _overrides(run_words, options.config_dir, is_trusted)
    job = compose(overrides, folders)
    if job.resume is not None:
        raise ConfigError("a node that is started by hand cannot resume a training", key="resume", given=job.resume)
    if job.restarts:
        raise ConfigError("flagperf cannot restart a node that is started by hand", key="restarts", given=job.restarts)
    rank, address, port = _rank_and_master(job, words["node_rank"], words["master"])
    job = on_this_machine(job, rank, address, port)
    if job.dry_run:
        print(dry_run_text(job))
        return 0
    command = Command(tuple(overrides), False, tuple(map(str, folders)), str(Path.cwd()), options.began)
    return asyncio.run(_run_rounds(job, rank, Terminal(), command))


def _overrides(words: Sequence[str], config_dirs: Sequence[Path], is_trusted: bool) -> tuple[list[str], list[Path]]:
    """The overrides and configuration folders: those of a run folder, where one is given, then those of the line."""
    if "=" in words[0] or words[0].startswith("+"):
        return list(words), list(config_dirs)
    folder = user_path(words[0])
    command = command_file.read(folder)
    if command.multirun:
        advice = "give the overrides of one of its jobs in place of the folder"
        raise ConfigError("this run has several jobs", given=folder, advice=advice)
    if not is_trusted:
        trust.check("node", folder, command_file.files(folder), trust.of_command(command, folder))
    kept = [path.resolve() for path in command_file.kept_folders(command, folder)]
    return merged_overrides(command.overrides, words[1:]), [*config_dirs, *kept]


def _rank_and_master(job: JobConfig, node_rank: str, master: str) -> tuple[int, str, int]:
    """The node rank, and the address and port of node 0. Each round uses the next port."""
    if not node_rank.isdecimal() or int(node_rank) >= job.nnodes:
        allowed = f"0 to {job.nnodes - 1}, of nnodes={job.nnodes}"
        raise ConfigError("there is no such node", key="node_rank", given=node_rank, allowed=allowed)
    match = re.fullmatch(r"(?:\[(?P<v6>[^]\s]+)\]|(?P<host>[^:\s]+)):(?P<port>\d+)", master)
    most = LAST_PORT - job.repeat + 1
    if not match or not 0 < int(match["port"]) <= most:
        allowed = f"HOST:PORT of node 0, a port of 1 to {most}"
        raise ConfigError("not where ranks can meet", key="master", given=master, allowed=allowed)
    return int(node_rank), match["v6"] or match["host"], int(match["port"])


def on_this_machine(job: JobConfig, rank: int, address: str, port: int) -> JobConfig:
    """The job with this machine as the node of that rank. The nodes meet at address and port of node 0.

    Names and data folders are those of the cluster's file, where the file has enough nodes.
    """
    known = job.cluster.nodes if len(job.cluster.nodes) >= job.nnodes else ()
    nodes = [known[number] if known else Node(f"node{number}", address) for number in range(job.nnodes)]
    nodes = [dataclasses.replace(node, local=False) for node in nodes]
    nodes[rank] = dataclasses.replace(nodes[rank], address=_local_address(address, port), local=True)
    meeting = dataclasses.replace(job.cluster.rendezvous, address=address, port=port)
    cluster = dataclasses.replace(job.cluster, nodes=tuple(nodes[: job.nnodes]), rendezvous=meeting)
    return dataclasses.replace(job, cluster=cluster)


def _local_address(address: str, port: int) -> str:
    """The address of this machine on the route to node 0. No packet is sent.

    Raises:
        ConfigError: no route leads to node 0.
    """
    try:
        family, kind, *_, target = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        problem = f"node 0 cannot be reached from here: {error.strerror or error}"
        raise ConfigError(problem, key="master", given=f"{address}:{port}") from None


async def _run_rounds(job: JobConfig, rank: int, console: Console, command: Command) -> int:
    """Run the node's part of all rounds, and return the first exit code that is not 0.

    After a round that could not start here, the next round is started, because the other nodes go on, too.
    """
    codes: list[int] = []
    with folder_of_run([job], command, console) as folder:
        logs = Path(make_plan(job, 1, folder).nodes[rank].log_dir).name
        execute_round = partial(_execute, job, rank, folder, console)
        async for ended in rounds(job, folder, execute_round, after_refusal=True):
            parts.write(ended.outcome, ended.outcome.folder / logs)
            codes.append(_exit_code(ended))
    console.print(f"logs of node {rank}: {folder}", highlight=False, markup=False, soft_wrap=True)
    console.print("with those of the other nodes in one folder: flagperf report FOLDER", style="dim", highlight=False)
    return next((code for code in codes if code), 0)


async def _execute(job: JobConfig, rank: int, folder: Path, console: Console, number: int) -> Outcome:
    """Run the node's part of a round. Each round has its own port."""
    meeting = job.cluster.rendezvous
    assert meeting.port is not None
    cluster = dataclasses.replace(job.cluster, rendezvous=dataclasses.replace(meeting, port=meeting.port + number - 1))
    job = dataclasses.replace(job, cluster=cluster)
    with Progress(job, console) as progress:
        return await execute(job, make_plan(job, number, folder), folder, progress, only=rank)


def _exit_code(ended: Ended) -> int:
    if ended.error:
        return ended.error.exit_code
    codes = {"finished": 0, "interrupted": InterruptedRunError.exit_code}
    return codes.get(ended.outcome.status, TrainingError.exit_code)
