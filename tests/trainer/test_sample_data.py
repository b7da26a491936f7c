"""Sample data is built once, whole or not at all, and only where it belongs."""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest

from flagperf.errors import ConfigError
from flagperf.trainer.sample_data import MARKER, build_sample_data, ensure_sample_data, is_sample_data


def write(folder: str, fail: bool = False) -> None:
    """A writer that takes its time and notes every call."""
    (Path(folder) / "a").write_text("half")
    with (Path(folder).parent / "calls").open("a") as calls:
        calls.write("x")
    time.sleep(0.2)
    if fail:
        raise ConfigError("cannot write")
    (Path(folder) / "a").write_text("whole")


def config(folder: Path, **arguments: Any) -> dict[str, Any]:
    sample = {"_target_": "test_sample_data.write", **arguments}
    return {"case": "toy", "data_dir": str(folder), "data": {"sample": sample}}


def test_many_ranks_build_once(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "toy-0123456789ab"
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=ensure_sample_data, args=(config(folder),)) for _ in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * 4
    assert (folder / "a").read_text() == "whole"
    assert (folder.parent / "calls").read_text() == "x"
    assert is_sample_data(str(folder))
    marker = json.loads((folder / MARKER).read_text())
    assert marker == {"case": "toy", "sample": config(folder)["data"]["sample"]}


def test_a_failed_writer_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    folder = tmp_path / "toy-0123456789ab"
    with pytest.raises(ConfigError, match="cannot write"):
        ensure_sample_data(config(folder, fail=True))
    assert not folder.exists()
    ensure_sample_data(config(folder))
    assert is_sample_data(str(folder))


ELSEWHERE = {"a user's folder": "glm-2020", "another case's": "glm-0123456789ab", "no digest": "toy-data"}


@pytest.mark.parametrize("name", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_folder_that_a_user_named_is_never_filled(name: str, tmp_path: Path) -> None:
    ensure_sample_data(config(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_cases_without(tmp_path: Path) -> None:
    ensure_sample_data({"case": "toy", "data_dir": None})
    ensure_sample_data({"case": "toy", "data_dir": str(tmp_path / "toy-0123456789ab"), "data": {"name": "x"}})
    assert list(tmp_path.iterdir()) == []
    assert not is_sample_data(None)


def test_where_the_user_asks_for_it(tmp_path: Path) -> None:
    build_sample_data(config(tmp_path / "mine"), tmp_path / "mine")
    assert is_sample_data(str(tmp_path / "mine"))
