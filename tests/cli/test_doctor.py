"""`flagperf doctor` on this machine, and how its rows are shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.cli.cluster import Row, print_rows

OVERRIDES = ("nnodes=3", "nproc=1000", "size=full", "data_dir=/nowhere", "+cluster.secrets.T={variable: NOT_THERE}")


def test_what_would_stop_a_run_on_this_machine() -> None:
    flagperf = Path(sys.executable).with_name("flagperf")
    done = subprocess.run([flagperf, "doctor", *OVERRIDES], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    column = done.stdout.splitlines()[0].index("found")
    said = "\n".join(line[column:] for line in done.stdout.splitlines())
    for told in (
        "the cluster has too few hosts for nnodes=3 (nnodes=3)\n"
        "do: choose a larger cluster (cluster=NAME), or see the plan with dry_run=true\n"
        "allowed: 1 to 1\n",
        "the launcher's environment lacks this variable, or it is empty (cluster.secrets.T.variable=NOT_THERE)\n"
        "do: export NOT_THERE=… in the shell that starts flagperf\n",
        f"1000 ranks share {os.cpu_count()} cores\n"
        "do: choose a smaller nproc; the run works, but its figures have little meaning\n",
        "more ranks than the host can hold (nproc=1000)\n"
        "do: choose a smaller nproc, or oversubscribe=true if you want more ranks\n"
        "allowed: at most ",
        "data_dir does not exist (data_dir=/nowhere)\n"
        "do: bring the data there, or say where it lies: data_dir, or the node's own data_dir in the cluster's file\n"
        "allowed: ImageNet-1k (ILSVRC2012), laid out as\n"
        "    <data_dir>/\n",
    ):
        assert f"\n{told}" in said, said


def test_what_a_run_would_download() -> None:
    flagperf = Path(sys.executable).with_name("flagperf")
    words = ["size=full", "framework=paddle", "model=bert", f"runtime.python={sys.executable}", "offline=true"]
    done = subprocess.run([flagperf, "doctor", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split()[1:3] for line in done.stdout.splitlines()[1:] if not line.startswith(" ")]
    assert rows == [["pip", "warning"], ["data", "warning"], ["weights", "ok"], ["git", "ok"]]
    assert (
        "has no module paddle; needed are h5py>=3.11, numpy>=1.26, paddlepaddle<3.4,>=3.3, asyncssh>=2.21"
        in done.stdout
    )
    assert (
        "in HDF5 shards, 156,725,653 sequences to train, 10,000 sequences to evaluate; flagperf does not" in done.stdout
    )


SHOWN = """\
host   check  state    found
alpha  ssh    ok       reached
alpha  data   failed   /a very/{long} [path]
                       do: bring it
                       allowed: pictures, laid out as
                           <data_dir>/
beta   image  skipped  not looked at
"""


def test_rows_are_not_folded_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    rows = [
        Row("alpha", "ssh", "ok", "reached"),
        Row(
            "alpha",
            "data",
            "failed",
            f"/a very/{long} [path]",
            "bring it\nallowed: pictures, laid out as\n    <data_dir>/",
        ),
        Row("beta", "image", "skipped", "not looked at"),
    ]
    assert print_rows(rows) == 3
    assert capsys.readouterr().out == SHOWN.format(long=long)
    assert print_rows(rows[:1]) == 0
