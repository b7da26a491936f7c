"""A scheduler of another package: found by an entry point, shown in a dry run, asked for hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

LAB = """\
title: the reader's
scheduler: {name: hall, queue: short}
"""
HALL = """
from contextlib import asynccontextmanager
from dataclasses import replace

from flagperf.config.schema.cluster import Node
from flagperf.schedulers.listed import Listed


class Hall(Listed):
    @asynccontextmanager
    async def allocate(self, job, say):
        say(f"hall gives a host of {job.cluster.scheduler['queue']}")
        yield replace(job.cluster, nodes=(Node("here", "127.0.0.1", local=True),))
        say("hall has its host back")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an installed package that has a scheduler, and a configuration folder beside it."""
    entries = "[flagperf.schedulers]\nhall = partner:Hall\nnodes = partner:Hall\nslurm = partner:Hall\n"
    files = {
        "site/partner-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: partner\nVersion: 1\n",
        "site/partner-1.dist-info/entry_points.txt": entries,
        "site/partner.py": HALL,
        "conf/cluster/lab.yaml": LAB,
        "conf/cluster/other.yaml": LAB.replace("hall", "hull"),
        "conf/cluster/nameless.yaml": LAB.replace("name: hall, ", ""),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def flagperf(*words: str, folder: Path) -> tuple[int, str, str]:
    program = "import sys; sys.path.insert(0, 'site'); from flagperf.cli.main import main; main()"
    command = [sys.executable, "-c", program, "--config-dir", "conf", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def test_a_dry_run_prints_what_it_would_do(folder: Path) -> None:
    code, shown, errors = flagperf("cluster=lab", "nnodes=2", "dry_run=true", folder=folder)
    assert (code, errors) == (0, "")
    assert "#   Hall chooses the nodes of a run: here node0 to node1 stand for them\n" in shown
    assert "\n# Node 1, node1: rank 1\n" in shown


def test_a_run_uses_its_hosts(folder: Path) -> None:
    """The data is looked for on the host that it gave."""
    words = ("cluster=lab", "data_dir=/gone", "result_dir=result", "run_name=run")
    code, shown, errors = flagperf(*words, folder=folder)
    assert code == 2
    assert errors.startswith("flagperf: data_dir does not exist\n  where:   command line\n")
    lines_of_hall = [line.strip() for line in shown.splitlines() if "hall" in line]
    assert lines_of_hall == ["hall gives a host of short", "hall has its host back"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["cluster=other"],
            "no such scheduler\n  where:   command line\n  key:     cluster.scheduler.name\n  given:   hull\n"
            "  allowed: did you mean 'hall'?\n",
            id="not installed",
        ),
        pytest.param(
            ["cluster=nameless"],
            "a scheduler needs its name\n  where:   {}/conf/cluster/nameless.yaml\n  key:     cluster.scheduler.name\n"
            "  do:      docs/adding-a-scheduler.md\n",
            id="no name",
        ),
        pytest.param(
            ["cluster=lab", "submit=true"],
            "this cluster has no queue\n  where:   command line\n  key:     submit\n  given:   lab\n"
            "  do:      cluster=slurm submit=true\n",
            id="what it does not do",
        ),
    ],
)
def test_refused(words: list[str], message: str, folder: Path) -> None:
    assert flagperf(*words, folder=folder) == (2, "", f"flagperf: {message.format(folder)}")


def test_ours_stay(folder: Path) -> None:
    """An entry point of another package cannot take the name of ours."""
    program = (
        "import sys; sys.path.insert(0, 'site')\nfrom flagperf.hosts.source import source\n"
        "print(*(type(source(name)).__module__ for name in ('hall', 'nodes', 'slurm', 'kubernetes')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder)
    ours = "flagperf.schedulers"
    assert done.stdout.split() == [
        "partner",
        f"{ours}.listed",
        f"{ours}.slurm.scheduler",
        f"{ours}.kubernetes.scheduler",
    ]
