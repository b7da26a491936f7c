"""`flagperf run probe=alone` on two hosts: real ranks, started as those of a run, over ssh and in containers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from flagperf_run import DOCKER, User, assert_nothing_left, word
from hosts import TestCluster

PROCESS = ("runtime=process", f"runtime.python={sys.executable}")
FIGURES = ["fp32", "fp16", "bf16", "memory", "host_to_device", "all_reduce_node", "all_reduce"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("runtime", [DOCKER, PROCESS], ids=["docker", "process"])
def test_devices_of_two_hosts_are_measured(lab: TestCluster, tmp_path: Path, runtime: tuple[str, ...]) -> None:
    place = ("cluster=lab", f"result_dir={word(tmp_path / 'result')}", "run_name=run")
    done = User(lab, tmp_path).run("run", "probe=alone", *runtime, *place, "nnodes=2", "nproc=2", timeout=600)
    assert done.exit_code == 0, done.output
    told = json.loads((done.folder / "probe.json").read_text())
    assert [(one["rank"], one["host"], list(one["figures"])) for one in told["devices"]] == [
        (0, "h1", FIGURES),
        (1, "h1", FIGURES),
        (2, "h2", FIGURES),
        (3, "h2", FIGURES),
    ]
    assert "all-reduce, nodes [GB/s]" in done.output
    assert_nothing_left(lab)
