"""The user of a process: one without an entry in passwd, without HOME, and with other folders by XDG's variables."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from flagperf.errors import ConfigError
from flagperf.user import cache_folder, state_folder, user_path
from tests.flagperf_command import FLAGPERF

NOBODY_KNOWS = 54321  # no entry in passwd
ROOT = Path(__file__).parents[1]
NO_HOME = f"""\
flagperf: HOME is not set, and user {NOBODY_KNOWS} has no entry in passwd
  where:   the environment
  do:      set HOME to a folder of yours
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.long
@pytest.mark.parametrize(
    ("variables", "words", "expected"),
    [
        pytest.param({}, ("dry_run=true",), NO_HOME, id="no HOME: sample data"),
        pytest.param({"HOME": ""}, ("dry_run=true",), NO_HOME, id="an empty HOME is none"),
        pytest.param({}, ("predict",), NO_HOME, id="no HOME: traces"),
        pytest.param({}, ("doctor", "cluster=lab"), NO_HOME.splitlines()[0][10:], id="no HOME: files of ssh"),
        pytest.param({"HOME": "{tmp}"}, ("doctor", "cluster=lab"), "the ssh port refuses connections", id="ssh"),
        pytest.param({"XDG_CACHE_HOME": "/c"}, ("dry_run=true",), "#   sample data: /c/flagperf/sample/", id="cache"),
        pytest.param(
            {"HOME": "/h", "XDG_CACHE_HOME": "c"},
            ("dry_run=true",),
            "#   sample data: /h/.cache/flagperf/sample/",
            id="a relative cache folder does not count",
        ),
        pytest.param(
            {"HOME": "{tmp}"},
            ("cluster=kubernetes", "cluster.kubernetes.image=x", "dry_run=true"),
            re.compile(rf"flagperf\.owner: {NOBODY_KNOWS}\."),
            id="the owner of pods",
        ),
    ],
)
def test_a_user_without_an_entry_in_passwd(
    tmp_path: Path, variables: dict[str, str], words: tuple[str, ...], expected: str | re.Pattern[str]
) -> None:
    (tmp_path / "conf" / "cluster").mkdir(parents=True)
    lab = "title: lab\nnodes: [{name: a, address: 127.0.0.1, port: 1}]\n"
    (tmp_path / "conf" / "cluster" / "lab.yaml").write_text(lab)
    capability = "-all,+dac_override"  # the checkout may lie in a folder of root's
    person = ("setpriv", f"--reuid={NOBODY_KNOWS}", f"--regid={NOBODY_KNOWS}", "--clear-groups")
    argv = (*person, f"--inh-caps={capability}", f"--ambient-caps={capability}", *FLAGPERF, "-cd", "conf", *words)
    environment = {"PATH": os.environ["PATH"]}
    environment.update({name: value.format(tmp=tmp_path) for name, value in variables.items()})
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed
    if isinstance(expected, str):
        assert expected in printed
    else:
        assert expected.search(printed)


def test_folders_follow_the_specification_of_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    for variable, folder, usual in (
        ("XDG_CACHE_HOME", cache_folder, "/h/.cache/flagperf"),
        ("XDG_STATE_HOME", state_folder, "/h/.local/state/flagperf"),
    ):
        for given, expected in (("/x", "/x/flagperf"), ("x", usual), ("", usual)):
            monkeypatch.setenv(variable, given)
            assert folder() == Path(expected)
    assert [user_path(path) for path in ("~", "~/a/b", "~root/a", "a/~", "/a", ".", "")] == [
        Path(path) for path in ("/h", "/h/a/b", "/root/a", "a/~", "/a", ".", ".")
    ]
    with pytest.raises(ConfigError, match="no such user"):
        user_path("~no-such-user/x")


def test_one_file_asks_for_the_user() -> None:
    """Any other file would end with a traceback for a user without an entry. os.path.expanduser never does."""
    names = (r"getuser\(", r"getpwuid\(", r"getpwnam\(", r"getlogin\(", r"Path\.home\(", r"(?<!os\.path\.)expanduser\(")
    asks = re.compile("|".join((*names, r"environ\S*XDG_", r'"HOME"\]')))
    files = sorted(path for path in (ROOT / "flagperf").rglob("*.py") if asks.search(path.read_text("utf-8")))
    assert files == [ROOT / "flagperf/user.py"]
