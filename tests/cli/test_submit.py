"""`flagperf docs submission`: folders of runs and jobs in, FlagPerf's Markdown out."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_results import CHANGES, write_job

from flagperf.cli.help import usage
from flagperf.cli.main import run_command

SYS_INFO = """\
os: Ubuntu 20.04
kernel: Linux 5.4.0 x86_64
cpu: EPYC 7742
hardware: NVIDIA DGX A100
driver: 535
docker: unknown
"""


def write_job_on_dgx(run: Path, nnodes: int, nproc: int, **finished: object) -> None:
    config = {"cluster": {"name": "lab", "nodes": [{}, {}]}, "data": {"name": "ImageNet-1k"}}
    job = write_job(run, nnodes, nproc, config, [change for change in CHANGES if change.key != "lr"], **finished)
    (job / "round1/node0_noderank0/sys_info.log").write_text(SYS_INFO)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run at 1x1 and 1x8 with versions, one at 2x8, and one at 2x8 that lost its figures."""
    folder = tmp_path_factory.mktemp("result")
    write_job_on_dgx(folder / "one", 1, 1)
    write_job_on_dgx(
        folder / "one", 1, 8, device_name="NVIDIA A100-SXM4-40GB", versions={"torch": "2.14", "nccl": None}
    )
    write_job_on_dgx(folder / "two", 2, 8)
    write_job_on_dgx(folder / "lost", 2, 8, p_core=None)
    return folder


FRAGMENT = """\
### nvidia A100 配置与运行信息参考

#### 环境配置

- 加速卡型号: NVIDIA A100-SXM4-40GB
- 机器型号: NVIDIA DGX A100
- CPU型号: EPYC 7742
- OS版本: Ubuntu 20.04
- OS kernel版本: Linux 5.4.0 x86_64
- 加速卡驱动版本: 535
- Docker 版本: /
- 多机网络类型、带宽: /
- 训练框架及依赖软件版本: torch 2.14

#### 运行情况

* 通用指标

| 指标名称 | 指标值 |
| --- | --- |
| 任务类别 | ResNet-50 |
| 模型 | resnet50 |
| 数据集 | ImageNet-1k |
| 数据精度 | precision，见“性能指标” |
| 超参修改 | fix_hp，见“性能指标”：跑满硬件设备评测吞吐量所需特殊超参 |
| 硬件设备简称 | nvidia A100 |
| 硬件存储使用 | mem（实际/总量），见“性能指标”，单位为 GiB |
| 端到端时间 | e2e_time，见“性能指标”：总时间 + 初始化等时间，单位为秒 |
| 总吞吐量 | p_whole，见“性能指标”，单位为 images/s：训练数据量除以训练总时间 |
| 训练吞吐量 | p_train，见“性能指标”，单位为 images/s：不含评估 |
| 计算吞吐量 | p_core，见“性能指标”，单位为 images/s：不含评估和等待数据 |
| 训练结果 | final_acc，见“性能指标”：acc1，目标 acc1 ≥ 95 % |
| 额外修改项 | num_workers: 32 → 8 |

* 性能指标

| 配置 | precision | fix_hp | e2e_time | p_whole | p_train | p_core | final_acc | mem |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- | --- |
| A100x1x1 | amp_bf16 | bs: 256 | 25 | 160 | 177.8 | 200 | 95.5% | / |
| A100x1x8 | amp_bf16 | bs: 256 | 25 | 160 | 177.8 | 200 | 95.5% | / |
| A100x2x8 | amp_bf16 | bs: 256 | 25 | 160 | 177.8 | 200 | 95.5% | / |
"""


def test_a_whole_submission(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of folders of runs, and of the one of a job."""
    job = runs / "two" / "resnet50-pytorch-A100x2x8"
    assert run_command(["docs", "submission", str(runs / "one"), str(job), str(runs / "lost")]) == 0
    printed = capsys.readouterr()
    assert printed.out == FRAGMENT
    assert printed.err == f"left out: {runs / 'lost' / job.name}: no p_core\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["one"], "A100: no job at 2x8", id="a scale is missing"),
        pytest.param(["one", "lost"], "A100x2x8: no p_core", id="a figure is missing"),
    ],
)
def test_holes(runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert run_command(["docs", "submission", *(str(runs / word) for word in words)]) == 2
    assert capsys.readouterr() == (
        "",
        "flagperf: no submission yet: something is missing\n  where:   command line\n"
        f"  given:   resnet50-pytorch-{said}\n"
        "  do:      flagperf model=resnet50 vendor=nvidia hardware=A100 size=full nnodes=2 nproc=8 cluster=lab "
        "data_dir=/data/imagenet\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "docs submission takes folders of runs or jobs\n  where:   command line\n", id="nothing"),
        pytest.param(
            ["scale=1x8"],
            "unknown option of docs\n  where:   command line\n  given:   scale\n  allowed: one of: require_alignment\n",
            id="no folder",
        ),
    ],
)
def test_what_it_takes(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert run_command(["docs", "submission", *words]) == 2
    assert capsys.readouterr().err == f"flagperf: {message}  do:      {usage('docs')}\n"
