"""`flagperf list`: names and titles, from shipped files and the user's own; the runs of a folder; all about a case."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from example_results import CONFIG, a_result
from rich.console import Console
from user_folder import TOY, write

from flagperf.cli.list import KINDS, rows
from flagperf.cli.list_case import case_table
from flagperf.cli.list_runs import selected
from flagperf.cli.main import run_command
from flagperf.config.about_case import about_case
from flagperf.config.files.comments import comments
from flagperf.config.files.search_path import CASE_PAGES, CONF, options
from flagperf.contract.sent_code import package_folder
from flagperf.errors import ConfigError
from flagperf.report.run_list import page
from flagperf.report.runs import Listed
from flagperf.results import summary


@pytest.mark.parametrize("kind", KINDS)
def test_shipped_choices_have_titles(kind: str) -> None:
    found = rows(kind)
    assert found == sorted(found)
    assert found
    assert [name for name, title in found if not title] == []


@pytest.mark.parametrize(
    ("kind", "file", "text", "row"),
    [
        pytest.param("cases", "model/toy", TOY, ("toy", "a case of the user's own"), id="title"),
        pytest.param(
            "vendors",
            "vendor/acme",
            '# @package _global_\n# flagperf vendor=acme\nvendor:\n  title: "Acme\'s chips"  # all of them\n',
            ("acme", "Acme's chips"),
            id="title below its group",
        ),
        pytest.param(
            "experiments",
            "experiment/night",
            "# @package _global_\n# flagperf +experiment=night\n#\n# What runs at night.\n# Every night.\nrepeat: 3\n",
            ("night", "What runs at night."),
            id="first comment",
        ),
        pytest.param("clusters", "cluster/bad", "nodes: [\n", ("bad", ""), id="not YAML"),
    ],
)
def test_the_users_own(tmp_path: Path, kind: str, file: str, text: str, row: tuple[str, str]) -> None:
    assert row in rows(kind, [write(tmp_path, {file: text})])


def test_cases_in_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that changes another case has the other one's field; a case of the user's own may have none."""
    monkeypatch.setenv("COLUMNS", "200")
    run_command(["list", "cases", f"--config-dir={write(tmp_path, {'model/toy': TOY})}"])
    groups: dict[str, list[str]] = {}
    heading = ""
    for line in capsys.readouterr().out.splitlines()[1:]:
        name = line.split()[0]
        heading = heading if line.startswith("  ") else name
        groups.setdefault(heading, []).extend([name] if name != heading else [])
    assert list(groups) == ["vision", "language", "speech", "generation", "other"]
    assert {"resnet50", "vit"} < set(groups["vision"])
    assert {"bert", "llama2_70b", "llama2_7b"} < set(groups["language"])
    assert groups["other"] == ["toy"]


def test_frameworks_with_how_to_get_each(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run_command(["list", "frameworks"])
    lines = {
        line.split()[0]: re.split(r"\s{2,}", line.strip())[1:] for line in capsys.readouterr().out.splitlines()[1:]
    }
    assert lines["paddle"] == ["PaddlePaddle, ranks started by flagperf", "make paddle"]
    assert lines["pytorch"] == ["PyTorch, ranks started by torchrun", "pip install 'flagperf[train]' for that python"]


def test_a_users_file_replaces_the_shipped_one(tmp_path: Path) -> None:
    mine = write(tmp_path, {"cluster/local": "title: my machine\nnodes: [{address: 127.0.0.1, local: true}]\n"})
    assert ("local", "my machine") in rows("clusters", [mine])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        pytest.param(
            "smoke",
            [
                "smoke      One case for twenty steps: checks that the case runs, and measures its speed. (experiment)",
                "command    flagperf +experiment=smoke",
                "command    flagperf -m +experiment=smoke model=resnet50,glm",
                f"file       {CONF}/experiment/smoke.yaml",
                "max_steps  20",
                "log_freq   5",
            ],
            id="experiment",
        ),
        pytest.param(
            "A100",
            [
                "vendor                              nvidia",
                "power_w                             400 · thermal design power",
                "peak_flops.fp32                     1.95e+13 · FP32, 19.5 TFLOPS",
            ],
            id="hardware",
        ),
        pytest.param(
            "nvidia",
            [
                "nvidia                           NVIDIA GPUs (vendor)",
                "hardware                         A100, A800, B200, GB200, H100, H20, H200, H800, L40S, RTX4090",
                "tunings of llama3_1b             B200x1x1, H100x1x1, H200x1x1",
            ],
            id="vendor",
        ),
    ],
)
def test_a_choice(capsys: pytest.CaptureFixture[str], name: str, lines: list[str]) -> None:
    assert run_command(["list", name]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line in lines] == lines


def test_a_choice_of_several_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["list", "cpu"])
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in shown if line.startswith("cpu ")] == ["(vendor)", "(hardware)"]


def test_hardware_with_its_vendor(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["list", "hardware"])
    lines = [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert ["Gaudi2", "Intel Gaudi 2, 96 GB", "intel"] in lines


def a_job(began: float, verdict: str, rate: float | None, case: str) -> Listed:
    return Listed(began, f"run{began:g}", case, verdict, f"{rate}", "", rate, case)


JOBS = [
    a_job(3.0, "VALID", 20.0, "glm"),
    a_job(2.0, "INVALID", None, "bert"),
    a_job(1.0, "SUSPECT", 30.0, "bert"),
]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        pytest.param({}, ["run3", "run2", "run1"], id="newest first"),
        pytest.param({"case": "bert"}, ["run2", "run1"], id="one value"),
        pytest.param({"verdict": "valid,SUSPECT"}, ["run3", "run1"], id="several values, in any letters"),
        pytest.param({"sort": "p_train"}, ["run1", "run3", "run2"], id="fastest first, unknown last"),
        pytest.param({"sort": "job"}, ["run2", "run1", "run3"], id="by job"),
        pytest.param({"case": "bert", "sort": "run"}, ["run1", "run2"], id="filtered and sorted"),
    ],
)
def test_selected_runs(options: dict[str, str], runs: list[str]) -> None:
    assert [job.run for job in selected(JOBS, options)] == runs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"case": "vit"}, ("no run has this value", "case", "vit", "bert, glm"), id="value"),
        pytest.param(
            {"sort": "speed"}, ("unknown order", "sort", "speed", "date, run, job, verdict, p_train"), id="order"
        ),
    ],
)
def test_runs_that_cannot_be_selected(options: dict[str, str], message: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as error:
        selected(JOBS, options)
    assert (error.value.problem, error.value.key, error.value.given, error.value.allowed) == message


def test_the_page_of_runs_leads_to_their_reports(tmp_path: Path) -> None:
    (tmp_path / "result" / "run3").mkdir(parents=True)
    (tmp_path / "result" / "run3" / "report.html").touch()
    text = page(tmp_path / "result", JOBS, tmp_path / "pages")
    assert re.findall(r'<td[^>]*><a href="(.+?)">(.+?)</a>', text) == [("../result/run3/report.html", "run3")]
    assert "<p>3 runs, 3 jobs</p>" in text


def test_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, began in (("old", 1000.0), ("new", 100_000.0)):
        job = tmp_path / name / "resnet50-pytorch-A100x2x8"
        job.mkdir(parents=True)
        (job / "config.yaml").touch()
        (job.parent / "flagperf_run.log").touch()
        result = a_result(started=began, values={"p_train": 1234.5}, sample_data=name == "old")
        summary.write(summary.summary_of(job.name, [result], CONFIG, ()), job)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert run_command(["list", "runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "date              run  job                        verdict  p_train\n"
        "1970-01-02 03:46  new  resnet50-pytorch-A100x2x8  VALID    1,234 images/s\n"
        "1970-01-01 00:16  old  resnet50-pytorch-A100x2x8  VALID    1,234 images/s\n"
        "    sample data\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["runs", "EMPTY"],
            "flagperf: no run in this folder\n  where:   command line\n  given:   EMPTY\n"
            "  do:      give the result_dir of your runs: flagperf list runs RESULT_DIR\n",
            id="no run",
        ),
        pytest.param(
            ["runs", "a", "b"],
            "flagperf: list runs takes one result folder\n  where:   command line\n  given:   a b\n"
            "  do:      flagperf list [KIND… | CHOICE… | CASE [framework=NAME] [size=tiny] | "
            "runs [RESULT_DIR] [KEY=VALUE…] [sort=KEY] [html=FILE]]\n",
            id="two folders",
        ),
        pytest.param(
            ["run"],
            "flagperf: no list and no choice has this name\n  where:   command line\n  given:   run\n"
            "  allowed: did you mean 'runs'?\n",
            id="unknown kind",
        ),
        pytest.param(
            ["nosuch"],
            "flagperf: no list and no choice has this name\n  where:   command line\n  given:   nosuch\n"
            "  allowed: cases, frameworks, vendors, hardware, clusters, experiments, runs, or a name in one of these "
            "lists\n",
            id="a name that resembles none",
        ),
        pytest.param(
            ["bort"],
            "flagperf: no list and no choice has this name\n  where:   command line\n  given:   bort\n"
            "  allowed: did you mean 'bert'?\n",
            id="unknown case",
        ),
        pytest.param(
            ["bert", "framework=tensorflow2"],
            "flagperf: the case bert is not made for this framework\n  where:   command line\n  key:     framework\n"
            "  given:   tensorflow2\n  allowed: pytorch, paddle\n",
            id="a framework that the case lacks",
        ),
        pytest.param(
            ["bert", "nproc=2"],
            "flagperf: a list takes choices only\n  where:   command line\n  key:     nproc\n"
            "  given:   2\n  allowed: framework=…, size=…, vendor=…\n",
            id="a value",
        ),
    ],
)
def test_what_cannot_be_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    given = [word.replace("EMPTY", str(tmp_path)) for word in words]
    assert run_command(["list", *given]) == 2
    assert capsys.readouterr().err == message.replace("EMPTY", str(tmp_path))


def table(case: str, chosen: Sequence[str] = (), width: int = 80, config_dirs: Sequence[Path] = ()) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(case_table(about_case(case, chosen, config_dirs)))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


CASES = package_folder("cases")

TOY_TABLE = """\
toy        a case of the user's own
revision   1
framework  pytorch
size       full
target     none
data       the numbers
           <data_dir>/
           └── numbers.txt
tunings    acme: X1, X1x2x8
files      CONF/model/toy.yaml (settings and components)
           SHIPPED/mutable/common.yaml (keys that a closed run may change)
           missing: CONF/size/tiny/toy.yaml (the reduced case)
           missing: CONF/fingerprint/toy.yaml (its stated network and recipe)
           missing: CASES/toy.py (code)

a closed run may change (and why)
"""


def test_a_case_of_the_users_own(tmp_path: Path) -> None:
    tuning = "# @package _global_\n# flagperf model=toy vendor=acme\nlr: 0.2\n"
    mine = write(tmp_path, {"model/toy": TOY, "vendor/acme/toy/X1": tuning, "vendor/acme/toy/X1x2x8": tuning})
    (tmp_path / "vendor" / "acme.yaml").write_text("vendor: {title: Acme}\n", encoding="utf-8")
    shown = table("toy", width=250, config_dirs=[mine])
    assert (
        shown.replace(str(mine), "CONF")
        .replace(str(CONF), "SHIPPED")
        .replace(str(CASES), "CASES")
        .startswith(TOY_TABLE)
    )
    assert "\nnetwork.depth: ${depth}\n" in shown


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        pytest.param(
            80,
            [
                "gradient_accumulation_steps: 1        micro steps per optimizer step · a whole",
                "                                      number, at least 1 · (depends on the",
                "                                      memory of a device)",
            ],
            id="80",
        ),
        pytest.param(
            140,
            [
                "gradient_accumulation_steps: 1        micro steps per optimizer step · a whole number, at least 1 · "
                "(depends on the memory of a device)",
            ],
            id="140",
        ),
    ],
)
def test_a_shipped_case(width: int, lines: list[str]) -> None:
    shown = table("bert", ["framework=paddle"], width).splitlines()
    assert shown[0] == "paddle/bert  BERT-large pre-training on Wikipedia, from MLPerf's checkpoint"
    assert shown[3:6] == [
        "framework    paddle (framework=… also takes pytorch)",
        "size         full (list … size=tiny shows the other)",
        "target       mlm_accuracy at least 0.67",
    ]
    begin = shown.index(lines[0])
    assert shown[begin : begin + len(lines)] == lines
    assert max(map(len, shown)) <= width
    fixed = shown.index(next(line for line in shown if line.startswith("only division=open")))
    assert (
        begin < fixed < shown.index(next(line for line in shown if line.startswith("network.config.hidden_size: 1024")))
    )


@pytest.mark.slow
def test_each_shipped_case_is_shown() -> None:
    shown = [about_case(case) for case in options("model", (CONF,))]
    assert [about.name for about in shown if not about.title or not case_table(about).renderables] == []


def test_every_file_of_a_shipped_case_is_named() -> None:
    names = [f"{group}/paddle/bert" for group in ("model", "mutable", "size/tiny", "fingerprint")]
    paths = [CONF / f"{name}.yaml" for name in (names[0], "dataset/mlperf_bert", *names[1:])]
    files = about_case("bert", ["framework=paddle"]).files
    assert [file.path for file in files] == [*paths, CASES / "bert", CASE_PAGES / "paddle/bert.md"]
    assert all(file.exists for file in files)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("a: 1   # one\nb: 2\n", {"a": "one"}, id="value"),
        pytest.param('a: "# no"  # text\n', {"a": "text"}, id="text with a #"),
        pytest.param("a:   # group\n  b: [1, 2]   # two\n", {"a": "group", "a.b": "two"}, id="group"),
        pytest.param("a: {b: 1, c: 2}   # flow\n", {"a": "flow"}, id="flow"),
        pytest.param("a: |   # text\n  # no\n  b\n", {"a": "text"}, id="block"),
        pytest.param("a: null # nothing\n", {"a": "nothing"}, id="null"),
        pytest.param("# only this\n", {}, id="empty"),
    ],
)
def test_comments(tmp_path: Path, text: str, found: dict[str, str]) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    assert comments(path) == found
