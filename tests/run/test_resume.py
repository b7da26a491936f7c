"""`resume=` finds the checkpoints of round 1 of the same case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from example import example_job
from refusals import lines

from flagperf.config.schema.values import JobConfig
from flagperf.contract.digest import sha256_of
from flagperf.errors import ConfigError
from flagperf.plan.plan import make_plan
from flagperf.run.resume import check_resumed, needed_files, with_checkpoints


def test_nothing_to_resume() -> None:
    job = example_job()
    assert with_checkpoints(job, 1) is job


@pytest.mark.parametrize(
    ("repeat_seed", "number", "expected"),
    [
        pytest.param("own", 1, "round1", id="the first round"),
        pytest.param("own", 2, "round2", id="a later round: that with its seed"),
        pytest.param("own", 3, None, id="a round that the earlier run did not get to begins anew"),
        pytest.param("same", 3, "round1", id="one seed: always the first"),
    ],
)
def test_found(tmp_path: Path, repeat_seed: str, number: int, expected: str | None) -> None:
    case = tmp_path / "sums-pytorch-cpux1x2"
    for name in ("round1", "round2"):
        (case / name / "checkpoint").mkdir(parents=True)
        (case / name / "checkpoint" / "step000000010.pt").touch()
    job = with_checkpoints(example_job(config={"resume": str(tmp_path), "repeat_seed": repeat_seed}), number)
    assert job.resume == (str(case / expected / "checkpoint") if expected else None)
    assert make_plan(job, number, tmp_path).config["resume"] == job.resume


def test_one_of_several_jobs_begins_anew(tmp_path: Path) -> None:
    """The run was broken off before it left a checkpoint of this job."""
    for name in ("sums-pytorch-cpux1x2", "other-pytorch-cpux1x2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()
    assert with_checkpoints(example_job(config={"resume": str(tmp_path)}), 1).resume is None


def refusal_of(job: JobConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        check_resumed([job])
    return str(caught.value)


def test_no_run_is_refused(tmp_path: Path) -> None:
    assert refusal_of(example_job(config={"resume": str(tmp_path / "none")})) == lines(
        "there is no run to resume",
        where="command line",
        key="resume",
        given=str(tmp_path / "none"),
        allowed="the folder of a run, such as result/run20260101-120000",
        do="flagperf list runs shows them",
    )


NETWORK = {"_target_": "sums.Network", "eps": 0.2}
SGD = {"optimizer": {"_target_": "torch.optim.SGD", "lr": 0.1}, "lr": 0.1, "network": NETWORK, "division": "open"}
ANEW = "start again without resume"
OTHERS = {
    "optimizer.lr": ({**SGD["optimizer"], "lr": 0.2}, "0.2", "0.1", f"{ANEW}, to train with another recipe"),
    "network.eps": ({**NETWORK, "eps": 0.1}, "0.1", "0.2", ANEW),
    "division": ("closed", "closed", "'open'", f"resume with division=open, or {ANEW}"),
}


def test_another_training_is_refused(tmp_path: Path) -> None:
    """By the configuration of the earlier run, before this one has a folder."""
    round1 = tmp_path / "sums-pytorch-cpux1x2" / "round1"
    (round1 / "checkpoint").mkdir(parents=True)
    (round1 / "checkpoint" / "step000000010.pt").touch()
    (round1 / "config.yaml").write_text(yaml.safe_dump({**example_job().config, **SGD, "seed": 8}))
    same = example_job(config={"resume": str(tmp_path), **SGD})
    check_resumed([same])
    for key, (value, given, allowed, advice) in OTHERS.items():
        part = key.partition(".")[0]
        assert refusal_of(example_job(config={"resume": str(tmp_path), **SGD, part: value})) == lines(
            "the checkpoint belongs to another training",
            where=str(round1 / "config.yaml"),
            key=key,
            given=given,
            allowed=allowed,
            do=advice,
        )
    text = refusal_of(replace(same, strategy="flagperf.trainer.pytorch.parallel.Sharded"))
    assert text.startswith("the checkpoint was written by another strategy\n")


def test_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other-pytorch-cpux1x2" / "round1" / "checkpoint").mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        with_checkpoints(example_job(config={"resume": str(tmp_path)}), 1)
    assert str(caught.value) == (
        "there is no checkpoint of sums-pytorch-cpux1x2 to resume from\n"
        "  where:   command line\n"
        "  key:     resume\n"
        f"  given:   {tmp_path}\n"
        "  allowed: a run folder; checkpoints there: other-pytorch-cpux1x2\n"
        "  do:      set checkpoint_freq in a run that is to be resumed later"
    )


@pytest.mark.parametrize("form", ["step000000020.pt", "step000000020.dcp"])
@pytest.mark.parametrize("state", ["intact", "damaged", "without a hash"])
def test_other_hosts_get_the_newest_checkpoint_only_if_it_is_intact(tmp_path: Path, form: str, state: str) -> None:
    """Where it is damaged, the ranks use the one before."""
    newest = tmp_path / form
    file = newest / "rank0" if form.endswith(".dcp") else newest
    file.parent.mkdir(exist_ok=True)
    file.write_text("weights")
    for name in ("step000000010.pt", "step000000010.pt.sha256"):
        (tmp_path / name).touch()
    lines = [tmp_path / f"{form}.sha256"]
    lines[0].write_text(f"{sha256_of(file)}  {file.relative_to(tmp_path)}\n")
    if state == "damaged":
        file.write_text("Weights")
    if state == "without a hash":
        lines.pop().unlink()
    whole = [tmp_path / "step000000010.pt", tmp_path / "step000000010.pt.sha256", newest, *lines]
    assert needed_files(tmp_path) == ([newest, *lines] if state == "intact" else whole)
