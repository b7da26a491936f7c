"""A job held against what FlagPerf publishes of its case."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jobs_of import JOB, job

from flagperf.compare.jobs import compare
from flagperf.compare.published import pair_published
from flagperf.config.files.search_path import CONF
from flagperf.errors import ConfigError

FILES = sorted((CONF / "published").glob("*.yaml"))
TF32 = {"precision": "tf32", "train_batch_size": 256, "lr": 0.8}


def test_a_run_against_the_published_figures() -> None:
    """Three rounds of 2x8: p_train is known of both; how rounds vary, of ours alone, which decides nothing."""
    (pair,) = pair_published([job("mine", [11000, 11100, 11200], config=TF32)]).pairs
    found = compare(*pair, margin=0.01)
    (figure,) = found.figures
    shown = (found.base_name, figure.name, figure.base.mean, figure.word, round(figure.estimate.ratio, 3))
    assert shown == ("published/resnet50-A100x2x8", "p_train", 11085, "undecided", 1.001)
    assert (figure.estimate.low, figure.estimate.method) == (None, "one round")
    assert ("device", "NVIDIA DGX A100 (40 GB)", "None") in found.differs
    assert ("version of torch", "1.8", "2.14") in found.differs


@pytest.mark.parametrize(
    ("config", "p_train"),
    [
        pytest.param({"nnodes": 1, "precision": "tf32", "train_batch_size": 32}, 4586, id="the case's batch"),
        pytest.param({"nnodes": 1, **TF32}, 5866, id="another batch"),
        pytest.param({"nnodes": 1, "precision": "amp_bf16", "train_batch_size": 32}, 8550, id="precision before batch"),
        pytest.param({"nnodes": 1, "nproc": 1, **TF32}, 795, id="one device"),
    ],
)
def test_the_nearest_row(config: dict[str, object], p_train: float) -> None:
    ((base, _),) = pair_published([job("mine", config=config)]).pairs
    assert base.summary.statistics["p_train"].mean == p_train


def test_a_reduced_case_is_refused() -> None:
    (pair,) = pair_published([job("mine", config={**TF32, "size": "tiny"})]).pairs
    with pytest.raises(ConfigError, match="these jobs do not compare: a reduced case says nothing of the full case"):
        compare(*pair, margin=0.01)


def test_what_nothing_is_published_of() -> None:
    jobs = [
        job("mine", config=TF32),
        job("four", config={**TF32, "nnodes": 1, "nproc": 4}),
        job("own", config={"case": "x"}),
    ]
    assert pair_published(jobs).unpaired == (f"four/{JOB}", f"own/{JOB}")
    with pytest.raises(ConfigError) as caught:
        pair_published(jobs[1:])
    assert str(caught.value).startswith(
        "FlagPerf publishes nothing that compares with this\n  where:   command line\n"
        f"  given:   four/{JOB}, own/{JOB}\n  allowed: jobs at 1x1, 1x8 and 2x8 of bert, bigtransfer, "
    )


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_published_figures_are_those_of_the_case(path: Path) -> None:
    """Names that our results have, too; and products that we know."""
    known = yaml.safe_load(path.read_text(encoding="utf-8"))
    goal = yaml.safe_load((CONF / "model" / path.name).read_text(encoding="utf-8"))["target"]
    figures = {"e2e_time", "p_whole", "p_train", "p_core", goal["metric"], *goal.get("also", {})}
    settings = {"config", "precision", "train_batch_size", "lr", "memory"}
    assert {name for row in known["results"] for name in row} <= figures | settings
    assert set(known["compares"]) <= figures
    assert all((CONF / "hardware" / f"{row['config'].split('x')[0]}.yaml").is_file() for row in known["results"])
