"""Run folders, the files of a case in them, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from example import example_job

from flagperf.contract.records import Change
from flagperf.errors import ConfigError, ResultsError
from flagperf.plan.plan import make_plan
from flagperf.run import folder as run_folder


def test_a_folder_is_named_after_the_time_and_never_shared(tmp_path: Path) -> None:
    job = example_job(config={"result_dir": str(tmp_path / "deep" / "result")})
    folders = [run_folder.create(job) for _ in range(3)]
    assert len(set(folders)) == 3
    assert all(folder.is_dir() and folder.name.startswith("run2") for folder in folders)


def test_a_folder_is_named_as_asked(tmp_path: Path) -> None:
    job = example_job(config={"result_dir": str(tmp_path), "run_name": "mine"})
    assert run_folder.create(job) == tmp_path / "mine"


def _taken(path: Path) -> None:
    (path / "mine").mkdir()


def _file_in_place_of_run(path: Path) -> None:
    (path / "mine").touch()


def _file_in_place_of_result(path: Path) -> None:
    path.rmdir()
    path.touch()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        pytest.param(
            _taken,
            "a run folder of this name exists already\n  where:   command line\n  key:     run_name\n"
            "  given:   {result}/mine\n  do:      choose another run_name or result_dir",
            id="taken",
        ),
        pytest.param(
            _file_in_place_of_run,
            "a file has the name of this folder\n  where:   command line\n  key:     run_name\n"
            "  given:   {result}/mine\n  do:      choose another run_name or result_dir",
            id="a file in the run's place",
        ),
        pytest.param(
            _file_in_place_of_result,
            "a file has the name of this folder\n  where:   command line\n  key:     run_name\n"
            "  given:   {result}\n  do:      choose another run_name or result_dir",
            id="a file in the result folder's place",
        ),
    ],
)
def test_refused(tmp_path: Path, prepare: Callable[[Path], None], message: str) -> None:
    result = tmp_path / "result"
    result.mkdir()
    prepare(result)
    with pytest.raises(ConfigError) as caught:
        run_folder.create(example_job(config={"result_dir": str(result), "run_name": "mine"}))
    assert str(caught.value) == message.format(result=result)


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^the result folder cannot be made: ") as caught:
        run_folder.create(example_job(config={"result_dir": "/proc/result"}))  # also root cannot
    assert caught.value.key == "result_dir"


def test_files_of_a_case(tmp_path: Path) -> None:
    job = example_job(changes=(Change("lr", 0.1, 0.2, "command line"),))
    plan = make_plan(job, 2, folder=tmp_path)
    run_folder.write_case(job, plan, tmp_path)
    case = tmp_path / "sums-pytorch-cpux1x2"
    assert yaml.safe_load((case / "config.yaml").read_text()) == job.config
    of_round = (case / "round2/config.yaml").read_text()
    assert of_round.startswith(f"# python -m flagperf.trainer {case}/round2/config.yaml\n")
    assert yaml.safe_load(of_round) == {**job.config, "seed": 8}
    assert yaml.safe_load((case / "changes.yaml").read_text()) == [
        {"key": "lr", "before": 0.1, "after": 0.2, "source": "command line"}
    ]
    written = json.loads((case / "round2/plan.json").read_text())
    assert (written["config"], written["seed"]) == ("config.yaml", 8)
    assert written["nodes"][0]["launch"]["argv"] == list(plan.nodes[0].launch.argv)


def _removed(folder: Path) -> None:
    shutil.rmtree(folder)


def _replaced(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


def _immutable(folder: Path) -> None:
    if subprocess.run(["chattr", "+i", folder], capture_output=True).returncode:
        pytest.skip("needs a file system with attributes")


GONE = {
    "removed": (_removed, "No such file or directory"),
    "replaced by a file": (_replaced, "Not a directory"),
    "immutable": (_immutable, "Operation not permitted"),
}


@pytest.mark.parametrize(("happens", "why"), GONE.values(), ids=GONE.keys())
def test_a_folder_that_cannot_be_written_any_more(happens: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    job = example_job(config={"result_dir": str(tmp_path), "run_name": "run"})
    folder = run_folder.create(job)
    try:
        with pytest.raises(ResultsError) as caught, run_folder.held(folder):
            happens(folder)
            run_folder.write_configuration(job, folder / job.name)
    finally:
        subprocess.run(["chattr", "-i", folder], capture_output=True)
    assert (caught.value.exit_code, str(caught.value)) == (
        3,
        "results cannot be written any more; files that were written before stay\n"
        f"  where:   {folder}/{job.name}\n  given:   {why}\n"
        "  do:      solve this problem, or give the command again with another result_dir",
    )
