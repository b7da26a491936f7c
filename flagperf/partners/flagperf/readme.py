"""FlagPerf's result table, and its README's part on the results of a product, in Markdown.

`/` is FlagPerf's sign for a value that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from flagperf.config.schema.keys import is_platform
from flagperf.contract.records import Change, Statistics
from flagperf.contract.sys_info import read_sys_info
from flagperf.partners.flagperf.submission import FULL_TRAINING, MeasuredJob, unfit
from flagperf.report import cells
from flagperf.report.markdown import table
from flagperf.results.evidence import TRAINING_LIMITS
from flagperf.results.summary import RATES, metric, usable

NONE = "/"
UNKNOWN = ("", "unknown")  # in sys_info.log
OWN_COLUMN = ("precision", *cells.SHORT_NAMES, *TRAINING_LIMITS)  # changes that the list of other changes leaves out
FROM_HOST = {  # FlagPerf's name → name in sys_info.log
    "机器型号": "hardware",
    "CPU型号": "cpu",
    "OS版本": "os",
    "OS kernel版本": "kernel",
    "加速卡驱动版本": "driver",
    "Docker 版本": "docker",
}
FRAGMENT = """\
### {hardware} 配置与运行信息参考

#### 环境配置

{environment}

#### 运行情况

* 通用指标

{general}

* 性能指标

{rows}
"""


def fragment(jobs: Sequence[MeasuredJob]) -> str:
    """The part of FlagPerf's README of a case on the results of a product, from the jobs that fit."""
    fit = [job for job in jobs if not unfit(job)]
    identity = fit[0].identity
    return FRAGMENT.format(
        hardware=f"{identity.vendor} {identity.hardware}",
        environment="\n".join(f"- {name}: {value}" for name, value in environment(fit).items()),
        general=table([{"指标名称": name, "指标值": value} for name, value in _general(fit).items()]),
        rows=table([row(job) for job in fit]),
    )


def row(job: MeasuredJob) -> dict[str, str]:
    """A row of FlagPerf's result table, with means over the rounds. Only complete trainings have time and accuracy."""
    figures = {name: job.figure(name) for name in ("e2e_time", *RATES)}
    figures_text = {name: _number(figure) for name, figure in figures.items()}
    goal = job.summary.results[0].target
    accuracy = _number(job.figure(metric(job.summary))) + (goal.unit or "" if goal else "")
    is_complete = job.trained_to_its_end
    return {
        "配置": f"{job.identity.hardware}x{job.identity.scale}",
        "precision": job.identity.precision,
        "fix_hp": cells.fix_hp(job.summary).replace(cells.ABSENT, NONE),
        **figures_text,
        "e2e_time": figures_text["e2e_time"] if is_complete else NONE,
        "final_acc": accuracy if is_complete else NONE,
        "mem": cells.memory(job.summary).replace(cells.ABSENT, NONE),
    }


def _number(figure: Statistics | None) -> str:
    return cells.number(figure.mean).replace(",", "") if figure else NONE


def environment(jobs: Sequence[MeasuredJob]) -> dict[str, str]:
    """Machine and software, from the logs of the first host and of the ranks, of the job at 1x8 where there is one."""
    job = next((job for job in jobs if job.identity.scale == FULL_TRAINING), jobs[0])
    result = usable(job.summary.results)[0]
    node = next(iter(sorted(job.folder.glob(f"round{result.round}/*_noderank0"))), job.folder)
    host = {name: value for name, value in read_sys_info(node).items() if value not in UNKNOWN}
    versions = (result.values.get("versions") or {}).items()
    return {
        "加速卡型号": str(result.values.get("device_name") or job.config["hardware"].get("title", NONE)),
        **{name: host.get(key, NONE) for name, key in FROM_HOST.items()},
        "多机网络类型、带宽": NONE,  # nothing measures it
        "训练框架及依赖软件版本": ", ".join(f"{name} {version}" for name, version in versions if version) or NONE,
    }


def _general(jobs: Sequence[MeasuredJob]) -> dict[str, str]:
    """FlagPerf's table on the meaning of the columns for this case."""
    config, identity, goal = jobs[0].config, jobs[0].identity, jobs[0].summary.results[0].target
    unit = identity.throughput_unit
    suspect = [f"{job.summary.name} SUSPECT: {'; '.join(_reasons(job))}" for job in jobs if _reasons(job)]
    changes = [change for job in jobs for change in job.summary.changes]
    others = dict.fromkeys(f"{c.key}: {c.before} → {c.after}" for c in changes if _is_other(c))
    return {
        "任务类别": config.get("title", identity.case),
        "模型": identity.case,
        "数据集": (config.get("data") or {}).get("name", NONE),
        "数据精度": "precision，见“性能指标”",
        "超参修改": "fix_hp，见“性能指标”：跑满硬件设备评测吞吐量所需特殊超参",
        "硬件设备简称": f"{identity.vendor} {identity.hardware}",
        "硬件存储使用": "mem（实际/总量），见“性能指标”，单位为 GiB",
        "端到端时间": "e2e_time，见“性能指标”：总时间 + 初始化等时间，单位为秒",
        "总吞吐量": f"p_whole，见“性能指标”，单位为 {unit}：训练数据量除以训练总时间",
        "训练吞吐量": f"p_train，见“性能指标”，单位为 {unit}：不含评估",
        "计算吞吐量": f"p_core，见“性能指标”，单位为 {unit}：不含评估和等待数据",
        "训练结果": f"final_acc，见“性能指标”：{goal.metric}，目标 {cells.condition(goal)}" if goal else NONE,
        "额外修改项": "；".join([*others, *suspect]) or "无",
    }


def _reasons(job: MeasuredJob) -> list[str]:
    of_rounds = (reason for result in usable(job.summary.results) for reason in result.reasons)
    return list(dict.fromkeys([*job.summary.reasons, *of_rounds]))


def _is_other(change: Change) -> bool:
    return change.key not in OWN_COLUMN and not is_platform(change.key)
