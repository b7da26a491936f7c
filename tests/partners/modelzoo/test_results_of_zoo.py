"""What the README of a model folder tells as measured: rows, what is left out, what is missing, alignment with CUDA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from example import example_job
from example_results import CONFIG, a_result

from flagperf.config.schema.platform import Hardware, Vendor
from flagperf.contract.perflog import Event
from flagperf.partners.flagperf.submission import MeasuredJob
from flagperf.partners.modelzoo.results import alignment, left_out, missing, of_others, rows
from flagperf.results.summary import summary_of

LOSSES = {1: 4.0, 10: 2.0, 20: 1.0, 30: 0.8, 40: 0.5}
T100 = {"vendor": {"name": "tecorigin"}, "hardware": {"name": "T100", "memory_gib": 14.9}}
RUN = replace(
    example_job(),
    case="resnet50",
    vendor=Vendor("tecorigin", "Tecorigin", "sdaa", "tccl", None, None),
    hardware=Hardware("T100", "T100", 14.9, None, {}, devices_per_node=32, devices_per_card=4),
    config={**CONFIG, **T100},
)


def job(folder: Path, factor: float = 1.0, config: dict[str, Any] | None = None, **result: Any) -> MeasuredJob:
    """A job of four devices with its log of losses, which are the factor's times others."""
    chosen = {"nnodes": 1, "nproc": 4, "mutable": ["lr"], "lr": 0.1, "train_batch_size": 32, **(config or {})}
    values = {"p_whole": 90.0, "p_train": 100.0, "p_core": 110.0, "e2e_time": 500.0, "final_acc1": 76.0}
    built = {"software": {"versions": {"torch": "2.14"}, "code": {"flagperf": "aa"}}}
    fields = {"nnodes": 1, "nproc": 4, "seed": 0, "values": values, "built": built, **result}
    log = folder / "job" / "round1" / "node0_noderank0" / "rank0.out.log"
    log.parent.mkdir(parents=True)
    events = [Event("STEP_END", {"step": step, "loss": factor * loss}) for step, loss in LOSSES.items()]
    log.write_text("".join(f"{event.line()}\n" for event in events))
    return MeasuredJob(folder / "job", summary_of("job", [a_result(**fields)], {**CONFIG, **chosen}, ()))


def test_rows(tmp_path: Path) -> None:
    jobs = [
        job(tmp_path / "a", config=T100),
        job(tmp_path / "b", config=T100 | {"size": "tiny"}, target_reached=None),
        job(tmp_path / "c", config=T100, verdict="INVALID", reasons=("rank 3 died",)),
        job(tmp_path / "d"),
    ]
    card = {
        "加速卡": "tecorigin T100",
        "节点x设备": "1x4",
        "混合精度": "amp_bf16",
        "每设备批大小": "32",
        "学习率": "0.1",
    }
    speed = {"性能 (images/s)": "100.0"}
    assert rows(RUN, jobs) == [
        {**card, **speed, "精度": "76.00 % acc1", "训练耗时 (s)": "500.0", "判定": "VALID", "说明": "/"},
        {**card, **speed, "精度": "/", "训练耗时 (s)": "/", "判定": "VALID", "说明": "size=tiny"},
    ]
    assert left_out(RUN, jobs) == ["job: INVALID: rank 3 died"]
    assert missing(RUN, jobs) == ["T100 1x1", "T100 1x32"]
    assert missing(RUN, jobs[1:]) == ["T100 1x1", "T100 1x4", "T100 1x32"]


def test_jobs_of_others(tmp_path: Path) -> None:
    """Another revision of the product, and another case; another vendor's is a reference."""
    mine, old, cuda = (
        job(tmp_path / "a", config=T100),
        job(tmp_path / "b", config=T100 | {"revision": 9}),
        job(tmp_path),
    )
    other = job(tmp_path / "c", config=T100 | {"case": "bert"})
    assert of_others(RUN, [mine, old, cuda, other]) == [old, other]


def test_alignment_with_another_vendor(tmp_path: Path) -> None:
    cuda, near, far = (job(tmp_path / "cuda"), *(job(tmp_path / f"{x}", x, T100) for x in (1.005, 1.5)))
    (row,) = alignment(RUN, [near, cuda])
    assert (row["loss 平均相对误差"], row["精度相对误差"], row["结论 (≤ 1 %)"]) == ("0.5 %", "0 %", "一致")
    (row,) = alignment(RUN, [far, cuda])
    assert (row["loss 平均相对误差"], row["结论 (≤ 1 %)"]) == ("50 %", "不一致")
    assert alignment(RUN, [near]) == []


def test_what_cannot_be_aligned_is_told(tmp_path: Path) -> None:
    (row,) = alignment(RUN, [job(tmp_path / "new", config=T100 | {"lr": 0.2}), job(tmp_path / "cuda")])
    assert row["结论 (≤ 1 %)"] == "无法判断"
    assert row["说明"].endswith("lr: 0.2; 0.1, as in job")  # no path of this machine


def test_a_training_without_a_reference_is_told(tmp_path: Path) -> None:
    jobs = [job(tmp_path / "cuda"), *(job(tmp_path / f"t{n}", config=T100 | {"nproc": n}) for n in (1, 4))]
    found = {row["种子"]: row["说明"] for row in alignment(RUN, jobs)}
    assert found["/"] == "没有同一规模的参考"
    assert [*found] == ["0", "/"]
