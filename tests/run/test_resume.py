"""`resume=` finds the checkpoints of round 1 of the same case."""

from __future__ import annotations

from pathlib import Path

import pytest
from example import example_run

from flagperf.errors import ConfigError
from flagperf.run.resume import with_checkpoints


def test_nothing_to_resume() -> None:
    run = example_run()
    assert with_checkpoints(run) is run


def test_found(tmp_path: Path) -> None:
    folder = tmp_path / "sums-pytorch-cpux1x2" / "round1" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "step000000010.pt").touch()
    run = with_checkpoints(example_run(config={"resume": str(tmp_path)}))
    assert run.resume == str(folder)


def test_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other-pytorch-cpux1x2" / "round1" / "checkpoint").mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        with_checkpoints(example_run(config={"resume": str(tmp_path)}))
    assert str(caught.value) == (
        "there is no checkpoint of sums-pytorch-cpux1x2 to resume from\n"
        "  where:   command line\n"
        "  key:     resume\n"
        f"  given:   {tmp_path}\n"
        "  allowed: a run folder; checkpoints there: other-pytorch-cpux1x2\n"
        "  do:      set checkpoint_freq in a run that is to be resumed later"
    )
