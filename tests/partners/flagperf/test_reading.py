"""FlagPerf's Python and shell, read without being executed; docker's options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.docker_options import read_options
from flagperf.partners.flagperf.importing.python_file import read_python
from flagperf.partners.flagperf.importing.shell_file import read_shell


@pytest.mark.parametrize(
    ("source", "values", "unread"),
    [
        pytest.param(
            "a = 1\nb: float = -2.5e-3\nc = d = 'x'", {"a": 1, "b": -0.0025, "c": "x", "d": "x"}, [], id="literals"
        ),
        pytest.param(
            "a = 4\nb = a\nc = 0.5 * a + 2 ** 3 - a // 3 % 2", {"a": 4, "b": 4, "c": 9.0}, [], id="arithmetic"
        ),
        pytest.param(
            "a = [1, -2] + [3]\nb = ('x' + 'y', None, True)", {"a": [1, -2, 3], "b": ["xy", None, True]}, [], id="lists"
        ),
        pytest.param("a = dict(b=dict(c=1), d={'e': 2})", {"a": {"b": {"c": 1}, "d": {"e": 2}}}, [], id="mappings"),
        pytest.param("a = ['x']\na += ['y']", {"a": ["x", "y"]}, [], id="added"),
        pytest.param("'text'\nimport os\npass\na: int", {}, [], id="what says nothing"),
        pytest.param("import os\na = 1\na = os.cpu_count()", {}, ["3: a = os.cpu_count() (computed)"], id="a call"),
        pytest.param(
            "a = 1\nif a:\n    a = 2\nb = a",
            {},
            ["2: if a: a = 2 (computed)", "4: b = a (computed)"],
            id="under a condition",
        ),
        pytest.param("a, b = 1, 2", {}, ["1: a, b = (1, 2) (computed)"], id="unpacked"),
        pytest.param(
            "a = f'{2}'\nb = f'/{a}/x'\nc = f'{a!r}'\nd = f'{a:>4}'\ne = f'{2.5}'\nf = f'{z}'",
            {"a": "2", "b": "/2/x"},
            [
                f"{line} (computed)"
                for line in ("3: c = f'{a!r}'", "4: d = f'{a:>4}'", "5: e = f'{2.5}'", "6: f = f'{z}'")
            ],
            id="made texts",
        ),
        pytest.param(
            "a = {'x': 1,\n 'y': g(),\n 'z': {'q': h()}}\nb = {**a, 'x': 1}\nc = [i for i in 'x']",
            {"a": {"x": 1}},
            [
                "2: 'y': g() (computed)",
                "3: 'z': {'q': h()} (computed)",
                "4: b = {**a, 'x': 1} (computed)",
                "5: c = [i for i in 'x'] (computed)",
            ],
            id="entries",
        ),
        pytest.param(
            "a = 9 ** 9 ** 9\nb = 'x' * 10 ** 12\nc = 1 / 0",
            {},
            ["1: a = 9 ** 9 ** 9 (computed)", "2: b = 'x' * 10 ** 12 (computed)", "3: c = 1 / 0 (computed)"],
            id="what would never end, or fail",
        ),
        pytest.param(
            "def f():\n    return 1\na = f()", {}, ["1: def f(): return 1 (code)", "3: a = f() (computed)"], id="code"
        ),
        pytest.param(
            "from common import *\na = shared * 2",
            {"shared": 8, "a": 16, "z": 1},
            ["common.py:3: y = x (computed)"],
            id="a file beside it",
        ),
        pytest.param("from common import shared as s", {"s": 8}, [], id="a name of it"),
        pytest.param(
            "shared = 1\nfrom .nowhere import *\nfrom torch import shared\na = shared",
            {},
            ["2: from .nowhere import * (no such file beside it)", "4: a = shared (computed)"],
            id="a file that is not there",
        ),
    ],
)
def test_python(tmp_path: Path, source: str, values: dict[str, Any], unread: list[str]) -> None:
    (tmp_path / "common.py").write_text("shared = 8\nz = 1\ny = x\n_hidden = 3\nfrom config import *\n")
    path = tmp_path / "config.py"
    path.write_text(source)
    said = read_python(path)
    assert {name: value.value for name, value in said.values.items()} == values
    told = [f"{one.source.short}: {one.text} ({one.why})".removeprefix("config.py:") for one in said.unread]
    assert [line for line in told if "from config import" not in line] == unread


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param("a = 1\nb = (", "2: not valid Python: '(' was never closed", id="no Python"),
        pytest.param("a = \0", "1: not valid Python: source code string cannot contain null bytes", id="no text"),
    ],
)
def test_no_python(tmp_path: Path, source: str, problem: str) -> None:
    path = tmp_path / "config.py"
    path.write_text(source)
    with pytest.raises(ConfigError) as error:
        read_python(path)
    assert f"{error.value.where}: {error.value.problem}" == f"{path}:{problem}"


@pytest.mark.parametrize(
    ("source", "values", "unread"),
    [
        pytest.param(
            "export A=1\nexport B=\"two words\" # why\nexport C='$x'\nexport D=",
            {"A": "1", "B": "two words", "C": "$x", "D": ""},
            [],
            id="exports",
        ),
        pytest.param("A=1\nexport A\nB=2", {"A": "1"}, ["3: B=2 (not exported)"], id="exported later"),
        pytest.param(
            "export A=$HOME/x\nexport B=`date`\nexport C=$(date)",
            {},
            ["1: export A=$HOME/x (computed)", "2: export B=`date` (computed)", "3: export C=$(date) (computed)"],
            id="computed",
        ),
        pytest.param(
            "export A=1\nif true; then\nexport A=2\nfi\nexport B=3",
            {"B": "3"},
            ["2: if true; then (under a condition)", "3: export A=2 (under a condition)"],
            id="under a condition",
        ),
        pytest.param(
            "export A=1\nif true; then export A=2; fi\nexport B=3",
            {"B": "3"},
            ["2: if true; then export A=2; fi (under a condition)"],
            id="a condition in one line",
        ),
        pytest.param(
            "export A=/opt/a\nB=$A\nexport C=${B}/bin:$A D\nexport E=$B/${A}x\nexport F='$A'\nexport G=~/x",
            {"A": "/opt/a", "E": "/opt/a//opt/ax", "F": "$A"},
            ["3: export C=${B}/bin:$A D (computed)", "6: export G=~/x (computed)", "2: B=/opt/a (not exported)"],
            id="made of earlier ones",
        ),
        pytest.param(
            "export A=1\nA=2\nexport B=1\nunset B\nexport C=$B",
            {"A": "2"},
            ["4: unset B (a command)", "5: export C=$B (computed)"],
            id="said again",
        ),
        pytest.param(
            "set -x\nsource /x\n# export A=1\nexport A=1;", {"A": "1"}, ["2: source /x (a command)"], id="commands"
        ),
        pytest.param("export A='open", {}, ["1: export A='open (computed)"], id="an open quote"),
    ],
)
def test_shell(tmp_path: Path, source: str, values: dict[str, str], unread: list[str]) -> None:
    path = tmp_path / "env.sh"
    path.write_text(source)
    said = read_shell(path)
    assert {name: value.value for name, value in said.values.items()} == values
    assert [f"{one.source.line}: {one.text} ({one.why})" for one in said.unread] == unread


@pytest.mark.parametrize(
    ("text", "options", "variables", "left"),
    [
        pytest.param(" --gpus all", {"gpus": "all"}, {}, [], id="gpus"),
        pytest.param(
            "--device=/dev/a --device /dev/b --group-add video",
            {"devices": ["/dev/a", "/dev/b"], "group_add": ["video"]},
            {},
            [],
            id="lists",
        ),
        pytest.param(
            "-v /a:/b:ro --volume=/c:/d -v /lib",
            {"mounts": {"/a": "/b", "/c": "/d:rw"}},
            {},
            ["--volume=/lib"],
            id="volumes",
        ),
        pytest.param(
            "--privileged --net=host --shm-size 32G --cpus=1.5",
            {"privileged": True, "network": "host", "shm_size": "32G", "cpus": 1.5},
            {},
            [],
            id="others",
        ),
        pytest.param(
            "--ulimit memlock=-1 -e A=1 --env B=x=y -e C",
            {"ulimits": {"memlock": -1}},
            {"A": "1", "B": "x=y"},
            ["--env=C"],
            id="limits and variables",
        ),
        pytest.param("--rm word --device", {}, {}, ["--rm=word", "--device"], id="without counterpart"),
        pytest.param("'open", {}, {}, ["'open"], id="an open quote"),
    ],
)
def test_docker_options(text: str, options: dict[str, Any], variables: dict[str, str], left: list[str]) -> None:
    assert read_options(text) == (options, variables, left)
