"""The command of a run, kept in its folder and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from user_folder import write

from flagperf.errors import ConfigError
from flagperf.run.command_file import Command, keep, kept_folders, read
from flagperf.secret import Mask


def test_a_command_comes_back_with_the_users_files(tmp_path: Path) -> None:
    bench = write(tmp_path / "my bench", {"cluster/lab": "title: lab\n", "vendor/acme/glm/A1": "# x\n"})
    (bench / "result" / "run").mkdir(parents=True)
    (bench / "result" / "run" / "config.yaml").write_text("no part of a configuration")
    (tmp_path / "empty").mkdir()
    given = Command(("model=glm", "lr=1,2"), True, (str(bench), str(tmp_path / "empty")), "/somewhere", 1000.5)
    run = tmp_path / "run"
    run.mkdir()
    keep(given, run)
    command_read = read(run)
    assert command_read == given
    assert command_read.line() == f"flagperf -m --config-dir '{bench}' --config-dir {tmp_path}/empty model=glm lr=1,2"
    (kept,) = kept_folders(command_read, run)
    files = {path.relative_to(kept).as_posix(): path.read_text() for path in kept.rglob("*.yaml")}
    assert files == {"cluster/lab.yaml": "title: lab\n", "vendor/acme/glm/A1.yaml": "# x\n"}


VENDOR = """\
vendor:
  environment: {HF_TOKEN: a-token, A: "b", MY_KEY: 'c, d'}   # comment
  deterministic_environment:
    WANDB_API_KEY: another   # comment
    OTHER_KEY: ${oc.env:MY_KEY}
    TOKENIZERS_PARALLELISM: "false"
image: {http_proxy: "http://me:word@proxy:1"}
secrets:
  HF_TOKEN: {variable: HF_TOKEN}
  DB_PASSWORD:
    file: /there
ssh: {key: ~/.ssh/id}
title: known-value
"""
KEPT = """\
vendor:
  environment: {HF_TOKEN: '***', A: "b", MY_KEY: '***'}   # comment
  deterministic_environment:
    WANDB_API_KEY: '***'   # comment
    OTHER_KEY: ${oc.env:MY_KEY}
    TOKENIZERS_PARALLELISM: "false"
image: {http_proxy: "http://***@proxy:1"}
secrets:
  HF_TOKEN: {variable: HF_TOKEN}
  DB_PASSWORD:
    file: /there
ssh: {key: ~/.ssh/id}
title: ***
"""


def test_no_secret_is_kept(tmp_path: Path) -> None:
    bench = write(tmp_path / "bench", {"vendor/acme": VENDOR})
    given = (
        "+vendor.environment.HF_TOKEN=a-token",
        "+cluster.secrets.T={variable: HF_TOKEN}",
        "+vendor.environment.MY_KEY='${oc.env:MY_KEY}'",
        "+cluster.image.index=https://me:word@index",
        "title=known-value",
    )
    run = tmp_path / "run"
    run.mkdir()
    keep(Command(given, False, (str(bench),), "/somewhere", 1.0), run, [Mask(), Mask(["known-value"])])
    assert read(run).overrides == (
        "+vendor.environment.HF_TOKEN=***",
        "+cluster.secrets.T={variable: HF_TOKEN}",
        "+vendor.environment.MY_KEY='${oc.env:MY_KEY}'",
        "+cluster.image.index=https://***@index",
        "title=***",
    )
    assert (run / "config_dirs/0/vendor/acme.yaml").read_text() == KEPT


WHOLE: dict[str, Any] = {"overrides": ["lr=1"], "multirun": False, "config_dirs": [], "folder": "/x", "began": 1.0}
TYPE, RANGE = "wrong type of value", "value out of range"
DAMAGED: dict[str, tuple[Any, str, str | None]] = {
    "no mapping": ([], TYPE, None),
    "a field is missing": ({"overrides": [], "config_dirs": []}, "a required key is missing", "multirun"),
    "overrides are text": ({**WHOLE, "overrides": "a"}, TYPE, "overrides"),
    "an override is a number": ({**WHOLE, "overrides": [1]}, TYPE, "overrides[0]"),
    "multirun is text": ({**WHOLE, "multirun": "x"}, TYPE, "multirun"),
    "a folder is a list": ({**WHOLE, "folder": []}, TYPE, "folder"),
    "the code is a number": ({**WHOLE, "code": 3}, TYPE, "code"),
    "an identity is a number": ({**WHOLE, "code": {"flagperf": 3}}, TYPE, "code.flagperf"),
    "the time is text": ({**WHOLE, "began": "nan"}, TYPE, "began"),
    "the time is none of a calendar": ({**WHOLE, "began": 1e300}, RANGE, "began"),
    "an unknown field": ({**WHOLE, "more": 1}, "unknown key", "more"),
}


@pytest.mark.parametrize(("content", "problem", "key"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file(tmp_path: Path, content: Any, problem: str, key: str | None) -> None:
    (tmp_path / "command.json").write_text(json.dumps(WHOLE))
    assert read(tmp_path).overrides == ("lr=1",)
    (tmp_path / "command.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert (caught.value.problem, caught.value.where, caught.value.key) == (problem, f"{tmp_path}/command.json", key)


def test_no_json(tmp_path: Path) -> None:
    (tmp_path / "command.json").write_text("{")
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert str(caught.value) == (
        f"the command of this run cannot be read\n  where:   {tmp_path}/command.json\n"
        "  given:   Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )


def test_no_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert str(caught.value) == (
        f"no command is kept there\n  where:   command line\n  given:   {tmp_path}\n"
        "  do:      give a folder such as result/run20260101-120000; a run of an older flagperf kept no command"
    )
