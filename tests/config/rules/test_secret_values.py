"""The secrets of a run: where they come from, what is refused, and that nothing shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import lines, message
from user_folder import write

from flagperf.config.compose import compose, compose_jobs
from flagperf.plan.dry_run import dry_run_text
from flagperf.plan.plan import make_plan
from flagperf.run.folder import write_case

LAB: dict[str, Any] = {"title": "lab", "nodes": [{"name": "n1", "address": "h1"}]}
FILE = "{bench}/cluster/lab.yaml"
VALUES = ("top-secret-1", "top secret '2'", "top-secret-3", "sword:fish", "swordfish")
OPEN = ("vendor=cpu", "cluster=lab", "division=open", "data_dir=/data", "runtime=docker", "size=tiny")


def bench(folder: Path, secrets: Any, **cluster: Any) -> Path:
    return write(folder, {"cluster/lab": yaml.safe_dump(LAB | {"secrets": secrets} | cluster)})


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose cluster names secrets and a proxy with a password."""
    monkeypatch.setenv("MY_TOKEN", VALUES[0])
    (tmp_path / "value").write_text(f"{VALUES[1]}\n")
    named = {"HF_TOKEN": {"variable": "MY_TOKEN"}, "OTHER": {"file": str(tmp_path / "value")}}
    proxy = {"https_proxy": "http://me:swordfish@proxy:1", "index": "https://me:sword%3Afish@index"}
    return bench(tmp_path, named, image={**proxy, "policy": "build"})


WORDS = (
    *OPEN,
    f"+vendor.environment.WANDB_API_KEY={VALUES[2]}",
    "+vendor.environment.PROXY=http://me:swordfish@proxy:1",
    "+vendor.environment.PLAIN=shown",
)


def test_they_reach_the_ranks_and_nothing_that_is_kept(secrets: Path, tmp_path: Path) -> None:
    job = compose(WORDS, [secrets])
    assert job.secrets == {
        "WANDB_API_KEY": VALUES[2],
        "PROXY": "http://me:swordfish@proxy:1",
        "HF_TOKEN": VALUES[0],
        "OTHER": VALUES[1],
    }
    assert {name: job.vendor.environment.get(name) for name in (*job.secrets, "PLAIN")} == {
        **dict.fromkeys(job.secrets),
        "PLAIN": "shown",
    }
    assert job.config["vendor"]["environment"] == {
        **job.vendor.environment,
        "WANDB_API_KEY": "***",
        "PROXY": "http://***@proxy:1",
        "PLAIN": "shown",
    }
    assert job.config["own"]["secrets"] == "HF_TOKEN, OTHER"
    assert job.cluster.image.https_proxy == "http://me:swordfish@proxy:1"  # for the build
    assert job.mask.text(" ".join(VALUES)) == "*** *** *** *** ***"
    (tmp_path / "run").mkdir()
    write_case(job, make_plan(job, 1), tmp_path / "run")
    kept = "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())
    changed = {change.key: change.after for change in job.changes}
    assert changed["vendor.environment.WANDB_API_KEY"] == "***"
    for shown in (kept, dry_run_text(job), json.dumps(changed)):
        assert [value for value in (*VALUES, "sword%3Afish") if value in shown] == []


def test_a_dry_run_needs_no_value(tmp_path: Path) -> None:
    job = compose([*OPEN, "dry_run=true"], [bench(tmp_path, {"HF_TOKEN": {"variable": "NOT_THERE"}})])
    assert job.secrets == {"HF_TOKEN": "***"}
    assert "a run first writes HF_TOKEN to " in dry_run_text(job)


def test_a_short_one_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "12345")
    job = compose(OPEN, [bench(tmp_path, {"HF_TOKEN": {"variable": "MY_TOKEN"}})])
    assert job.notes[-1] == (
        "HF_TOKEN: flagperf does not search the output of the ranks for a secret of fewer than 6 characters"
    )


ADVICE = "a file with nothing but the value, which only you may read"
PLACES = "{variable: NAME}, of the launcher's environment, or {file: PATH}, on the launcher's machine"
REFUSED: dict[str, tuple[Any, str]] = {
    "no such variable": (
        {"T": {"variable": "NOT_THERE"}},
        lines(
            "the launcher's environment lacks this variable, or it is empty",
            where=FILE,
            key="cluster.secrets.T.variable",
            given="NOT_THERE",
            do="export NOT_THERE=… in the shell that starts flagperf",
        ),
    ),
    "no such file": (
        {"T": {"file": "/not/there"}},
        lines(
            "the file of a secret cannot be read: No such file or directory",
            where=FILE,
            key="cluster.secrets.T.file",
            given="/not/there",
            do=ADVICE,
        ),
    ),
    "an empty file": (
        {"T": {"file": "/dev/null"}},
        lines("the file of a secret is empty", where=FILE, key="cluster.secrets.T.file", given="/dev/null", do=ADVICE),
    ),
    "of two places": (
        {"T": {"file": "/dev/null", "variable": "T"}},
        lines("a secret comes from one place", where=FILE, key="cluster.secrets.T", allowed=PLACES),
    ),
    "of no place": (
        {"T": {}},
        lines("a secret comes from one place", where=FILE, key="cluster.secrets.T", allowed=PLACES),
    ),
    "the value itself": (
        {"MY_TOKEN": "my-value"},
        lines("wrong type of value", where=FILE, key="cluster.secrets.MY_TOKEN", given="***", allowed="a mapping"),
    ),
    "an unknown key": (
        {"T": {"env": "T"}},
        lines("unknown key", where=FILE, key="cluster.secrets.T.env", do="one of: file, variable"),
    ),
    "no name of a variable": (
        {"my-token": {"variable": "T"}},
        lines(
            "wrong form of value",
            where=FILE,
            key="cluster.secrets.my-token",
            given="my-token",
            allowed="the name of a variable: letters, digits and _, no digit first",
        ),
    ),
    "what decides on the code": (
        {"PYTHONPATH": {"variable": "T"}},
        lines(
            "flagperf itself sets it, or it decides which code the ranks import: this is no secret",
            where=FILE,
            key="cluster.secrets",
            given="PYTHONPATH",
        ),
    ),
    "given twice": (
        {"PLAIN": {"variable": "T"}},
        lines(
            "a variable is given twice", where=FILE, key="cluster.secrets.PLAIN", do="take it out of vendor.environment"
        ),
    ),
}


@pytest.mark.parametrize(("secrets_", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(tmp_path: Path, secrets_: Any, expected: str) -> None:
    words = [*OPEN, "+vendor.environment.PLAIN=shown"]
    assert message(words, bench(tmp_path, secrets_)) == expected


KEPT = "name a variable in cluster.secrets, and let the code read it from its environment"
ELSEWHERE: dict[str, tuple[str, str]] = {
    "a login in another key": (
        "init_checkpoint=https://me:word@host/x.pt",
        lines(
            "a secret stands in a value that is kept in config.yaml",
            where="command line",
            key="init_checkpoint",
            given="https://***@host/x.pt",
            do=KEPT,
        ),
    ),
    "what refers to it": (
        "+task.token='${vendor.environment.WANDB_API_KEY}'",
        lines(
            "a secret stands in a value that is kept in config.yaml",
            where="command line",
            key="task.token",
            given="***",
            do=KEPT,
        ),
    ),
    "what an earlier run kept of one": (
        "+vendor.environment.HF_TOKEN='***'",
        lines(
            "*** stands for a secret, which no run keeps",
            where="command line",
            key="vendor.environment.HF_TOKEN",
            given="***",
            do="give it again: vendor.environment.HF_TOKEN=…",
        ),
    ),
    "an override that cannot be read": (
        "vendor.environment.HF_TOKEN=(top-secret",
        lines(
            "this is not an override of the form key=value",
            where="command line",
            given="vendor.environment.HF_TOKEN=***",
            do="docs/configuration.md explains overrides; text with commas or brackets needs quotes: key=\"'a,b'\"",
        ),
    ),
    "of a wrong type": (
        "+vendor.environment.HF_TOKEN=12345",
        lines(
            "wrong type of value",
            where="command line",
            key="vendor.environment.HF_TOKEN",
            given="***",
            allowed="text",
            do="as text it is written vendor.environment.HF_TOKEN=\"'***'\"",
        ),
    ),
}


@pytest.mark.parametrize(("override", "expected"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_refused_where_it_would_be_kept(tmp_path: Path, override: str, expected: str) -> None:
    words = [*OPEN, f"+vendor.environment.WANDB_API_KEY={VALUES[2]}", override]
    assert message(words, bench(tmp_path, {})) == expected


def test_no_folder_is_named_after_one(tmp_path: Path) -> None:
    words = [*OPEN, "+vendor.environment.HF_TOKEN=top-secret-1,top-secret-2"]
    assert message(words, bench(tmp_path, {}), multirun=True) == lines(
        "job 1 of 2 (vendor.environment.HF_TOKEN=***): a sweep over a secret would name folders after it",
        where="command line",
        key="vendor.environment.HF_TOKEN",
        given="***",
        do="sweep over something else",
    )
    harmless = [*OPEN, "+vendor.environment.A=b,c"]
    assert len(compose_jobs(harmless, multirun=True, config_dirs=[tmp_path])) == 2


VARIABLES = {"GITHUB_TOKEN": "ghp_0123456789", "A_KEY": "12", "NAMES": "GITHUB_TOKEN"}
REFERENCE = "${oc.env:GITHUB_TOKEN}"
KEPT_VARIABLES: dict[
    str, tuple[str, dict[str, Any], str, str]
] = {  # override, keys of a cluster, refused key, variable
    "in a value": (f"+task.token={REFERENCE}", {}, "task.token", "GITHUB_TOKEN"),
    "in a part of a value": (f"init_checkpoint='/a/{REFERENCE}/b'", {}, "init_checkpoint", "GITHUB_TOKEN"),
    "in a list": (f"+task.tokens=[1, {REFERENCE}]", {}, "task.tokens", "GITHUB_TOKEN"),
    "in the name of a folder": (f"run_name={REFERENCE}", {}, "run_name", "GITHUB_TOKEN"),
    "put in by the shell": ("run_name=ghp_0123456789-1", {}, "run_name", "GITHUB_TOKEN"),
    "in another variable of the ranks": (
        f"+vendor.environment.A={REFERENCE}",
        {},
        "vendor.environment.A",
        "GITHUB_TOKEN",
    ),
    "in a key": ("+vendor.environment.ghp_0123456789=1", {}, "vendor.environment.***", "GITHUB_TOKEN"),
    "of a wrong type": (f"nproc={REFERENCE}", {}, "nproc", "GITHUB_TOKEN"),
    "too short to be found": ("lr=${oc.env:A_KEY}", {}, "lr", "A_KEY"),
    "in a file": ("seed=1", {"title": REFERENCE}, "cluster.title", "GITHUB_TOKEN"),
    "by a name of a variable": ("seed=1", {"title": "${oc.env:${oc.env:NAMES}}"}, "cluster.title", "GITHUB_TOKEN"),
}


@pytest.mark.parametrize(("override", "cluster", "key", "name"), KEPT_VARIABLES.values(), ids=KEPT_VARIABLES.keys())
def test_a_secret_variable_is_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, cluster: dict[str, Any], key: str, name: str
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    assert message([*OPEN, override], bench(tmp_path, {}, **cluster)) == lines(
        "config.yaml, reports and names of folders would keep the value of a secret variable",
        where=FILE if cluster else "command line",
        key=key,
        given=f"the value of {name}",
        do=f"name {name} in cluster.secrets, which gives it to the ranks alone; unset it if it is no secret",
    )


def test_what_is_no_secret_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a key, the text of a shipped file, the name of one, and what flagperf takes out."""
    (tmp_path / "id").write_text("key")
    harmless = {"SSH_KEY": str(tmp_path / "id"), "DB_PASSWORD": "resnet", "API_KEY": "docker"}
    for name, value in {**VARIABLES, **harmless}.items():
        monkeypatch.setenv(name, value)
    words = (f"+vendor.environment.HF_TOKEN={REFERENCE}", "cluster.ssh.key=${oc.env:SSH_KEY}")
    job = compose([*OPEN, *words, "dry_run=true"], [bench(tmp_path, {}, image={"index": f"https://me:{REFERENCE}@h"})])
    assert job.secrets == {"HF_TOKEN": "ghp_0123456789"}
    assert "ghp_0123456789" not in json.dumps(job.config)
    inherited = compose(["size=tiny", "model=resnet50", "runtime=process"])
    assert inherited.mask.text("docker, ghp_0123456789") == "docker, ***"
