"""`flagperf data`: real writers in processes of their own; what goes wrong leaves the folder as it was."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from flagperf_command import FLAGPERF
from PIL import Image
from user_folder import SAMPLE, TOY, write

from flagperf.cli.data import compose_case
from flagperf.cli.main import run_command

pytestmark = pytest.mark.long

WRITER = """\
import logging, os, time
from flagperf.errors import ConfigError

log = logging.getLogger(__name__)

def read(path):
    try:
        return [int(line) for line in open(path)]
    except ValueError as error:
        raise ConfigError("not numbers", where=path, given=str(error))

def write(folder, count):
    with open(f"{folder}/numbers.txt", "w") as file:
        file.writelines(f"{number}\\n" for number in range(count))

def convert(source, folder, fail=None):
    log.info("reading %s", source.name)
    (folder / "notes").mkdir()
    (folder / "notes" / "new.txt").write_text("new")
    (folder / "numbers.txt").write_text(source.read_text().replace(",", "\\n"))
    if fail == "refuse":
        raise ConfigError("not numbers", where=str(source))
    if fail == "crash":
        raise RuntimeError("a bug")
    if fail == "hang":
        source.with_name("pid").write_text(str(os.getpid()))
        time.sleep(60)
"""
PREPARE = "  prepare: {_target_: shelf.convert, fail: %s}\n"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with cases of their own: `toy`, and `raw`, whose original data is converted."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "shelf.py").write_text(WRITER)
    (tmp_path / "original.csv").write_text("1,2,3")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))
    monkeypatch.chdir(tmp_path)
    toy = TOY.replace("cases.toy.read", "shelf.read") + SAMPLE.replace("cases.toy.write", "shelf.write")
    cases = {f"model/raw_{fail}": toy.replace("case: toy", f"case: raw_{fail}") + PREPARE % fail for fail in FAILURES}
    half = (
        cases["model/raw_null"].replace("raw_null", "half").replace("numbers: numbers.txt", "train_path: numbers.txt")
    )
    cases["model/half"] = half.replace("${numbers}", "${train_path}").replace("}: 1}", "}: 1, weights.pt: 1}")
    return write(tmp_path / "bench", {"model/toy": toy, "model/bare": TOY.replace("case: toy", "case: bare"), **cases})


FAILURES = ("null", "refuse", "crash", "hang")


def data(*overrides: str) -> int:
    return run_command(["--config-dir", "bench", "data", *overrides])


def files(folder: Path) -> dict[str, str]:
    """Everything below a folder: path → text."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(paths)}


# ---------------------------------------------------------------- check


@pytest.mark.torch
def test_check_counts_what_the_case_requires_and_reads_it(bench: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (bench / "numbers.txt").write_text("1\n2\n3\n")
    assert data("check", "model=toy", "data_dir=bench") == 0
    assert capfd.readouterr().out == (
        f"in {bench}:\n           1  numbers.txt\n"
        "           3  samples of train_data; the first one can be read\n"
        "           3  samples of eval_data; the first one can be read\n"
    )


@pytest.mark.slow
@pytest.mark.torch
def test_check_of_splits_with_different_classes(bench: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number, name in enumerate(("train/cat/1", "train/dog/2", "val/dog/3")):
        path = bench.parent / "images" / f"{name}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 10), (100 * number, 0, 0)).save(path)
    assert data("check", "model=resnet50", "data_dir=images") == 2
    out, err = capfd.readouterr()
    assert out.startswith(f"in {Path.cwd()}/images:\n           2  train/*/*\n           1  val/*/*\n")
    assert err.startswith("flagperf: training and evaluation data have different classes\n")


@pytest.mark.torch
def test_check_of_data_that_cannot_be_read(bench: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (bench / "numbers.txt").write_text("1\ntwo\n")
    assert data("check", "model=toy", "data_dir=bench") == 2
    out, err = capfd.readouterr()
    assert out == f"in {bench}:\n           1  numbers.txt\n"
    assert err == (
        f"flagperf: not numbers\n  where:   {bench}/numbers.txt\n"
        "  given:   invalid literal for int() with base 10: 'two\\n'\n"
        "flagperf: the data cannot be read, for the reason above\n"
        f"  where:   command line\n  key:     data_dir\n  given:   {bench}\n"
    )


def test_check_where_nothing_can_be_read(
    bench: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launcher without PyTorch counts; it is no fault of the data that it cannot be opened there."""
    monkeypatch.setattr("flagperf.cli.data.find_spec", lambda _: None)
    (bench / "numbers.txt").write_text("1\n")
    assert data("check", "model=toy", "data_dir=bench") == 0
    out = capfd.readouterr().out.splitlines()
    assert out[1:] == [
        "           1  numbers.txt",
        "not opened: no PyTorch here; runtime.python=PATH names a Python that has it",
    ]


def test_check_of_a_wrong_folder_shows_the_tree(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data("check", "model=toy", "data_dir=bench") == 2
    out, err = capsys.readouterr()
    assert out == f"in {bench}:\n           0  numbers.txt    MISSING: at least 1\n"
    assert err == (
        "flagperf: data_dir has 0 of at least 1 entries that match numbers.txt\n"
        f"  where:   command line\n  key:     data_dir\n  given:   {bench}\n"
        "  allowed: the numbers, laid out as\n    <data_dir>/\n    └── numbers.txt\n"
    )


# ---------------------------------------------------------------- sample


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "empty folder"])
def test_sample_data_is_written_where_the_user_says(
    bench: Path, there: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = bench.parent / "deep" / "mine"
    if there:
        folder.mkdir(parents=True)
    assert data("sample", "model=toy", f"data_dir={folder}") == 0
    written = files(folder)
    assert '"case": "toy"' in written.pop(".flagperf-sample.json")
    assert written == {"numbers.txt": "".join(f"{number}\n" for number in range(10))}
    assert capfd.readouterr().out == f"in {folder}:\n           1  numbers.txt\n"


def test_the_size_decides_which_sample(bench: Path) -> None:
    write(bench, {"size/tiny/toy": "# @package _global_\ndata: {sample: {count: 2}}\n"})
    for size, numbers in (("tiny", 2), ("full", 10)):
        assert data("sample", "model=toy", f"size={size}", f"data_dir={size}") == 0
        assert len(Path(size, "numbers.txt").read_text().splitlines()) == numbers
    assert data("sample", "model=toy", "data_dir=unsaid") == 0
    assert files(Path("unsaid")) == files(Path("tiny"))


# ---------------------------------------------------------------- prepare


def test_original_data_is_converted_beside_what_is_there(bench: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (bench.parent / "mine" / "notes").mkdir(parents=True)
    (bench.parent / "mine" / "notes" / "old.txt").write_text("old")
    assert data("prepare", "model=raw_null", "source=original.csv", "data_dir=mine") == 0
    assert files(Path("mine")) == {"notes/new.txt": "new", "notes/old.txt": "old", "numbers.txt": "1\n2\n3"}
    out, err = capfd.readouterr()
    assert out == f"in {Path.cwd()}/mine:\n           1  numbers.txt\n"
    assert err.endswith(" reading original.csv\n")


def test_how_data_is_converted_may_be_said_without_an_open_division(tmp_path: Path) -> None:
    """No result comes of it."""
    job = compose_case("prepare", ["model=bert", f"data_dir={tmp_path}", "data.prepare.processes=3"], [])
    assert job.config["data"]["prepare"]["processes"] == 3


def test_no_file_is_overwritten(bench: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = bench.parent / "mine" / "notes" / "new.txt"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    assert data("prepare", "model=raw_null", "source=original.csv", "data_dir=mine") == 2
    assert capfd.readouterr().err.endswith(
        "flagperf: files would be overwritten; data_dir did not change\n"
        f"  where:   command line\n  key:     data_dir\n  given:   {path}\n"
        "  do:      choose another data_dir, or move these away\n"
    )
    assert files(Path("mine")) == {"notes/new.txt": "mine"}
    assert list(Path("mine").iterdir()) == [Path("mine/notes")]


@pytest.mark.parametrize(
    ("fail", "code", "said"),
    [
        pytest.param(
            "refuse",
            2,
            "flagperf: not numbers\n  where:   {0}/original.csv\n"
            "flagperf: nothing was written, for the reason above\n"
            "  where:   command line\n  key:     data_dir\n  given:   {0}/mine\n",
            id="a source that is no source",
        ),
        pytest.param(
            "crash",
            5,
            "RuntimeError: a bug\nflagperf: nothing was written: the code of the case ended with exit status 1\n",
            id="a bug in the converter",
        ),
    ],
)
def test_a_conversion_that_fails_leaves_nothing(
    bench: Path, fail: str, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert data("prepare", f"model=raw_{fail}", "source=original.csv", "data_dir=mine") == code
    assert capfd.readouterr().err.endswith(said.format(bench.parent))
    assert not Path("mine").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_an_interrupt_ends_the_writer(bench: Path, sent: signal.Signals) -> None:
    argv = ["--config-dir", "bench", "data", "prepare", "model=raw_hang", "source=original.csv", "data_dir=mine"]
    launcher = subprocess.Popen([*FLAGPERF, *argv], stderr=subprocess.PIPE, text=True)
    pid = bench.parent / "pid"
    while not pid.exists() or not pid.read_text():
        assert launcher.poll() is None
        time.sleep(0.05)
    launcher.send_signal(sent)
    _, said = launcher.communicate(timeout=20)
    ended = time.monotonic() + 10
    while Path("/proc", pid.read_text()).exists():
        assert time.monotonic() < ended
        time.sleep(0.05)
    if sent != signal.SIGKILL:  # which leaves nobody to tidy up
        assert launcher.returncode == 130
        assert said.endswith("flagperf: interrupted; data_dir did not change\n")
        assert not Path("mine").exists()


# ---------------------------------------------------------------- refusals


REFUSALS = {
    "no action": ([], "data needs an action first", "do:      flagperf data check|sample|prepare model=NAME"),
    "a wrong action": (["sampel", "model=toy"], "data needs an action first", "allowed: did you mean 'sample'?"),
    "no folder": (["check", "model=toy"], "the folder of the data is missing", "do:      flagperf data check"),
    "no sample data": (["sample", "model=bare", "data_dir=x"], "the case has no sample data", "key:     data.sample"),
    "a full folder": (["sample", "model=toy", "data_dir=bench"], "the folder is not empty", "given:   {0}/bench"),
    "a file": (["sample", "model=toy", "data_dir=original.csv"], "a file has the name of this folder", "original.csv"),
    "no conversion": (
        ["prepare", "model=toy", "source=original.csv", "data_dir=x"],
        "the data of this case needs no conversion",
        "allowed: the numbers, laid out as\n    <data_dir>/\n    └── numbers.txt",
    ),
    "no source": (["prepare", "model=raw_null", "data_dir=x"], "the original data is missing", "source=PATH data_dir="),
    "a source that is not there": (
        ["prepare", "model=raw_null", "source=gone", "data_dir=x"],
        "no such file or folder",
        "given:   {0}/gone",
    ),
    "data that is there": (
        ["prepare", "model=raw_null", "source=original.csv", "data_dir=done"],
        "data_dir holds data of this case already",
        "given:   {0}/done",
    ),
    "a part that is there": (
        ["prepare", "model=half", "source=original.csv", "data_dir=done"],
        "data_dir holds data of this case already",
        "given:   {0}/done/numbers.txt",
    ),
    "a folder that cannot be made": (
        ["prepare", "model=raw_null", "source=original.csv", "data_dir=original.csv/x"],
        "data_dir cannot be written",
        "given:   {0}/original.csv/x",
    ),
    "another host": (
        ["check", "model=toy", "cluster=example", "data_dir=/x"],
        "this command reads the data of this machine only",
        "given:   example",
    ),
}


@pytest.mark.parametrize(("overrides", "problem", "line"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(
    bench: Path, overrides: list[str], problem: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (bench.parent / "done").mkdir()
    (bench.parent / "done" / "numbers.txt").touch()
    before = files(bench.parent)
    assert data(*overrides) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"flagperf: {problem}\n")
    assert line.format(bench.parent) in said
    assert (files(bench.parent), Path("x").exists()) == (before, False)
