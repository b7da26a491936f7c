"""`flagperf new`: its files work at once, and it never writes over files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import lines

from flagperf.cli.help import usage
from flagperf.cli.main import run_command
from flagperf.config.compose import compose

ROOT = Path(__file__).parents[2]
START = ROOT / "docs/start"
FILES = {
    "case": {
        "code/mine/__init__.py",
        "code/mine/data.py",
        "code/mine/network.py",
        "code/mine/sample.py",
        "code/mine/task.py",
        "model/mine.yaml",
        "mutable/mine.yaml",
        "size/tiny/mine.yaml",
    },
    "vendor": {"bin/mine-smi", "hardware/mine1.yaml", "vendor/mine.yaml", "vendor/mine/resnet50/mine1.yaml"},
}
OVERRIDES = {
    "case": ["model=mine", "code_dir=mine/code"],
    "vendor": ["vendor=mine", "hardware=mine1", "model=resnet50", "data_dir=/data", "dry_run=true"],
}
NAMES = "small letters, digits and _, a letter first"


@pytest.mark.parametrize("kind", FILES)
def test_the_new_files_compose(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", kind, "mine"]) == 0
    folder = tmp_path / "mine"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == FILES[kind]
    texts = "\n".join((folder / file).read_text() for file in sorted(files))
    capitals = set(re.findall(r"\w*(?:NAME|MINE|[A-Z]mine)\w*|mine_[A-Z]\w*", texts))
    assert capitals == {"case": set(), "vendor": {"NCCL_SOCKET_IFNAME", "MINE_VISIBLE_DEVICES"}}[kind]
    assert capsys.readouterr().out.startswith(f"mine: {len(files)} files. Try:\n  ")
    assert compose(OVERRIDES[kind], [folder]).config["case"] == {"case": "mine", "vendor": "resnet50"}[kind]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["case", "resnet50"],
            lines("flagperf has a case of this name", where="command line", given="resnet50", do="choose another name"),
            id="name of a shipped case",
        ),
        pytest.param(
            ["case", "json"],
            lines(
                "Python has a module or word of this name",
                where="command line",
                given="json",
                do="choose another name",
            ),
            id="name of a module of Python",
        ),
        pytest.param(
            ["vendor", "Mine"], lines("not a name", where="command line", given="Mine", allowed=NAMES), id="capitals"
        ),
        pytest.param(
            ["chip", "mine"],
            lines("flagperf new cannot make this", where="command line", given="chip", allowed="case or vendor"),
            id="another kind",
        ),
        pytest.param(
            ["case", "mine", "into=there"],
            lines("the folder exists", where="there", do="into=FOLDER names another folder"),
            id="folder exists",
        ),
        pytest.param(
            ["case"],
            lines("new takes case or vendor, and a name", where="command line", given="case", do=usage("new")),
            id="no name",
        ),
    ],
)
def test_refusals(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", *words]) == 2
    assert capsys.readouterr().err == f"flagperf: {message}\n"
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("page", "part"),
    [
        pytest.param("operator", slice(0, None, 2), id="operator"),
        pytest.param("operator", slice(1, None, 2), id="operator, every other command"),
        pytest.param("chip-maker", slice(None), id="chip maker"),
        pytest.param("case-author", slice(None), id="case author"),
    ],
)
def test_the_commands_of_the_start_pages(page: str, part: slice, tmp_path: Path) -> None:
    """All commands, in their order, in one folder; the commands of an operator do not need each other.

    Commands that name a cluster, data or a chip of the reader's stop at the missing part: hosts that do not exist, or a
    folder of data.
    """
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands(START / f"{page}.md", tmp_path)[part]:
        argv = ["bash", "-c", command]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        stops = re.search(r"data_dir=|cluster=", command) and "dry_run" not in command
        allowed = 3 if stops else 0  # 3: hosts cannot be used
        assert done.returncode == allowed, f"{command}\n{done.stdout}\n{done.stderr}"


def commands(page: Path, folder: Path) -> list[str]:
    """The command lines of a page. The files that the page shows are written to `folder`."""
    lines_: list[str] = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        if language == "yaml":
            path = folder / "lab/cluster/lab.yaml"
            path.parent.mkdir(parents=True)
            path.write_text(block)
        elif not language:
            words = [line for line in block.splitlines() if re.match(r"(flagperf|eval|PATH=|PYTHONPATH=)", line)]
            lines_ += [line for line in words if "<TAB>" not in line]
    return lines_


@pytest.mark.parametrize("page", ["docs/start/operator.md", "docs/zh/start/operator.md"])
def test_the_cluster_of_the_page_is_accepted(page: str, tmp_path: Path) -> None:
    commands(ROOT / page, tmp_path)
    words = ["cluster=lab", "vendor=nvidia", "hardware=A100", "nnodes=2", "nproc=8", "size=tiny"]
    job = compose(words, [tmp_path / "lab"])
    assert [(node.name, node.address) for node in job.cluster.nodes] == [("10.1.0.1",) * 2, ("10.1.0.2",) * 2]


@pytest.mark.parametrize("page", ["docs/start/operator.md", "docs/zh/start/operator.md"])
def test_the_page_names_the_command_of_make_run(page: str) -> None:
    """`make run` installs flagperf, which needs a network; other tests train."""
    (command,) = re.findall(r"^run:.*\n\t\S*/(flagperf .*)$", (ROOT / "Makefile").read_text(), re.M)
    assert f"`{command}`" in (ROOT / page).read_text(encoding="utf-8")
