"""`flagperf modelzoo export`: the files, the commands that the scripts make, and a training by the folder's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from flagperf.cli.main import run_command
from flagperf.config.files.search_path import CHINESE_CASE_PAGES, cases, search_path
from flagperf.kit.wheel import NAME
from flagperf.partners.modelzoo.guide import FRAMEWORKS
from flagperf.partners.modelzoo.install import install

pytestmark = pytest.mark.long

RUN = "run_scripts/run_resnet50.py"
FILES = [
    *("Dockerfile", "README.md", NAME, "model.yaml", "requirements.txt"),
    *(f"run_scripts/{name}" for name in ("README.md", "argument.py", "formate_cmd.py", "run_resnet50.py")),
]


SPOILT = [  # file, and what takes the place of what
    ("run_scripts/argument.py", '"--autocast"', '"--mixed"'),
    ("run_scripts/README.md", "step", "steps"),
    ("README.md", "https://", ""),
    ("README.md", "数据集", "图片"),
    ("README.md", "python run_resnet50.py", "./start"),
    ("model.yaml", "run_scripts/run_resnet50.py", "run_scripts/run_resnet.py"),
    ("model.yaml", "lr: 0.01", "lr:"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """resnet50 for the T100, the vendor's only product, without measurements."""
    into = tmp_path_factory.mktemp("zoo") / "a folder"
    assert run_command(["modelzoo", "export", "model=resnet50", "vendor=tecorigin", f"into={into}"]) == 0
    return into


def test_files(folder: Path) -> None:
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert sorted(name for name in there if not name.startswith("result/") and "__pycache__" not in name) == FILES
    assert yaml.safe_load((folder / "model.yaml").read_text()) == [
        {
            "case_name": "flagperf",
            "desc": {"run_dir": "PyTorch/contrib/Classification/resnet50", "run_file": RUN},
            "params": {
                "nnodes": 1,
                "nproc_per_node": 4,
                "batch_size": 32,
                "model_name": "resnet50",
                "dataset_path": "sample",
                "step": 10,
                "epoch": 1,
                "lr": 0.01,
                "device": "sdaa",
                "autocast": True,
            },
        }
    ]


@pytest.mark.slow
@pytest.mark.pip
def test_its_requirements_bring_flagperf(tmp_path: Path) -> None:
    """As the README says: no index has flagperf."""
    into = tmp_path / "zoo"
    assert run_command(["modelzoo", "export", "model=resnet50", "vendor=cpu", f"into={into}"]) == 0
    python, fault = install(into, sys.executable, tmp_path / "environment", 100)
    assert fault is None
    names = "CONF, VENDORS, CASE_PAGES, CHINESE_CASE_PAGES"
    ask = f"from flagperf.config.files.search_path import {names}; print({names})"
    done = subprocess.run([python, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True)
    folders = [Path(text) for text in done.stdout.split()]
    assert [(path.is_relative_to(tmp_path / "environment"), path.is_dir()) for path in folders] == [(True, True)] * 4


def test_the_readme_is_chinese_and_does_not_contradict_itself(folder: Path) -> None:
    """What the image has is not installed again, and the texts of the case are those of its Chinese page."""
    readme = (folder / "README.md").read_text(encoding="utf-8")
    page = (CHINESE_CASE_PAGES / "resnet50.md").read_text(encoding="utf-8")
    for heading in ("# ", "## 数据"):
        paragraph = page.partition(heading)[2].split("\n\n")[1].splitlines()[0]
        assert re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", paragraph) in readme
    assert "| 任务 | ImageNet-1k 上的 ResNet-50 |" in readme and "至少" in readme
    english = [line for line in readme.splitlines() if re.search(r"\b(the|is|are|of|at least)\b", line)]
    assert english == []
    image, build = (readme.partition(f"### {part}")[2].partition("\n###")[0] for part in ("2.1", "2.3"))
    assert f"Dockerfile 安装本目录的 `{NAME}` 和 `requirements.txt`" in image
    assert "2.1 节的镜像已经安装了 `requirements.txt`" in build
    requirements = (folder / "requirements.txt").read_text().splitlines()
    assert {"pillow>=10", "scikit-learn>=1.3", "torchmetrics>=1.5"} == {line for line in requirements if ">=" in line}


def test_holes_are_said(folder: Path) -> None:
    readme = (folder / "README.md").read_text(encoding="utf-8")
    _, results = readme.split("### 2.5 训练结果\n")
    assert results == (
        "\n还没有测量结果。\n\n完整测例尚未测量：T100 1x1、T100 1x4、T100 1x32。\n\n### 2.6 与 CUDA 的精度对齐\n\n"
        "还没有对齐结果。参数、种子和数据相同的两次训练（一次在 CUDA 上）由 "
        "`flagperf compare REF NEW align=1%` 比较。\n"
    )


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *words], cwd=folder, capture_output=True, text=True, check=False)


ASK = "import json, run_resnet50 as it; print(json.dumps(it.command(it.parse_args(it.MODEL, list(it.DEVICES)))[1:]))"
TECORIGIN = ["hardware=T100", "vendor=tecorigin"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        pytest.param(
            ["--device", "cpu", "--step", "5"],
            ["vendor=cpu", "size=tiny", "runtime=process", "nproc=1", "max_steps=5", "log_freq=1"],
            id="a short run on the processor",
        ),
        pytest.param(
            [
                *("--nnodes", "1", "--nproc_per_node", "4", "--batch_size", "64", "--model_name", "resnet50"),
                *("--dataset_path", "/data/a, b", "--step", "10", "--epoch", "1", "--lr", "0.2", "--autocast", "True"),
            ],
            [
                *(*TECORIGIN, "size=full", 'data_dir="/data/a, b"', "runtime=process", "nproc=4"),
                *("train_batch_size=64", "lr=0.2", "max_epochs=1", "max_steps=10", "log_freq=1", "precision=amp_fp16"),
            ],
            id="all arguments",
        ),
        pytest.param(
            ["--bs", "8", "--autocast", "false"],
            [*TECORIGIN, "size=tiny", "runtime=process", "nproc=1", "train_batch_size=8", "precision=fp32"],
            id="short for the batch, and no mixed precision",
        ),
    ],
)
def test_the_arguments_become_overrides(words: list[str], command: list[str], folder: Path) -> None:
    scripts = folder / "run_scripts"
    done = subprocess.run([sys.executable, "-c", ASK, *words], cwd=scripts, capture_output=True, text=True, check=True)
    rest = ["sinks=[dllogger]", f'result_dir="{folder}/result"']
    assert json.loads(done.stdout) == ["model=resnet50", *command, *rest]


@pytest.mark.parametrize(
    "path", ["/data/a, b", "/data/'a' \"b\"", "/data/a\\", '/data/a\\\\"b', "/data/[1]{a}=b", "/数据"]
)
def test_any_path_is_quoted(path: str, folder: Path) -> None:
    """So that Hydra, which reads flagperf's command line, has the path again."""
    ask = "import sys, run_resnet50 as it; print(it.quoted(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", ask, path], cwd=folder / "run_scripts", capture_output=True, text=True, check=True
    )
    assert OverridesParser.create().parse_override(f"data_dir={done.stdout.strip()}").value() == path


def test_several_machines(folder: Path) -> None:
    """The same command on each of them, which differs in node_rank alone."""
    words = ["--nnode", "2", "--node_rank", "1", "--master_addr", "10.0.0.1", "--master_port", "13400"]
    done = subprocess.run(
        [sys.executable, "-c", ASK, *words], cwd=folder / "run_scripts", capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [
        *("node", "node_rank=1", "master=10.0.0.1:13400", "nnodes=2", "model=resnet50", *TECORIGIN, "size=tiny"),
        *("runtime=process", "nproc=1", "sinks=[dllogger]", f'result_dir="{folder}/result"'),
    ]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        pytest.param(
            ["--device", "cpu", "--dataset_path", 'no "such" folder; $(touch gone)'],
            2,
            'no "such" folder; $(touch gone)',
            id="what flagperf refuses",
        ),
        pytest.param(["--autocast", "maybe"], 2, "'maybe' is neither True nor False", id="a wrong argument"),
    ],
)
def test_the_exit_code_is_true(words: list[str], status: int, said: str, folder: Path) -> None:
    done = call(folder, *words)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert not list(folder.rglob("gone"))


def test_the_command_is_printed_as_a_shell_takes_it(folder: Path) -> None:
    printed = call(folder, "--device", "cpu", "--dataset_path", "gone 'here'").stdout
    shown = re.match(r"(.*\\\n)+.*", printed)[0]  # type: ignore[index]
    argv = subprocess.run(["sh", "-c", f"printf '%s\\n' {shown}"], capture_output=True, text=True, check=True)
    assert argv.stdout.splitlines()[1:4] == ["model=resnet50", "vendor=cpu", "size=full"]
    assert shown.splitlines()[4].strip() == shell_word(f"data_dir=\"{folder}/gone 'here'\"") + " \\"


def shell_word(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def test_faults_in_an_exported_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten at once, each named with its file. The entry is one of them, so that nothing is run."""
    spoilt = shutil.copytree(folder, tmp_path / "spoilt", ignore=shutil.ignore_patterns("result", "__pycache__"))
    for name, old, new in SPOILT:
        text = (spoilt / name).read_text(encoding="utf-8")
        assert old in text
        (spoilt / name).write_text(text.replace(old, new), encoding="utf-8")
    for name in ("requirements.txt", "run_scripts/formate_cmd.py"):
        (spoilt / name).unlink()
    assert run_command(["modelzoo", "check", str(spoilt)]) == 9
    *faults, _, last = capsys.readouterr().out.splitlines()
    found = [line.removeprefix("  found:   ") for line in faults if line.startswith("  found: ")]
    assert [one.partition(":")[0] for one in found] == [
        "no such file",
        "no such file",
        "no --autocast",
        "no word of step",
        "no link to the source below '1. 模型概述'",
        "no section about the data set (how to get and to prepare it)",
        "no command of a run script below '2.4 启动训练' or '2.5 训练结果'",
        "no table with a number below '2.5 训练结果'",
        "run_file",
        "params.lr",
    ]
    assert last == "10 found"


@pytest.mark.torch
@pytest.mark.slow
def test_the_folders_own_command_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """resnet50 (tiny) on this CPU. A second folder, whose README has what was measured, has no fault."""
    first, second = tmp_path / "first", tmp_path / "second"
    words = ["modelzoo", "export", "model=resnet50", "vendor=cpu"]
    assert run_command([*words, f"into={first}"]) == 0
    done = call(first, "--step", "5")
    assert done.returncode == 0, done.stderr
    (run,) = (first / "result").iterdir()
    assert run_command([*words, f"into={second}", f"runs={run}"]) == 0
    capsys.readouterr()
    assert run_command(["modelzoo", "check", str(second), "step=5"]) == 0, capsys.readouterr().out
    readme = (second / "README.md").read_text(encoding="utf-8")
    assert "| cpu cpu | 1x1 | fp32 | 32 | 0.01 | " in readme
    assert "size=tiny; sample data |" in readme
    assert "完整测例尚未测量：cpu 1x1。" in readme


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["model=resnet50", "vendor=tecorigin"],
            "modelzoo export needs into=\n  where:   command line\n  key:     into\n  do:      flagperf modelzoo ",
            id="no folder",
        ),
        pytest.param(
            ["into=zoo"],
            "modelzoo export needs model=\n  where:   command line\n  key:     model\n  do:      flagperf modelzoo ",
            id="no case",
        ),
        pytest.param(
            ["model=resnet50", "vendor=nvidia", "into=zoo"],
            "the ModelZoo is Tecorigin's\n  where:   command line\n  key:     vendor\n  given:   nvidia\n"
            "  allowed: tecorigin or cpu\n",
            id="another vendor",
        ),
        pytest.param(
            ["model=resnet50", "framework=mindspore", "vendor=cpu", "into=zoo"],
            "the ModelZoo has no such framework\n  where:   command line\n  key:     framework\n"
            "  given:   mindspore\n  allowed: pytorch, paddle\n",
            id="another framework",
        ),
        pytest.param(
            ["model=resnet50", "vendor=cpu", "into=full"],
            "the folder is not empty\n  where:   command line\n  key:     into\n  given:   full\n"
            "  do:      give a new or empty folder\n",
            id="a folder with something in it",
        ),
        pytest.param(
            ["model=resnet50", "vendor=cpu", "size=tiny", "into=zoo"],
            "this cannot be exported\n  where:   command line\n  given:   size=tiny\n"
            "  allowed: model, framework, vendor, hardware, data_dir, train_batch_size, lr: shipped cases, and what "
            "the scripts' arguments carry\n",
            id="a setting that the scripts have no argument for",
        ),
    ],
)
def test_what_it_takes(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert run_command(["modelzoo", "export", *words]) == 2
    assert capsys.readouterr().err.startswith(f"flagperf: {message}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [name for name in cases(search_path([])) if name.split("/")[0] in FRAMEWORKS or "/" not in name]
)
def test_every_case(case: str, tmp_path: Path) -> None:
    framework, _, model = case.rpartition("/")
    words = ["vendor=cpu", f"framework={framework}"] if framework else ["vendor=tecorigin"]
    assert run_command(["modelzoo", "export", f"model={model}", *words, f"into={tmp_path / 'zoo'}"]) == 0
    script = tmp_path / "zoo" / "run_scripts" / f"run_{model}.py"
    compile(script.read_text(encoding="utf-8"), str(script), "exec")
    assert "尚未写明" not in (tmp_path / "zoo" / "README.md").read_text(encoding="utf-8")
