"""Golden curves of your own, from runs: the file that `flagperf align` takes, and each refusal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from refusals import lines

from cases.golden_of_runs import Trained, text
from flagperf.cli.align import job_of
from flagperf.compare.golden import identity_of
from flagperf.config.compose import compose
from flagperf.contract.golden import Golden, read
from flagperf.contract.perflog import Event
from flagperf.errors import ConfigError

STEPS = ("max_steps=2", "division=open", "target=null", "log_freq=1", "seed=3", "random_numbers=host")
FULL = ("size=full", "data_dir=/data/glm", "vendor=nvidia", "hardware=A100", "nproc=1")  # a tuning sets the batch


def run(folder: Path, *words: str, losses: Sequence[float] = (2.0, 1.0)) -> Path:
    """The folder of a run of glm whose rank logged these losses."""
    config = compose(["model=glm", "precision=fp32", *STEPS, *words]).config
    steps = [Event("STEP_END", {"step": n, "loss": loss, "grad_norm": loss}) for n, loss in enumerate(losses, 1)]
    log = folder / "glm/round1/vm_noderank0/rank0.out.log"
    log.parent.mkdir(parents=True)
    events = [Event("SUBMIT_INFO", {"config": config}), *steps, Event("FINISHED", {})]
    log.write_text("".join(f"{event.line()}\n" for event in events), encoding="utf-8")
    return folder


def written(folder: Path, *runs: Path) -> Golden:
    """The curve that the program writes of these runs."""
    path = folder / "mine.yaml"
    path.write_text(text(*_trained(runs)), encoding="utf-8")
    (golden,) = read(path)
    return golden


def _trained(runs: Sequence[Path]) -> tuple[Trained, list[Trained]]:
    reference, *others = map(Trained.of, runs)
    return reference, others


def test_the_curve_and_its_bands(tmp_path: Path) -> None:
    reference = run(tmp_path / "a", "lr=0.002")
    other = run(tmp_path / "b", "lr=0.002", "activation_checkpointing=true", losses=(2.0, 1.01))
    rounded = run(tmp_path / "c", "lr=0.002", "precision=amp_bf16", losses=(2.2, 1.1))
    golden = written(tmp_path, reference, other, rounded)
    assert (golden.case, golden.curve.loss, golden.overrides[-1]) == ("glm", (2.0, 1.0), "lr=0.002")
    widths = {precision: band.loss for precision, band in golden.bands.items()}
    assert widths == {"fp32": pytest.approx([1e-5, 0.1], rel=1e-2), "amp_bf16": pytest.approx([2, 2], rel=1e-2)}


def test_a_curve_of_the_full_size_is_checked_on_another_vendor_whose_data_lies_elsewhere(tmp_path: Path) -> None:
    golden = written(tmp_path, run(tmp_path / "a", *FULL), run(tmp_path / "b", *FULL))
    words = ["model=glm", "precision=fp32", "vendor=iluvatar", "hardware=BI-V100"]
    job = job_of(golden, [*words, "data_dir=/mnt/glm"], [])
    assert (job.config["data_dir"], job.config["train_batch_size"], job.config["size"]) == ("/mnt/glm", 16, "full")
    assert identity_of(job.config) == golden.identity


REFUSED: dict[str, tuple[dict[str, str], tuple[float, ...], str]] = {
    "another learning rate": (
        {"lr": "0.01"},
        (2.0, 1.0),
        lines(
            "this run computes something else than the reference",
            where="{b}",
            key="optimizer.lr",
            given="0.01",
            allowed="0.003, as {a}",
        ),
    ),
    "not each step": (
        {},
        (2.0,),
        lines(
            "a curve needs the loss of each step",
            where="{b}",
            key="log_freq",
            given="1 of 2 steps",
            do="run it with log_freq=1 target=null division=open, until max_steps",
        ),
    ),
}


@pytest.mark.parametrize(("words", "losses", "refusal"), REFUSED.values(), ids=REFUSED.keys())
def test_another_run_is_refused(tmp_path: Path, words: dict[str, str], losses: tuple[float, ...], refusal: str) -> None:
    runs = [run(tmp_path / "a"), run(tmp_path / "b", *(f"{k}={v}" for k, v in words.items()), losses=losses)]
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, *runs)
    assert str(caught.value) == refusal.format(a=tmp_path / "a", b=tmp_path / "b")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this is no folder of a run with one job"):
        Trained.of(tmp_path)
