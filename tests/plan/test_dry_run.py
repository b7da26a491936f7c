"""What a dry run shows of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from example import example_job

from flagperf.config.compose import compose
from flagperf.config.schema.platform import Framework
from flagperf.contract.mesh import Mesh
from flagperf.contract.records import Change
from flagperf.plan.dry_run import dry_run_text


def test_dry_run_shows_configuration_changes_and_commands() -> None:
    job = example_job(
        nnodes=2,
        mesh=Mesh(dp_replicate=2, dp_shard=2),
        strategy="a.Sharded",
        repeat=3,
        result_dir="/res",
        framework=Framework("pytorch", ("torchrun", "{config}", "a b")),
        changes=(Change("lr", 0.1, 0.2, "command line"),),
        notes=("tuning: none",),
    )
    job = replace(job, config={"case": "sums", "seed": 7, "repeat_seed": "own", "title": "图"})
    assert (
        dry_run_text(job)
        == """\
# sums-pytorch-cpux2x2, 3 rounds, division closed
#   tuning: none
#   seeds of the rounds: 7, 8, 9
#   cluster local has 1 of the 2 hosts: <host-N> stands for a missing one, and a run would be refused
#   port 29500 stands for a free one, which each round looks for on node 0
#   a run sends the packages flagperf and cases first, to /var/tmp/flagperf/dry-run/code
#   a run starts the ranks by environment.sh beside config.yaml: with the variables that are listed, and no others

# Changes against the case:
#   lr: 0.1 -> 0.2    (command line)

# Mesh of 4 ranks:
#   strategy: Sharded
#   samples of a step: 4 x 1 x 4 = 16 (train_batch_size x gradient_accumulation_steps x data ranks)
#   dp_replicate 2: ranks 0,2 | 1,3
#   dp_shard 2: ranks 0,1 | 2,3
#   tp 1

# Effective configuration, which every node gets as /res/dry-run/sums-pytorch-cpux2x2/round1/config.yaml and \
/var/tmp/flagperf/dry-run/sums-pytorch-cpux2x2/round1/config.yaml:
case: sums
seed: 7
repeat_seed: own
title: 图
resume: null

# Node 0, here: ranks 0-1
mkdir -p /res/dry-run/sums-pytorch-cpux2x2/round1/here_noderank0
FLAGPERF_LOG_DIR=/res/dry-run/sums-pytorch-cpux2x2/round1/here_noderank0 PYTHONFAULTHANDLER=1 \
/bin/sh /res/dry-run/sums-pytorch-cpux2x2/round1/environment.sh \
torchrun /res/dry-run/sums-pytorch-cpux2x2/round1/config.yaml 'a b'

# Node 1, <host-2>: ranks 2-3
mkdir -p '/var/tmp/flagperf/dry-run/sums-pytorch-cpux2x2/round1/<host-2>_noderank1'
FLAGPERF_LOG_DIR='/var/tmp/flagperf/dry-run/sums-pytorch-cpux2x2/round1/<host-2>_noderank1' \
PYTHONFAULTHANDLER=1 PYTHONPATH=/var/tmp/flagperf/dry-run/code \
/bin/sh /var/tmp/flagperf/dry-run/sums-pytorch-cpux2x2/round1/environment.sh \
torchrun /var/tmp/flagperf/dry-run/sums-pytorch-cpux2x2/round1/config.yaml 'a b'
"""
    )


def test_a_dry_run_says_that_the_data_is_not_there(tmp_path: Path) -> None:
    """Hosts that have other files than this machine are not asked."""
    given = ["model=resnet50", "size=full", "dry_run=true"]
    note = f"#   data_dir {tmp_path}/none is no folder of this machine: a run would be refused\n"
    assert note in dry_run_text(compose([*given, f"data_dir={tmp_path}/none"]))
    elsewhere = ["cluster.nodes=[{address: far}]", f"data_dir={tmp_path}/none"]
    for there in (elsewhere, [f"data_dir={tmp_path}"]):
        assert "a run would be refused" not in dry_run_text(compose([*given, *there]))
