"""`gradient_accumulation_steps: auto`: as many as give the samples of a step, whatever shares the work."""

from __future__ import annotations

import pytest
from refusals import lines, message

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF

LLAMA = ["model=llama3_8b", "dry_run=true"]
NVIDIA = ["vendor=nvidia", "hardware=H100", "data_dir=/data"]
TP = "parallel.mesh.tp=2"


@pytest.mark.parametrize(
    ("overrides", "micro_steps", "data_ranks"),
    [
        pytest.param(["size=full"], 32, 1, id="one device"),
        pytest.param(["size=full", "nproc=8"], 4, 8, id="eight"),
        pytest.param(["size=full", "nproc=8", TP], 8, 4, id="eight, of which two share a sequence"),
        pytest.param(["size=full", "nproc=8", "train_batch_size=4"], 1, 8, id="a larger batch of each"),
        pytest.param([*NVIDIA, "nnodes=2", "nproc=8"], 2, 16, id="two nodes"),
        pytest.param(["nproc=2"], 1, 2, id="tiny"),
        pytest.param(["nproc=2", TP], 2, 1, id="tiny, of which two share a sequence"),
    ],
)
def test_they_follow_from_the_global_batch(overrides: list[str], micro_steps: int, data_ranks: int) -> None:
    job = compose([*LLAMA, *overrides])
    assert (job.gradient_accumulation_steps, job.mesh.data_ranks) == (micro_steps, data_ranks)
    assert job.config["gradient_accumulation_steps"] == micro_steps
    assert job.train_batch_size * micro_steps * data_ranks == job.config["global_batch_size"]
    assert "gradient_accumulation_steps" not in [change.key for change in job.changes if change.source != "tuning"]


def test_no_number_of_them_fits() -> None:
    assert message([*LLAMA, "size=full", "nproc=3"]) == lines(
        "no number of micro steps gives the required samples of a step",
        where=str(CONF / "model/llama3_8b.yaml"),
        key="global_batch_size",
        given="32",
        allowed="a multiple of train_batch_size x data ranks: 1 x 3 = 3",
        do="change train_batch_size, the number of ranks, or the mesh of parallel",
    )
