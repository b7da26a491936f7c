"""Bus bandwidth of `probe=fabric` between two hosts, against an all-reduce loop by hand; and the time of a search.

    python benchmarks/fabric.py [ROUNDS]

The hosts are those of the cluster tests, joined by a bridge. Each sends with 200 Mbit/s at most (tc tbf), so that the
link and not the processor decides. Needs what the tests of clusters need: root, and Debian's docker.io, openssh-server
and iproute2. Limit: the medians of the rounds differ by at most 5 %.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
from flagperf_run import User, word
from hosts import Host, TestCluster
from limits import say

BARE = Path(__file__).parent / "bare" / "all_reduce.py"
LIMIT = 5.0  # percent
LIMIT_SEARCH = 30.0  # seconds, with the start of the ranks
SIZE = 4 * 1024**2  # bytes
PROCESS = ("runtime=process", f"runtime.python={sys.executable}", "oversubscribe=true", "nnodes=2", "nproc=1")


def by_hand(cluster: TestCluster) -> float:
    """Bus bandwidth of the bare loop."""
    first = cluster.hosts[0]

    def start(host: Host, rank: int) -> subprocess.Popen[str]:
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": first.address,
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
        }
        words = ["env", *(f"{name}={value}" for name, value in environment.items())]
        script = f"import sys; sys.argv = ['loop', '{SIZE}', '5']\n{BARE.read_text()}"
        return host.start(*words, sys.executable, "-c", script)

    processes = [start(host, rank) for rank, host in enumerate(cluster.hosts)]
    outputs = [process.communicate()[0] for process in processes]
    return float(outputs[0].split()[-1])


def probed(cluster: TestCluster, home: Path, probe: str, number: int) -> Path:
    """The probe.json of a probe."""
    place = ("cluster=lab", f"result_dir={word(home / 'result')}", f"run_name={probe}{number}", *PROCESS)
    done = User(cluster, home).run("run", f"probe={probe}", *place, "fabric.largest=4m", "fabric.seconds=1")
    if done.exit_code:
        raise SystemExit(done.output)
    return home / "result" / f"{probe}{number}" / "probe.json"


def of_probe(file: Path) -> float:
    """Bus bandwidth of the all-reduce at SIZE."""
    curves = json.loads(file.read_text())["curves"]
    (curve,) = [curve for curve in curves if curve["kind"] == "all_reduce"]
    return float(curve["bus_bandwidths"][curve["sizes"].index(SIZE)])


def main(rounds: int) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    with TestCluster(2) as cluster, tempfile.TemporaryDirectory() as folder:
        for host in cluster.hosts:
            limit = ("rate", "200mbit", "burst", "64k", "latency", "400ms")
            host.output("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *limit)
        ours, bare, searches = [], [], []
        for number in range(rounds):
            bare.append(by_hand(cluster))
            ours.append(of_probe(probed(cluster, Path(folder), "fabric", number)))
            began = time.monotonic()
            probed(cluster, Path(folder), "links", number)
            searches.append(time.monotonic() - began)
            print(f"by hand {bare[-1] / 1e6:.4g} MB/s, probe {ours[-1] / 1e6:.4g} MB/s", flush=True)
    difference = 100 * abs(statistics.median(ours) / statistics.median(bare) - 1)
    say("bus bandwidth of an all-reduce between two hosts, against a loop by hand", difference, LIMIT, "%")
    say("search for a slow link on two hosts, with the start", statistics.median(searches), LIMIT_SEARCH, "s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
