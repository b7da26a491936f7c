"""`flagperf docs`: a page of a case, a model and a vendor, with what was measured, and what is missing said."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_results import write_job

from flagperf.cli.main import run_command

START = "flagperf model=resnet50 vendor=nvidia hardware=A100 size=full"
NEEDED = "no job at"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs at 1x1 and 1x8."""
    folder = tmp_path_factory.mktemp("result")
    write_job(folder / "one", 1, 1, {"revision": 2})
    write_job(folder / "eight", 1, 8, {"revision": 2})
    return folder


def page(into: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """The place of the page and its text."""
    assert run_command(["docs", *words, f"into={into}"]) == 0
    path = Path(capsys.readouterr().out.strip())
    return str(path.relative_to(into)), path.read_text(encoding="utf-8")


def test_case(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was measured is the fragment of `docs submission`; the third scale is missing."""
    words = ["case", "model=resnet50", "vendor=nvidia", "hardware=A100", "cluster=example"]
    place, text = page(tmp_path, capsys, *words, f"runs={runs / 'one'},{runs / 'eight'}")
    assert place == "nvidia/resnet50-pytorch/README.md"
    assert text.splitlines()[1] == "# NVIDIA GPUs：resnet50（pytorch）"
    assert "### nvidia A100 配置与运行信息参考\n" in text
    assert [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| A100x")] == [
        "A100x1x1",
        "A100x1x8",
    ]
    assert text.endswith(
        "| 缺少 | 用此命令测量 |\n| --- | --- |\n"
        f"| resnet50-pytorch-A100: {NEEDED} 2x8 | `{START} nnodes=2 nproc=8 cluster=NAME data_dir=/data/imagenet` |\n"
    )


def test_what_has_no_part_in_a_page_is_told(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["docs", "vendor", "vendor=tecorigin", str(runs / "one"), f"into={tmp_path}"]
    assert run_command(words) == 0
    job = runs / "one" / "resnet50-pytorch-A100x1x1"
    assert capsys.readouterr().err == f"left out: {job}: on another subject than this page\n"


def test_case_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The only product of a vendor needs no name."""
    _, text = page(tmp_path, capsys, "case", "model=resnet50", "vendor=tecorigin")
    start = "flagperf model=resnet50 vendor=tecorigin hardware=T100 size=full"
    commands = [
        f"{start} nproc=1 data_dir=PATH",
        f"{start} nproc=8 data_dir=PATH",
        f"{start} nnodes=2 nproc=8 cluster=NAME data_dir=PATH",
    ]
    holes = [
        f"| resnet50-pytorch-T100: {NEEDED} {scale} | `{command}` |"
        for scale, command in zip(("1x1", "1x8", "2x8"), commands, strict=True)
    ]
    assert "```\n" + "\n".join(commands) + "\n```" in text
    assert text.endswith("还没有可用的测量结果。\n\n### 缺少的结果\n\n没有测量到的不填写：\n\n"
                         "| 缺少 | 用此命令测量 |\n| --- | --- |\n" + "\n".join(holes) + "\n")  # fmt: skip


def test_the_commands_name_the_users_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    acme = Path(__file__).parents[2] / "data" / "acme_chip"
    words = ["case", "model=bert", "vendor=acme", "--config-dir", str(acme)]
    start = f"flagperf --config-dir {acme} model=bert vendor=acme hardware=A1 size=full nproc=1"
    assert page(tmp_path, capsys, *words)[1].count(start) == 2


def test_the_commands_leave_precision_to_the_tunings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tuning of A100 has another than the case; a command says only what somebody chose."""
    words = ["case", "model=bert", "vendor=nvidia", "hardware=A100"]
    counts = [page(tmp_path, capsys, *words, *more)[1].count("precision=") for more in ([], ["precision=amp_bf16"])]
    assert counts == [0, 6]  # three commands, and three holes


def test_model(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, text = page(tmp_path, capsys, "model", "model=resnet50", str(runs / "eight"))
    assert place == "benchmarks/resnet50/README.md"
    assert "从零开始训练 ResNet-50，对 I" in text
    assert "| ILSVRC2012_img_train.tar | 138 GB |" in text
    assert "](../" not in text
    rows = {line.split(" | ")[0]: line for line in text.splitlines() if line.startswith("| ")}
    assert rows["| nvidia"].startswith("| nvidia | 已测量 A100x1x8；有配置 A100, ")
    assert rows["| tecorigin"] == "| tecorigin | / | / | / |"


def test_vendor(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vendor", "vendor=nvidia", f"runs={runs / 'one'}"]
    place, text = page(tmp_path, capsys, *words)
    assert place == "nvidia/README.md"
    assert "| A100 | NVIDIA A100 SXM4, 40 GB | 40 | 400 | fp32 19.5, tf32 156, fp16 312, bf16 312 | 8 |" in text
    assert "| resnet50 | A100: 177.8 | / | / | images/s |" in text
    assert "| glm |" not in text
    assert "没有测量的测例：aquila2_34b、" in text


def test_the_cpu_has_chinese_titles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no name of a product is not left in English."""
    _, case = page(tmp_path, capsys, "case", "model=resnet50", "vendor=cpu")
    _, vendor = page(tmp_path, capsys, "vendor", "vendor=cpu")
    assert case.splitlines()[1] == "# 任意机器的 CPU：resnet50（pytorch）"
    assert "| 加速卡 | 任意 CPU |" in case
    assert vendor.splitlines()[1] == "# 任意机器的 CPU"
    assert "| cpu | 任意 CPU |" in vendor


def test_vendor_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An image that is built is told by what it is built on; there is no table of results."""
    _, text = page(tmp_path, capsys, "vendor", "vendor=amd")
    assert "| pytorch | 在 rocm/pytorch:" in text
    assert text.partition("## 5. 结果\n\n")[2].startswith("没有测量的测例：aquila2_34b、")


def test_a_page_of_ours_is_renewed_and_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["model", "model=resnet50"]
    page(tmp_path, capsys, *words)
    place, _ = page(tmp_path, capsys, *words)
    (tmp_path / place).write_text("# mine\n")
    assert run_command(["docs", *words, f"into={tmp_path}"]) == 2
    assert capsys.readouterr().err == (
        "flagperf: a file exists there that flagperf did not write\n  where:   command line\n  key:     into\n"
        f"  given:   {tmp_path / place}\n  do:      choose another folder with into=, or move the file away\n"
    )
    assert (tmp_path / place).read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["cse"],
            "docs needs a kind of page first\n  where:   command line\n  given:   cse\n"
            "  allowed: did you mean 'case'?\n",
            id="no kind",
        ),
        pytest.param(
            ["case", "model=bert", "into=pages"],
            "docs case needs vendor=\n  where:   command line\n  key:     vendor\n",
            id="no vendor",
        ),
        pytest.param(
            ["case", "model=bert", "vendor=tecorigin", "into="],
            "an empty option\n  where:   command line\n  key:     into\n"
            "  do:      give into=VALUE, or leave into out\n",
            id="an empty option",
        ),
        pytest.param(
            ["model", "model=bert", "~nobody-here", "into=pages"],
            "no such user\n  where:   command line\n  given:   ~nobody-here\n"
            "  do:      a file of this name is ./~nobody-here\n",
            id="no such user",
        ),
        pytest.param(
            ["vendor", "vendor=nvidia"],
            "docs vendor needs into=\n  where:   command line\n  key:     into\n",
            id="no folder",
        ),
        pytest.param(
            ["model", "model=resnet50", "into=pages", "runs=gone"],
            "no run in this folder\n  where:   command line\n  given:   gone\n",
            id="no run",
        ),
    ],
)
def test_what_it_takes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["docs", *words]) == 2
    assert capsys.readouterr().err.startswith(f"flagperf: {message}")
