"""Sample data is built once, whole or not at all, and only where it belongs."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import toy

from flagperf.contract.sample_data import MARKER, is_sample_data, sample_name
from flagperf.errors import ConfigError
from flagperf.trainer.data.sample_data import build_sample_data, ensure_sample_data


def write(folder: str, fail: bool = False) -> None:
    """A writer that takes its time and notes every call."""
    (Path(folder) / "a").write_text("half")
    with (Path(folder).parent / "calls").open("a") as calls:
        calls.write("x")
    time.sleep(0.2)
    if fail:
        raise ConfigError("cannot write")
    (Path(folder) / "a").write_text("whole")


def config(parent: Path, name: str = "", **arguments: Any) -> dict[str, Any]:
    """Of a training whose data_dir is the place for its sample data, unless it has another name."""
    sample = {"_target_": "test_sample_data.write", **arguments}
    return {"case": "toy", "data_dir": str(parent / (name or sample_name("toy", sample))), "data": {"sample": sample}}


def built(training: dict[str, Any], _: Path) -> None:
    ensure_sample_data(training)


def test_many_ranks_build_once(tmp_path: Path) -> None:
    training = config(tmp_path / "deep")
    folder = Path(training["data_dir"])
    toy.fork_ranks(partial(built, training), tmp_path, ranks=4)
    assert (folder / "a").read_text() == "whole"
    assert (folder.parent / "calls").read_text() == "x"
    assert is_sample_data(str(folder))
    marker = json.loads((folder / MARKER).read_text())
    assert marker == {"case": "toy", "sample": training["data"]["sample"]}


def test_a_failed_writer_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    training = config(tmp_path, fail=True)
    with pytest.raises(ConfigError, match="cannot write"):
        ensure_sample_data(training)
    assert not Path(training["data_dir"]).exists()
    training = config(tmp_path)
    ensure_sample_data(training)
    assert is_sample_data(training["data_dir"])


ELSEWHERE = {
    "a user's folder": "toy-2020",
    "another case's": sample_name("glm", {"_target_": "test_sample_data.write"}),
    "what the writer was asked for before": sample_name("toy", {"_target_": "test_sample_data.write", "count": 3}),
}


@pytest.mark.parametrize("name", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_folder_that_a_user_named_is_never_filled(name: str, tmp_path: Path) -> None:
    ensure_sample_data(config(tmp_path, name))
    assert list(tmp_path.iterdir()) == []


def test_cases_without(tmp_path: Path) -> None:
    ensure_sample_data({"case": "toy", "data_dir": None})
    ensure_sample_data({"case": "toy", "data_dir": str(tmp_path / "toy-0123456789ab"), "data": {"name": "x"}})
    assert list(tmp_path.iterdir()) == []
    assert not is_sample_data(None)


def test_where_the_user_asks_for_it(tmp_path: Path) -> None:
    build_sample_data(config(tmp_path, "mine"), tmp_path / "mine")
    assert is_sample_data(str(tmp_path / "mine"))
