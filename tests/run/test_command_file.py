"""The command of a run, kept in its folder and read back."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize(
    ("text", "given"),
    [
        pytest.param("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", id="no JSON"),
        pytest.param('{"overrides": "a"}', "not a list of texts", id="overrides"),
        pytest.param('{"overrides": [], "config_dirs": []}', "'began'", id="a field is missing"),
        pytest.param("[]", "list indices must be integers or slices, not str", id="no mapping"),
    ],
)
def test_a_damaged_file(tmp_path: Path, text: str, given: str) -> None:
    (tmp_path / "command.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert str(caught.value) == (
        f"the command of this run cannot be read\n  where:   {tmp_path}/command.json\n  given:   {given}"
    )


def test_no_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert str(caught.value) == (
        f"no command is kept there\n  where:   command line\n  given:   {tmp_path}\n"
        "  do:      give a folder such as result/run20260101-120000; a run of an older flagperf kept no command"
    )
