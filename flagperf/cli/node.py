"""flagperf node: one node's part of a run, on this machine: where nobody may ssh

usage: flagperf node RUN_DIR|OVERRIDES… node_rank=N master=HOST:PORT

Give it on every node within deadlines.start. Logs stay in the run folder of each: copied into one, flagperf report
reads them.

words:
  RUN_DIR           a run folder, whose command is given again; overrides after it replace old ones
  OVERRIDES…        the same as those of a run, and the same on each node: model=, nnodes=, nproc= …
  node_rank=N       which node this machine is, from 0
  master=HOST:PORT  node 0, as all nodes reach it, and a free port there; each round takes the next one
  trust=true        obey a folder that you did not make on this machine (docs/trust.md)

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
from flagperf.config.files.user_path import user_path
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Outcome
from flagperf.errors import ConfigError, InterruptedRunError, TrainingError
from flagperf.plan.dry_run import dry_run_text
from flagperf.plan.plan import make_plan
from flagperf.results import parts
from flagperf.run import command_file
from flagperf.run.command_file import Command, again
from flagperf.run.console import Terminal
from flagperf.run.execute import execute
from flagperf.run.progress import Progress
from flagperf.run.rounds import Ended, folder_of_run, rounds

OWN = ("node_rank", "master")  # words of this verb; the others are overrides
LAST_PORT = 65535


def main(options: argparse.Namespace) -> int:
    """Run the node's part of every round; print where its logs are. Returns the exit code."""
    given, is_trusted = trust.trusted(options.arguments)
    own = [text for text in given if text.partition("=")[0] in OWN]
    words = {key: value for key, _, value in (text.partition("=") for text in own)}
    rest = [text for text in given if text not in own]
    if set(words) != set(OWN) or not rest:
        typed = " ".join(options.arguments) or None
        raise ConfigError("node takes a run, node_rank and master", given=typed, advice=usage("node"))
    if len(own) > len(OWN):  # of two node ranks one would be another node's, which then waits for this one
        raise ConfigError("node takes one node_rank and one master", given=" ".join(own), advice=usage("node"))
    overrides, folders = _overrides(rest, options.config_dir, is_trusted)
    job = compose(overrides, folders)
    if job.resume is not None:
        raise ConfigError("a node that is started by hand resumes nothing", key="resume", given=job.resume)
    rank, address, port = _place(job, words["node_rank"], words["master"])
    job = on_this_machine(job, rank, address, port)
    if job.dry_run:
        print(dry_run_text(job))
        return 0
    command = Command(tuple(overrides), False, tuple(map(str, folders)), str(Path.cwd()), options.began)
    return asyncio.run(_run_rounds(job, rank, Terminal(), command))


def _overrides(words: Sequence[str], config_dirs: Sequence[Path], is_trusted: bool) -> tuple[list[str], list[Path]]:
    """The overrides and configuration folders: those that were given, and before them those of a run folder."""
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
    return again(command.overrides, words[1:]), [*config_dirs, *kept]


def _place(job: JobConfig, node_rank: str, master: str) -> tuple[int, str, int]:
    """The node rank, and the address and port of node 0; each round takes the next port."""
    if not node_rank.isdecimal() or int(node_rank) >= job.nnodes:
        allowed = f"0 to {job.nnodes - 1}, of nnodes={job.nnodes}"
        raise ConfigError("there is no such node", key="node_rank", given=node_rank, allowed=allowed)
    found = re.fullmatch(r"(?:\[(?P<v6>[^]\s]+)\]|(?P<host>[^:\s]+)):(?P<port>\d+)", master)
    most = LAST_PORT - job.repeat + 1
    if not found or not 0 < int(found["port"]) <= most:
        allowed = f"HOST:PORT of node 0, a port of 1 to {most}"
        raise ConfigError("not where ranks can meet", key="master", given=master, allowed=allowed)
    return int(node_rank), found["v6"] or found["host"], int(found["port"])


def on_this_machine(job: JobConfig, rank: int, address: str, port: int) -> JobConfig:
    """The job with this machine as the node of that rank, which meets the others at node 0's address and port.

    Names and data folders are those of the cluster's file, where it has so many nodes.
    """
    known = job.cluster.nodes if len(job.cluster.nodes) >= job.nnodes else ()
    nodes = [known[number] if known else Node(f"node{number}", address) for number in range(job.nnodes)]
    nodes = [dataclasses.replace(node, local=False) for node in nodes]
    nodes[rank] = dataclasses.replace(nodes[rank], address=_own_address(address, port), local=True)
    meeting = dataclasses.replace(job.cluster.rendezvous, address=address, port=port)
    cluster = dataclasses.replace(job.cluster, nodes=tuple(nodes[: job.nnodes]), rendezvous=meeting)
    return dataclasses.replace(job, cluster=cluster)


def _own_address(address: str, port: int) -> str:
    """The address of this machine from which node 0 is reached. Nothing is sent for it.

    Raises:
        ConfigError: no way leads there.
    """
    try:
        family, kind, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as end:
            end.connect(place)
            return str(end.getsockname()[0])
    except OSError as error:
        problem = f"node 0 cannot be reached from here: {error.strerror or error}"
        raise ConfigError(problem, key="master", given=f"{address}:{port}") from None


async def _run_rounds(job: JobConfig, rank: int, console: Console, command: Command) -> int:
    """The node's part of all rounds; the exit code of the first that did not end well.

    After a round that could not start here, the next one is started: the other nodes go on, too.
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
    """The node's part of a round, in which the ranks meet at a port of its own."""
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
