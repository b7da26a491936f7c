"""What people see of two hosts, and what flagperf_run.log keeps of them."""

from __future__ import annotations

import re
from pathlib import Path

from flagperf_run import DOCKER, FAKE, User
from hosts import TestCluster

UNCHECKED = "host keys are not checked, because the cluster's file sets ssh.strict: false"


def test_a_run_is_followed_host_by_host(lab: TestCluster, tmp_path: Path) -> None:
    user = User(lab, tmp_path, steps=True, ssh={"key": str(lab.key), "config": "/dev/null", "strict": False})
    done = user.run(*FAKE, *DOCKER, "nnodes=2", "max_steps=4", "repeat=2", "log_level=debug")
    assert done.exit_code == 0, done.output
    assert (done.output.count(f"warning {UNCHECKED}\n"), done.log.count(f"]{UNCHECKED}\n")) == (1, 2)
    steps = [line for line in done.output.splitlines() if " s  train   step 4/4  epoch 1" in line]
    assert len(steps) == 2
    for rank, host in enumerate(("h1", "h2")):
        assert re.findall(rf"\[DEBUG\].*\]{host}: phase '(\w+)' ended after \d+\.\d{{3}} s\n", done.log) == 2 * [
            *("connect", "check", "image", "send", "start", "stop", "collect", "clean")
        ]
        assert f"]{host} (node rank {rank}): image flagperf-test:empty is present\n" in done.log
        assert re.search(rf"\]{host}: exit status 0 after \d+\.\d\d\d s: mkdir -p /srv/flagperf/run-\w+/", done.log)
