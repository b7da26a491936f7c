"""`flagperf modelzoo check` on folders that flagperf did not write: a right one, and one with each fault."""

from __future__ import annotations

import sys
from pathlib import Path

import foreign
import pytest

from flagperf.cli.main import run_command
from flagperf.partners.modelzoo import check

LOG = "dlloger_example.json"
SCRIPT = "run_scripts/run_mlp.py"
METADATA = "unit, format, GOAL, STAGE"


def changed(name: str, old: str, new: str) -> dict[str, str]:
    """A file with a part replaced."""
    assert old in foreign.FILES[name]
    return {name: foreign.FILES[name].replace(old, new)}


def checked(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """The exit code, and the faults without what is told of the short run."""
    code = run_command(["modelzoo", "check", str(folder), *words])
    return code, capsys.readouterr().out.split("\n\n")[:-1]


def fault(file: str, found: str, asked: str, advice: str) -> str:
    return f"{file}\n  found:   {found}\n  asked:   {asked}\n  do:      {advice}"


@pytest.mark.slow
@pytest.mark.pip
def test_a_right_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside an old log, which is not taken for the new one; nothing is written into the folder."""
    folder = foreign.write(tmp_path)
    (folder / "old.json").write_text('TCAPPDLL {"type": "LOG", "step": 0, "data": "{}"}\n')
    before = sorted(folder.rglob("*"))
    assert run_command(["modelzoo", "check", str(folder), "step=3", "device=cpu"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert last == "nothing is wrong"
    assert first.startswith("short run, ")
    assert f"3 metrics in {LOG}" in first
    assert first.endswith(
        f"{SCRIPT} --nnode 1 --nproc_per_node 1 --batch_size 4 --model_name mlp --dataset_path "
        "/mnt/nvme/common/somebody/mlp --step 3 --epoch 1 --lr 0.1 --device cpu --autocast True --warm_up 0.1"
    )
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.pip
def test_an_entry_in_the_modelzoo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Among those of other models, in the file of the framework; the script's README as the guide's tree spells it."""
    place = tmp_path / "PyTorch" / "contrib"
    folder = foreign.write(place / "Classification", **{"model.yaml": None, "run_scripts/README.md": None})
    (folder / "run_scripts" / "REAMDE.md").write_text(foreign.FILES["run_scripts/README.md"])
    (place / "model_config").mkdir()
    other = foreign.ENTRY.replace("Classification/mlp", "NLP/bert")
    (place / "model_config" / "model.yaml").write_text(other + foreign.ENTRY)
    assert checked(folder, capsys, "step=2") == (0, [])


FAULTS = [
    pytest.param(
        {"requirements.txt": None},
        [fault("requirements.txt", "no such file", "a file of this name", "add it")],
        id="no requirements",
    ),
    pytest.param(
        {"run_scripts/README.md": "\n"},
        [fault("run_scripts/README.md", "an empty file", "a file with content", "fill it")],
        id="an empty page of the arguments",
    ),
    pytest.param(
        changed("run_scripts/argument.py", '    parser.add_argument("--node_rank", type=int, default=0)\n', ""),
        [
            fault(
                "run_scripts/argument.py",
                "no --node_rank",
                "--node_rank: the guide, for DDP on several machines",
                "add them to the parser",
            )
        ],
        id="an argument is missing",
    ),
    pytest.param(
        changed("run_scripts/README.md", "lr, ", ""),
        [
            fault(
                "run_scripts/README.md",
                "no word of lr",
                "what each argument is",
                "describe them",
            )
        ],
        id="an argument is not described",
    ),
    pytest.param(
        changed("README.md", "### 2.1 获取数据集", "### 2.1 下载"),
        [
            fault(
                "README.md",
                "no section about the data set (how to get and to prepare it): 1. 模型概述, 2. 快速开始, 2.1 下载, "
                "2.2 环境准备, 2.3 启动训练, 2.4 训练结果",
                "the data set (how to get and to prepare it)",
                "add the section",
            )
        ],
        id="a section is missing",
    ),
    pytest.param(
        changed("README.md", "docker pull image", "conda activate torch_env"),
        [
            fault(
                "README.md",
                "no docker image below '2.2 环境准备'",
                "the environment (image, build, start): a docker image",
                "add it",
            )
        ],
        id="no image",
    ),
    pytest.param(
        changed("README.md", "| 1 | 97.1 % |", "| / | / |"),
        [
            fault(
                "README.md",
                "no table with a number below '2.4 训练结果'",
                "the results of training: a table with a number",
                "measure them",
            )
        ],
        id="no result was measured",
    ),
    pytest.param(
        changed("model.yaml", "lr: 0.1", "lr:"),
        [fault("model.yaml", "params.lr: empty", "a value: no parameter may be missing or empty", "fill it")],
        id="an empty parameter",
    ),
    pytest.param(
        changed("model.yaml", "run_mlp.py", "run_cnn.py"),
        [
            fault(
                "model.yaml",
                "run_file: run_scripts/run_cnn.py",
                "a script of this folder below run_scripts/",
                "correct it",
            )
        ],
        id="another script",
    ),
    pytest.param(
        {SCRIPT: "import sys\nsys.exit('no device')\n"},
        [fault(SCRIPT, "exit status 1\n           no device", "the entry's command ends with 0", "run it by hand")],
        id="the command fails",
    ),
    pytest.param(
        {SCRIPT: "from argument import parse_args\nparse_args()\n"},
        [
            fault(
                "the log of the short run",
                "no file with lines of tcap_dllogger, in the folder and below it",
                "a log as tcap_dllogger writes it",
                "log with its JSONStreamBackend",
            )
        ],
        id="no log",
    ),
    pytest.param(
        changed(SCRIPT, "1 / (1 + step)", "float('nan')"),
        [fault(f"{LOG}:5", "train.loss is nan", "a finite loss", "look at data, lr and precision")],
        id="the loss is no number",
    ),
    pytest.param(
        changed(SCRIPT, '"train.ips": 30.0, ', ""),
        [
            fault(
                LOG,
                "no train.ips",
                "train.ips or train.sps of each step",
                "log the samples per second",
            )
        ],
        id="no speed",
    ),
    pytest.param(
        changed(SCRIPT, '    metadata("val.top1", "", "MAXIMIZE", "VALID")\n', ""),
        [
            fault(
                LOG,
                "no metric whose STAGE is VALID",
                "an evaluation metric, such as val.acc1",
                "describe it with metadata(), and log it",
            ),
            fault(
                LOG,
                "no metadata of val.top1",
                f"metadata of each metric: {METADATA}",
                'metadata("val.top1", {…}) before the first value',
            ),
        ],
        id="no metadata of an evaluation",
    ),
    pytest.param(
        changed(SCRIPT, '"format": ":.3f", ', ""),
        [
            fault(LOG, f"metadata of {metric} without format", METADATA, "add it")
            for metric in ("train.loss", "train.ips", "val.top1")
        ],
        id="no format",
    ),
    pytest.param(
        changed(SCRIPT, '"", "MINIMIZE"', '"", "SMALL"'),
        [fault(LOG, "GOAL of train.loss is SMALL", "one of: MINIMIZE, MAXIMIZE", "correct it")],
        id="an unknown goal",
    ),
    pytest.param(
        changed(SCRIPT, "range(args.step)", "range(7)"),
        [fault(LOG, "7 steps", "--step 3 ends the training after 3", "obey --step")],
        id="too many steps",
    ),
    pytest.param(
        changed(SCRIPT, 'log.write("TCAPPDLL "', 'log.write("TCAP "'),
        [
            fault(
                "the log of the short run",
                "no file with lines of tcap_dllogger, in the folder and below it",
                "a log as tcap_dllogger writes it",
                "log with its JSONStreamBackend",
            )
        ],
        id="another prefix",
    ),
]


@pytest.fixture
def without_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip takes a second, and is tested once."""
    monkeypatch.setattr(check, "install", lambda _folder, python, *_: (python, None))


@pytest.mark.pip
def test_requirements_that_pip_cannot_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = foreign.write(tmp_path, **{"requirements.txt": "./absent-1.0-py3-none-any.whl\n"})
    code, (told,) = checked(folder, capsys, "step=3")
    first, *_, asked, do = told.splitlines()
    assert (code, first) == (9, "requirements.txt")
    assert "absent-1.0-py3-none-any.whl" in told
    assert (asked, do) == ("  asked:   packages that pip installs", "  do:      run pip install by hand")


@pytest.mark.usefixtures("without_install")
@pytest.mark.parametrize(("files", "faults"), FAULTS)
def test_each_fault_is_named(
    files: dict[str, str | None], faults: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(foreign.write(tmp_path, **files), capsys, "step=3") == (9, faults)


@pytest.mark.usefixtures("without_install")
def test_a_run_that_hangs_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = foreign.write(tmp_path, **{SCRIPT: "import time\ntime.sleep(600)\n"})
    code, (told,) = checked(folder, capsys, "limit=1")
    assert (code, told) == (
        9,
        fault(
            SCRIPT, "still running after 1 s; it printed nothing", "the entry's command ends with 0", "run it by hand"
        ),
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["chek"],
            "modelzoo needs an action first\n  where:   command line\n  given:   chek\n"
            "  allowed: did you mean 'check'?",
            id="no action",
        ),
        pytest.param(
            ["check"],
            'modelzoo takes one folder to check\n  where:   command line\n  given:   ""',
            id="no folder",
        ),
        pytest.param(
            ["check", "gone"],
            "no such folder\n  where:   command line\n  given:   {here}/gone\n  do:      give the folder of a model",
            id="a folder that is not there",
        ),
        pytest.param(
            ["check", "mlp", "limit=soon"],
            "no time\n  where:   command line\n  key:     limit\n  given:   soon\n  allowed: seconds above 0",
            id="no time",
        ),
        pytest.param(
            ["check", "mlp", "step=0"],
            "no number of steps\n  where:   command line\n  key:     step\n  given:   0\n"
            "  allowed: a whole number above 0",
            id="no number of steps",
        ),
        pytest.param(
            ["check", "mlp", "stp=3"],
            "unknown option of modelzoo\n  where:   command line\n  given:   stp\n  allowed: did you mean 'step'?",
            id="an unknown parameter",
        ),
    ],
)
def test_what_it_takes(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_command(["modelzoo", *words]) == 2
    said = capsys.readouterr().err
    assert said.partition("\n  do:      flagperf modelzoo ")[0].strip() == "flagperf: " + message.format(here=tmp_path)


@pytest.mark.slow
@pytest.mark.pip
def test_the_python_that_is_given_runs_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python, used = tmp_path / "python", tmp_path / "used"
    python.write_text(f'#!/bin/sh\ntouch {used}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert checked(foreign.write(tmp_path / "folder"), capsys, "step=1", f"python={python}") == (0, [])
    assert used.exists()
