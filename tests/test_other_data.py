"""Other data than the case's, as a hostile user would try it: real JPEG files, real full-size cases on this CPU."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from flagperf.cli.main import run_command

FULL = ("model=mobilenetv2", "size=full", "num_workers=0", "train_batch_size=4", "eval_batch_size=8")
OTHER = "16 of 1,281,167 training images, 8 of 50,000 evaluation images, 2 of 1,000 classes"

pytestmark = pytest.mark.torch


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixteen photos to train and eight to evaluate, in ImageNet's layout."""
    monkeypatch.chdir(tmp_path)
    for split, count in (("train", 16), ("val", 8)):
        for number in range(count):
            path = tmp_path / "photos" / split / f"n0000{number % 2}" / f"{split}{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (64, 48), (10 * number, 100, 200 if split == "val" else 50)).save(path)
    return tmp_path / "photos"


def result() -> dict[str, Any]:
    (path,) = Path().glob("result/run*/*/round1/result.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


@pytest.mark.slow
def test_sixteen_photos_are_no_imagenet(photos: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The target is one that any network reaches at once; nothing is claimed all the same."""
    easy = ("division=open", "target.value=0", "eval_interval_steps=1", "max_steps=2")
    assert run_command([*FULL, *easy, f"data_dir={photos}"]) == 0
    found = result()
    assert (found["verdict"], found["reasons"]) == ("SUSPECT", [f"not the data of the case: {OTHER}"])
    assert (found["target_reached"], found["other_data"]) == (None, OTHER)
    values = found["values"]
    assert (values["stop_reason"], values["converged"], values["target"]) == ("max_steps", False, None)
    assert found["built"]["data"] == {"train": 16, "eval": 8, "classes": 2}
    assert values["ranks"][0]["data_files"] == 24
    report = next(Path().glob("result/run*/report.md")).read_text()
    digest = values["ranks"][0]["data_fingerprint"]
    assert f"\nData: 16 images to train, 8 to evaluate, 2 classes, 24 files, fingerprint {digest}\n" in report
    assert "| does not apply: other data |" in report
    assert OTHER in " ".join(capfd.readouterr().out.split())


@pytest.mark.slow
def test_data_check_and_doctor_say_so_before(photos: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = f"not the data of the case: {OTHER}; a run on it is SUSPECT and claims no target"
    assert run_command(["data", "check", "model=mobilenetv2", f"data_dir={photos}"]) == 0
    assert said in capfd.readouterr().out.splitlines()
    flagperf = Path(sys.executable).with_name("flagperf")
    done = subprocess.run(
        [flagperf, "doctor", *FULL, f"data_dir={photos}"], capture_output=True, text=True, check=False
    )
    assert f"{photos}: {said}" in done.stdout


def copied(photos: Path) -> None:
    shutil.rmtree(photos / "train")
    shutil.copytree(photos / "val", photos / "train")


def linked(photos: Path) -> None:
    shutil.rmtree(photos / "train")
    (photos / "train").symlink_to("val")


@pytest.mark.parametrize(
    ("change", "overrides"),
    [
        pytest.param(lambda photos: None, ["train_path=val"], id="train_path=val"),  # noqa: ARG005
        pytest.param(linked, [], id="a link"),
    ],
)
def test_training_on_the_evaluation_data_is_refused(
    change: Callable[[Path], None], overrides: list[str], photos: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    change(photos)
    assert run_command([*FULL, "max_steps=1", f"data_dir={photos}", *overrides]) == 2
    err = capfd.readouterr().err
    assert "training and evaluation use the same data" in err
    assert f"given:   {photos}/{'val' if overrides else 'train'} and {photos}/val are the same" in err
    assert not list(Path().glob("result/run*/*/round1/*/rank*.out.log"))


def test_a_copy_of_the_evaluation_data_is_found_by_data_check(photos: Path, capfd: pytest.CaptureFixture[str]) -> None:
    copied(photos)
    assert run_command(["data", "check", "model=mobilenetv2", f"data_dir={photos}"]) == 2
    assert "8 of 8 evaluation files are in the training data, such as" in capfd.readouterr().err
