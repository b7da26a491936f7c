"""`flagperf node`: what it takes, and where it places this machine. The training itself: tests/cluster."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from example import example_job
from refusals import lines

from flagperf.cli.help import usage
from flagperf.cli.main import run_command
from flagperf.cli.node import on_this_machine
from flagperf.config.schema.cluster import Cluster, Node
from flagperf.plan.plan import make_plan

TWO = ["nnodes=2", "dry_run=true"]
FORM = "HOST:PORT of node 0, a port of 1 to 65534"
OLDER = "give a folder such as result/run20260101-120000; a run of an older flagperf kept no command"


def test_this_machine_is_the_node() -> None:
    """Name and data folder are those of the cluster's file; the others are only named."""
    nodes = (Node("a", "10.9.9.1"), Node("b", "10.9.9.2", data_dir="/fast"), Node("c", "10.9.9.3"))
    job = example_job(nnodes=2, cluster=Cluster("lab", "a lab", nodes))
    placed = on_this_machine(job, 1, "127.0.0.1", 29500)
    assert placed.cluster.nodes == (
        Node("a", "10.9.9.1"),
        Node("b", "127.0.0.1", data_dir="/fast", local=True),
    )
    plan = make_plan(placed, 1, Path("/result/run"))
    assert (plan.master_address, plan.master_port) == ("127.0.0.1", 29500)
    assert plan.nodes[1].launch.argv[-3:] == (
        "--to",
        "127.0.0.1:29500",
        "/result/run/sums-pytorch-cpux2x2/round1/b_noderank1/config.yaml",  # with /fast
    )
    assert plan.nodes[1].log_dir == "/result/run/sums-pytorch-cpux2x2/round1/b_noderank1"


def test_a_cluster_of_too_few() -> None:
    placed = on_this_machine(dataclasses.replace(example_job(nnodes=2)), 0, "127.0.0.1", 29500)
    assert placed.cluster.nodes == (Node("node0", "127.0.0.1", local=True), Node("node1", "127.0.0.1"))


@pytest.mark.parametrize(
    ("arguments", "problem", "rest"),
    [
        pytest.param([], "node takes a run, node_rank and master", {"do": usage("node")}, id="nothing"),
        pytest.param(
            [*TWO, "node_rank=1"],
            "node takes a run, node_rank and master",
            {"given": "nnodes=2 dry_run=true node_rank=1", "do": usage("node")},
            id="no master",
        ),
        pytest.param(
            [*TWO, "node_rank=0", "master=127.0.0.1:29500", "node_rank=1"],
            "node takes one node_rank and one master",
            {"given": "node_rank=0 master=127.0.0.1:29500 node_rank=1", "do": usage("node")},
            id="two node ranks",
        ),
        pytest.param(
            [*TWO, "node_rank=2", "master=127.0.0.1:29500"],
            "there is no such node",
            {"key": "node_rank", "given": "2", "allowed": "0 to 1, of nnodes=2"},
            id="no such node",
        ),
        pytest.param(
            [*TWO, "node_rank=²", "master=127.0.0.1:29500"],
            "there is no such node",
            {"key": "node_rank", "given": "²", "allowed": "0 to 1, of nnodes=2"},
            id="no number",
        ),
        pytest.param(
            [*TWO, "node_rank=1", "master=127.0.0.1"],
            "not where ranks can meet",
            {"key": "master", "given": "127.0.0.1", "allowed": FORM.replace("65534", "65535")},
            id="no port",
        ),
        pytest.param(
            [*TWO, "repeat=2", "node_rank=1", "master=127.0.0.1:65535"],
            "not where ranks can meet",
            {"key": "master", "given": "127.0.0.1:65535", "allowed": FORM},
            id="no port for the second round",
        ),
        pytest.param(
            [*TWO, "node_rank=1", "master=127.0.0.1:29500", "resume=/x"],
            "a node that is started by hand cannot resume a training",
            {"key": "resume", "given": "/x"},
            id="resume",
        ),
        pytest.param(
            ["/no/such", "node_rank=1", "master=127.0.0.1:29500"],
            "no command is kept there",
            {"given": "/no/such", "do": OLDER},
            id="no run folder",
        ),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str, rest: dict[str, str]) -> None:
    assert run_command(["node", *arguments]) == 2
    assert capsys.readouterr().err == lines(f"flagperf: {problem}", where="command line", **rest) + "\n"


def test_a_dry_run_shows_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["node", *TWO, "node_rank=1", "master=127.0.0.1:29500"]) == 0
    said = capsys.readouterr().out
    assert "--node-rank 1 --master-addr 127.0.0.1 --master-port 29500" in said
