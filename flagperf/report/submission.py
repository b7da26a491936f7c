"""Jobs of a case → FlagPerf's result table and the part of a vendor's README for that case; what they lack is refused.

FlagPerf wants three scales: the throughput of each, and from one node with eight devices the accuracy and the time of
the whole training. `/` is its sign for what a row does not tell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.keys import is_platform
from flagperf.config.values import Change
from flagperf.errors import ConfigError
from flagperf.report import cells
from flagperf.report.markdown import table
from flagperf.results.evidence import TRAINING_LIMITS
from flagperf.results.summary import RATES, metric, usable, verdict
from flagperf.results.sys_info import read_sys_info
from flagperf.results.values import Statistics, Summary

SCALES = ("1x1", "1x8", "2x8")
WHOLE = "1x8"  # the scale at which a case is trained to its end
NONE = "/"
UNKNOWN = ("", "unknown")  # in sys_info.log
BELOW = "\n           "  # next line of a part of an error
TOLD_APART = ("precision", *cells.SHORT_NAMES, *TRAINING_LIMITS)  # changes that have a column of their own, or none
FROM_HOST = {  # FlagPerf's name → that of sys_info.log
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


@dataclass(frozen=True)
class Job:
    """A job and the folder it lies in."""

    folder: Path
    summary: Summary

    @property
    def config(self) -> Mapping[str, Any]:
        return self.summary.config

    @property
    def scale(self) -> str:
        return "{nnodes}x{nproc}".format(**self.config)

    @property
    def trained_to_its_end(self) -> bool:
        """Whether it says what the case reaches: a round ended at the target or at the case's own limits."""
        return any(result.target_reached is not None for result in usable(self.summary.results))

    def figure(self, name: str | None) -> Statistics | None:
        return self.summary.statistics.get(name or "")


@dataclass(frozen=True)
class Hole:
    """What a submission lacks, and the command that fills it."""

    what: str
    command: str


def submissions(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs that belong together: those of one revision of a case, on one framework and product, by their scale."""
    found: dict[tuple[object, ...], list[Job]] = {}
    for job in sorted(jobs, key=lambda job: (job.config["nnodes"], job.config["nproc"])):
        names = (job.config[part]["name"] for part in ("framework", "vendor", "hardware"))
        found.setdefault((job.config["case"], job.config.get("revision", 1), *names), []).append(job)
    return list(found.values())


def check(groups: Sequence[Sequence[Job]]) -> None:
    """Refuse submissions with holes.

    Raises:
        ConfigError: it names every hole, and for each the command that fills it.
    """
    found = [hole for jobs in groups for hole in holes(jobs)]
    if found:
        raise ConfigError(
            "no submission yet: something is missing",
            given=BELOW.join(hole.what for hole in found),
            advice=BELOW.join(dict.fromkeys(hole.command for hole in found)),
        )


def holes(jobs: Sequence[Job]) -> Iterator[Hole]:
    """What the jobs of one submission lack."""
    config = jobs[0].config
    name = f"{config['case']}-{config['framework']['name']}-{config['hardware']['name']}"
    for scale in SCALES:
        here = [job for job in jobs if job.scale == scale]
        good = [job for job in here if not unfit(job)]
        if not here:
            yield Hole(f"{name}: no job at {scale}", command(jobs[0], scale))
        elif not good:
            yield from (Hole(f"{job.summary.name}: {unfit(job)}", command(job, scale)) for job in here)
        elif scale == WHOLE and not any(job.trained_to_its_end and job.figure(metric(job.summary)) for job in good):
            yield from (Hole(f"{job.summary.name}: no accuracy, {_ended(job)}", command(job, scale)) for job in good)


def unfit(job: Job) -> str:
    """Why a job is no part of any submission; "" where it is."""
    if (found := verdict(job.summary)) in ("INVALID", "RUNNING"):
        reasons = [reason for result in job.summary.results for reason in result.reasons]
        return ": ".join([found, *reasons[:1]])
    if job.config["size"] != "full":
        return f"size={job.config['size']} is not the case"
    results = job.summary.results
    kinds = {
        "synthetic batches": any(result.synthetic for result in results),
        "sample data": any(result.sample_data for result in results),
        "other data than the case's": any(result.other_data for result in results),
    }
    if on := [kind for kind, is_so in kinds.items() if is_so]:
        return f"trained on {on[0]}"
    missing = [name for name in RATES if job.figure(name) is None]
    return f"no {', '.join(missing)}" if missing else ""


def _ended(job: Job) -> str:
    reasons = {str(result.values.get("stop_reason")) for result in usable(job.summary.results)}
    return f"ended by {', '.join(sorted(reasons))}"


def command(job: Job, scale: str) -> str:
    """The command for the case of a job at another scale, to its end."""
    config, (nnodes, nproc) = job.config, scale.split("x")
    sampled = any(result.sample_data for result in job.summary.results)
    words = {
        "model": config["case"],
        "framework": "" if cells.is_main(config) else config["framework"]["name"],
        "vendor": config["vendor"]["name"],
        "hardware": config["hardware"]["name"],
        "size": "full" if config["size"] != "full" else "",
        "nnodes": nnodes if nnodes != "1" else "",
        "nproc": nproc,
        "cluster": _cluster(config["cluster"], int(nnodes)),
        "precision": config["precision"] if "precision" in {change.key for change in job.summary.changes} else "",
        "data_dir": "PATH" if sampled or not config["data_dir"] else config["data_dir"],
    }
    return shlex.join(["flagperf", *(f"{key}={value}" for key, value in words.items() if value)])


def _cluster(cluster: Mapping[str, Any], nnodes: int) -> str:
    """The cluster of the job, where it has so many hosts; else NAME, for the user to say."""
    if nnodes > max(1, len(cluster.get("nodes") or ())):
        return "NAME"
    name = str(cluster.get("name", "local"))
    return "" if name == "local" else name


def fragment(jobs: Sequence[Job]) -> str:
    """The part of FlagPerf's README of a case that tells one product's results, in Markdown."""
    fit = [job for job in jobs if not unfit(job)]
    hardware = fit[0].config["hardware"]
    return FRAGMENT.format(
        hardware=f"{fit[0].config['vendor']['name']} {hardware['name']}",
        environment="\n".join(f"- {name}: {value}" for name, value in _environment(fit).items()),
        general=table([{"指标名称": name, "指标值": value} for name, value in _general(fit).items()]),
        rows=table([row(job) for job in fit]),
    )


def row(job: Job) -> dict[str, str]:
    """One row of FlagPerf's result table. Means over the rounds; time and accuracy of whole trainings only."""
    figures = {name: job.figure(name) for name in ("e2e_time", *RATES)}
    told = {name: _number(figure) for name, figure in figures.items()}
    goal = job.summary.results[0].target
    accuracy = _number(job.figure(metric(job.summary))) + (goal.unit or "" if goal else "")
    whole = job.trained_to_its_end
    return {
        "配置": f"{job.config['hardware']['name']}x{job.scale}",
        "precision": job.config["precision"],
        "fix_hp": cells.fix_hp(job.summary).replace(cells.ABSENT, NONE),
        **told,
        "e2e_time": told["e2e_time"] if whole else NONE,
        "final_acc": accuracy if whole else NONE,
        "mem": cells.memory(job.summary).replace(cells.ABSENT, NONE),
    }


def _number(figure: Statistics | None) -> str:
    return cells.number(figure.mean).replace(",", "") if figure else NONE


def _environment(jobs: Sequence[Job]) -> dict[str, str]:
    """Machine and software, as the first host and the ranks at 1x8 told them."""
    job = next(job for job in jobs if job.scale == WHOLE)
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


def _general(jobs: Sequence[Job]) -> dict[str, str]:
    """FlagPerf's table of what the columns mean for this case."""
    config, goal = jobs[0].config, jobs[0].summary.results[0].target
    unit = config["throughput_unit"]
    suspect = [f"{job.summary.name} SUSPECT: {'; '.join(_reasons(job))}" for job in jobs if _reasons(job)]
    others = dict.fromkeys(_change(change) for job in jobs for change in job.summary.changes if _is_other(change))
    return {
        "任务类别": config.get("title", config["case"]),
        "模型": config["case"],
        "数据集": (config.get("data") or {}).get("name", NONE),
        "数据精度": "precision，见“性能指标”",
        "超参修改": "fix_hp，见“性能指标”：跑满硬件设备评测吞吐量所需特殊超参",
        "硬件设备简称": f"{config['vendor']['name']} {config['hardware']['name']}",
        "硬件存储使用": "mem（实际/总量），见“性能指标”，单位为 GiB",
        "端到端时间": "e2e_time，见“性能指标”：总时间 + 初始化等时间，单位为秒",
        "总吞吐量": f"p_whole，见“性能指标”，单位为 {unit}：训练数据量除以训练总时间",
        "训练吞吐量": f"p_train，见“性能指标”，单位为 {unit}：不含评估",
        "计算吞吐量": f"p_core，见“性能指标”，单位为 {unit}：不含评估和等待数据",
        "训练结果": f"final_acc，见“性能指标”：{goal.metric}，目标 {cells.condition(goal)}" if goal else NONE,
        "额外修改项": "；".join([*others, *suspect]) or "无",
    }


def _reasons(job: Job) -> list[str]:
    of_rounds = (reason for result in usable(job.summary.results) for reason in result.reasons)
    return list(dict.fromkeys([*job.summary.reasons, *of_rounds]))


def _is_other(change: Change) -> bool:
    return change.key not in TOLD_APART and not is_platform(change.key)


def _change(change: Change) -> str:
    return f"{change.key}: {change.before} → {change.after}"
