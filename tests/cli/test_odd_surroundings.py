"""What a run says where the user's limits or names of folders allow no result: one error, no traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from flagperf_command import FLAGPERF
from recorded import recorded_run
from refusals import lines

from flagperf.run.folder import RUN_LOG

BYTES = os.fsdecode(b"caf\xe9")
NO_PATH = "this path is not UTF-8, and files of a run name it"
RUN = ("max_steps=1", "runtime.python=/no/python")
FULL = "a file of the results reached the limit of a file's size (ulimit -f); files that were written before stay"


def value(key: str, given: str) -> str:
    allowed = "a path or name of UTF-8 text"
    return lines("this value is not UTF-8", where="command line", key=key, given=given, allowed=allowed)


@pytest.mark.parametrize(
    ("words", "limit", "folder", "code", "said"),
    [
        pytest.param(["result_dir=" + BYTES], "", "here", 2, value("result_dir", r"caf\udce9"), id="result_dir"),
        pytest.param(["run_name=" + BYTES], "", "here", 2, value("run_name", r"caf\udce9"), id="run_name"),
        pytest.param(["data_dir=/" + BYTES], "", "here", 2, value("data_dir", r"/caf\udce9"), id="data_dir"),
        pytest.param(
            ["result_dir={here}/results"],
            "",
            BYTES,
            2,
            lines(
                NO_PATH,
                where="command line",
                key="the current folder",
                given=r"{here}/caf\udce9",
                do="give the folder another name",
            ),
            id="the current folder",
        ),
        pytest.param(
            ["-cd", BYTES],
            "",
            ".",
            2,
            lines(NO_PATH, where="command line", key="--config-dir", given=r"caf\udce9"),
            id="--config-dir",
        ),
        pytest.param(["result_dir={here}/results"], "ulimit -f 1; ", "here", 3, FULL, id="ulimit -f"),
    ],
)
@pytest.mark.slow
def test_one_error(tmp_path: Path, words: list[str], limit: str, folder: str, code: int, said: str) -> None:
    for name in ("here", BYTES):
        (tmp_path / name).mkdir()
    given = [word.replace("{here}", str(tmp_path)) for word in (*RUN, *words)]
    argv = ["bash", "-c", f'{limit}exec "$0" "$@"', *FLAGPERF, *given]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # Python does not see that such a file was cut off
    done = subprocess.run(
        argv, cwd=tmp_path / folder, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    assert (done.stderr, done.returncode) == (f"flagperf: {said}\n".replace("{here}", str(tmp_path)), code)


def test_a_terminal_without_the_characters_of_a_text_shows_their_escapes(tmp_path: Path) -> None:
    argv = [*FLAGPERF, "report", str(recorded_run(tmp_path))]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert r" \u2265 " in done.stdout


def test_a_list_that_a_full_disk_does_not_take_is_no_list(tmp_path: Path) -> None:
    (recorded_run(tmp_path) / RUN_LOG).touch()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*FLAGPERF, "list", "runs", str(tmp_path)], stdout=full, stderr=subprocess.PIPE, check=False
        )
    said = b"flagperf: no space is left for results; files that were written before stay\n"
    assert (done.stderr, done.returncode) == (said, 3)
