"""Command to first training step on two docker hosts: flagperf against docker commands written by hand.

    python benchmarks/docker_start.py [ROUNDS]

By hand: OpenSSH starts `docker run … torchrun … benchmarks/bare/resnet50_pytorch.py` on both hosts at once, in
containers of the same image with the same options. Both read the same sample data with the same batch size, in turns;
the median of each is printed, with their difference and what flagperf's phases took. Needs what the tests of clusters
need: root, and Debian's docker.io, openssh-server and iproute2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from baseline import BASELINES, FLAGPERF, first_step_end, last_json, print_phases, print_starts

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
from flagperf_run import cluster_file
from hosts import IMAGE, Host, TestCluster, image_mounts

PYTORCH = BASELINES["pytorch"]
BARE = Path(__file__).parent / "bare" / PYTORCH.script
LIMIT = 2.0  # seconds above the commands by hand; two hosts share the disk and the cores of this machine
DATA = "/srv/data"  # on the hosts
PORT = 29512
ON_LAB = (
    *("cluster=lab", "nnodes=2", "runtime=docker", f"data_dir={DATA}"),
    *(f"vendor.image.pytorch.name={IMAGE}", f"runtime.python={sys.executable}"),
)


def send(host: Host, *paths: Path) -> None:
    """Put the data and the bare script on a host's disk."""
    for path, target in zip(paths, (DATA, "/srv/bare"), strict=True):
        archive = subprocess.run(["tar", "-C", path, "-c", "."], capture_output=True, check=True).stdout
        host.output("mkdir", "-p", target)
        host.output("tar", "-C", target, "-x", stdin=archive)


def by_hand(cluster: TestCluster) -> float:
    """Wall-clock seconds from the commands to the end of the first step."""
    mounts = [f"--volume={folder}:{folder}:ro" for folder in (*image_mounts(), DATA, "/srv/bare")]
    settings = {**PYTORCH.config["vendor"]["environment"], "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    options = ["--network=host", "--ipc=host", "--init", *mounts, *(f"--env={k}={v}" for k, v in settings.items())]
    script = [f"/srv/bare/{BARE.name}", DATA, str(PYTORCH.config["train_batch_size"]), "1", "0"]
    started, running = time.time(), []
    for rank, host in enumerate(cluster.hosts):
        launch = ["--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(rank)]
        launch += ["--master-addr", cluster.hosts[0].address, "--master-port", str(PORT)]
        argv = ["docker", "run", "--rm", *options, IMAGE, sys.executable, "-m", "torch.distributed.run"]
        ssh = ["ssh", "-i", cluster.key, "-o", f"UserKnownHostsFile={cluster.known_hosts}", f"root@{host.address}"]
        running.append(subprocess.Popen([*ssh, *argv, *launch, *script], stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in running]
    return float(last_json(outputs[0])["first_step"]) - started


def flagperf(folder: Path) -> tuple[float, dict[str, float]]:
    """Wall-clock seconds from the command to the end of the first step, and the phases of node 0."""
    with tempfile.TemporaryDirectory() as results:
        overrides = [*ON_LAB, "division=open", "max_steps=1", f"result_dir={results}", "run_name=run"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        started = time.time()
        command = [*FLAGPERF, "--config-dir", str(folder), *overrides, "++vendor.environment.OMP_NUM_THREADS='1'"]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        (round_,) = Path(results).glob("run/*/round1")
        end = first_step_end(round_ / "h1_noderank0/rank0.out.log")
        phases = json.loads((round_ / "result.json").read_text())["phases"]["h1_noderank0"]
    return end - started, phases


@contextmanager
def lab() -> Iterator[tuple[TestCluster, Path]]:
    """Two hosts with the data and the bare script, and a configuration folder in which they are `cluster=lab`."""
    with TestCluster() as cluster, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cluster").mkdir()
        (folder / "cluster" / "lab.yaml").write_text(json.dumps(cluster_file(cluster)))
        for host in cluster.hosts:
            send(host, PYTORCH.data, BARE.parent)
        yield cluster, folder


def main(rounds: int) -> None:
    with lab() as (cluster, folder):
        by_hand(cluster), flagperf(folder)  # fills the page cache
        pairs = [(by_hand(cluster), flagperf(folder)) for _ in range(rounds)]
    print_starts("two docker hosts", "docker by hand", [(hand, seconds) for hand, (seconds, _) in pairs], LIMIT)
    print_phases([phases for _, (_, phases) in pairs])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
