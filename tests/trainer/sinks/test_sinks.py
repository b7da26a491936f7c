"""Other formats beside PerfLog, as their own readers expect them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toy

from flagperf.contract.perflog import Event
from flagperf.contract.sample_data import MARKER
from flagperf.errors import ConfigError
from flagperf.partners.modelzoo.dllogger_log import read_log
from flagperf.partners.modelzoo.log_rules import log_faults
from flagperf.trainer.sinks import open_sinks
from flagperf.trainer.sinks.mllog import eval_accuracy, submission

MLPERF = {
    "division": "open",
    "org": "Example",
    "status": "research",
    "platform": None,
    "benchmark": "resnet",
    "ruleset": "4.0.0",
    "factor": 0.01,
    "hyper_parameters": {"sgd_opt_base_learning_rate": "lr", "opt_learning_rate_warmup_epochs": 0},
}
CONFIG = toy.config(
    gradient_accumulation_steps=4,
    target={"metric": "acc1", "value": 75.5, "direction": "higher"},
    clear_caches=True,
    mlperf=MLPERF,
)
BUILT = {
    "data": {"train": 64, "eval": 19},
    "network": {"classes": {"torch.nn.modules.batchnorm.BatchNorm": 1}},
    "optimizer": {"class": "torch.optim.sgd.SGD"},
}
LOWEST = "lowest_numerical_precision_in"
STEP = {"epoch": 2, "loss": 0.5, "learning_rate": 0.1, "throughput": 80.0, "step_time": 0.4, "data_wait": 0.0}
EVENTS = [
    Event("SUBMIT_INFO", {"vendor": "cpu", "case": "toy", "config": CONFIG}, "a.py", 1, 1_000),
    Event("INIT_START", {}, "a.py", 2, 2_000),
    Event("BUILT", BUILT, "a.py", 2, 2_500),
    Event("INIT_END", {}, "a.py", 3, 3_000),
    Event("TRAIN_START", {}, "a.py", 4, 4_000),
    Event("EPOCH_BEGIN", {"epoch": 2}, "a.py", 5, 5_000),
    Event("STEP_BEGIN", {"step": 7}, "a.py", 6, 6_000),
    Event("STEP_END", {"step": 7, **STEP}, "a.py", 7, 7_250),
    Event("EVALUATE", {"step": 7, "samples": 224, "acc1": 76.0, "time": 0.5}, "a.py", 8, 8_000),
    Event("EPOCH_END", {"epoch": 2, "step": 7}, "a.py", 9, 9_000),
    Event("TRAIN_END", {}, "a.py", 10, 10_000),
    Event("FINISHED", {"converged": True, "p_whole": 81.5, "target": None, "ranks": []}, "a.py", 11, 11_000),
]


def written(name: str, folder: Path) -> None:
    (sink,) = open_sinks([name], 0, str(folder))
    for event in EVENTS:
        sink.write(event)


def mllog(key: str, kind: str, time_ms: int, lineno: int, value: Any = None, **metadata: Any) -> dict[str, Any]:
    place = {"file": "a.py", "lineno": lineno, **metadata}
    return {"namespace": "", "time_ms": time_ms, "event_type": kind, "key": key, "value": value, "metadata": place}


def test_mllog(tmp_path: Path) -> None:
    written("mllog", tmp_path)
    lines = (tmp_path / "mllog.log").read_text().splitlines()
    assert all(line.startswith(":::MLLOG {") for line in lines)
    point, begin, end = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"
    at = {"epoch_num": 2, "samples_count": 224, "step": 7}
    case = {"case": "toy", "revision": 1, "size": "tiny", "framework": "pytorch", "sample_data": False}
    stats = {"throughput": 80.0, "loss": 0.5, "learning_rate": 0.1}
    assert [json.loads(line.removeprefix(":::MLLOG ")) for line in lines] == [
        mllog("submission_org", point, 1_000, 1, "Example"),
        mllog("submission_status", point, 1_000, 1, "research"),
        mllog("submission_division", point, 1_000, 1, "open"),
        mllog("submission_benchmark", point, 1_000, 1, "resnet"),
        mllog("submission_platform", point, 1_000, 1, "1x1 cpu"),
        mllog("flagperf_case", point, 1_000, 1, case),
        mllog("cache_clear", point, 1_000, 1, True),
        mllog("seed", point, 1_000, 1, 0),
        mllog("global_batch_size", point, 1_000, 1, 32),
        mllog("gradient_accumulation_steps", point, 1_000, 1, 4),
        mllog("micro_batch_size", point, 1_000, 1, 8),
        mllog("opt_base_learning_rate", point, 1_000, 1, 0.1),
        *(
            mllog(f"lowest_numerical_precision_in_{part}", point, 1_000, 1, "fp32")
            for part in ("linear", "attn", "comm")
        ),
        *(mllog(f"{kind}_parallelism", point, 1_000, 1, 1) for kind in ("tensor", "pipeline", "context", "expert")),
        mllog("config_filename", point, 1_000, 1, "config.yaml"),
        mllog("sgd_opt_base_learning_rate", point, 1_000, 1, 0.1),
        mllog("opt_learning_rate_warmup_epochs", point, 1_000, 1, 0),
        mllog("init_start", begin, 2_000, 2),
        mllog("train_samples", point, 2_500, 2, 64),
        mllog("eval_samples", point, 2_500, 2, 19),
        mllog("opt_name", point, 2_500, 2, "sgd"),
        mllog("model_bn_span", point, 2_500, 2, 8),
        mllog("init_stop", end, 3_000, 3),
        mllog("run_start", begin, 4_000, 4),
        mllog("epoch_start", begin, 5_000, 5, epoch_num=2),
        mllog("tracked_stats", point, 7_250, 7, stats, step=7, epoch_num=2),
        mllog("eval_start", begin, 7_500, 8, **at),
        mllog("eval_accuracy", point, 8_000, 8, 0.76, **at),
        mllog("eval_stop", end, 8_000, 8, **at),
        mllog("epoch_stop", end, 9_000, 9, epoch_num=2),
        mllog("run_stop", end, 10_000, 11, status="success"),
    ]


def told(**changed: Any) -> dict[str, Any]:
    """What the configuration tells MLPerf, apart from what any configuration tells it."""
    common = ("flagperf_case", "submission_platform", "seed", "gradient_accumulation_steps", "config_filename")
    ends = ("_batch_size", "_parallelism", "_in_linear", "_in_attn", "_in_comm")
    found = submission({**CONFIG, **changed})
    return {key: value for key, value in found.items() if key not in common and not key.endswith(ends)}


KNOWN = {"submission_division": "open", "submission_benchmark": "toy", "opt_base_learning_rate": 0.1}


def test_mllog_tells_only_what_was_so(tmp_path: Path) -> None:
    """Nothing that only the user knows, no caches that were not cleared, no recipe of an open run."""
    said = dict.fromkeys(("org", "status", "platform")) | {"division": "open"}
    assert told(mlperf=said, clear_caches=False) == {**KNOWN, "cache_clear": False}
    (tmp_path / MARKER).touch()
    assert told(mlperf=said, data_dir=str(tmp_path)) == {**KNOWN, "cache_clear": False}
    assert "sgd_opt_base_learning_rate" not in told(division="open")


@pytest.mark.parametrize(
    ("what", "value"),
    [
        pytest.param("max_steps", 100, id="a setting"),
        pytest.param(3, 3, id="a number"),
        pytest.param({"text": "cosine"}, "cosine", id="a text"),
        pytest.param({"product": ["lr", "share"]}, 8e-05, id="a product"),
        pytest.param({"difference": ["max_steps", "warmup"]}, 88, id="a difference"),
    ],
)
def test_what_hyper_parameters_are(what: Any, value: Any) -> None:
    settings = {"lr": 8e-4, "share": 0.1, "max_steps": 100, "warmup": 12}
    assert told(mlperf={**MLPERF, "hyper_parameters": {"key": what}}, **settings)["key"] == value


SHARDED = {"_target_": "flagperf.trainer.pytorch.parallel.Sharded"}


@pytest.mark.parametrize(
    ("settings", "sides", "formats", "tp"),
    [
        pytest.param({"precision": "amp_bf16"}, (-1, 1, 1), ("bfloat16", "bfloat16", "fp32"), 1, id="DDP"),
        pytest.param({"precision": "tf32"}, (1, -1, 1), ("tf32", "tf32", "fp32"), 1, id="tf32, sharded"),
        pytest.param({"precision": "amp_fp16"}, (1, -1, 2), ("fp16", "fp16", "fp16"), 2, id="tensor parallel"),
        pytest.param(
            {"precision": "amp_bf16", "float8_modules": "a.B"}, (1, -1, 1), ("fp8", "bfloat16", "bfloat16"), 1, id="fp8"
        ),
    ],
)
def test_the_formats_and_the_parallelism_of_mllog(
    settings: dict[str, str], sides: tuple[int, ...], formats: tuple[str, ...], tp: int
) -> None:
    strategy = SHARDED if sides[0] == 1 else CONFIG["parallel"]
    parallel = {**strategy, "mesh": dict(zip(("dp_replicate", "dp_shard", "tp"), sides, strict=True))}
    said = submission({**CONFIG, **settings, "nnodes": 2, "nproc": 2, "parallel": parallel})
    found = tuple(said[f"{LOWEST}_{part}"] for part in ("linear", "attn", "comm"))
    assert (found, said["tensor_parallelism"]) == (formats, tp)


@pytest.mark.parametrize(
    "what",
    [{"sum": ["lr", "lr"]}, {"product": ["lr", "none"]}, {"difference": ["lr"]}, {"product": ["case", "lr"]}, {}],
    ids=str,
)
def test_no_hyper_parameter(what: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"key:     mlperf\.hyper_parameters\.key\n"):
        told(mlperf={**MLPERF, "hyper_parameters": {"key": what}})


@pytest.mark.parametrize(
    ("mlperf", "accuracy"),
    [
        pytest.param({}, 76.0, id="of the target"),
        pytest.param({"accuracy": None}, 76.0, id="a case that changes another and has no benchmark"),
        pytest.param({"accuracy": "acc5", "factor": 0.01}, 0.5, id="another"),
        pytest.param({"accuracy": {"BBOX": "acc1", "SEGM": "acc5"}, "factor": 0.5}, {"BBOX": 38, "SEGM": 25}, id="two"),
        pytest.param({"accuracy": "none"}, None, id="not evaluated"),
    ],
)
def test_the_accuracy_of_mllog(mlperf: dict[str, Any], accuracy: Any) -> None:
    assert eval_accuracy({"acc1": 76.0, "acc5": 50.0}, {**CONFIG, "mlperf": mlperf}) == accuracy


def test_mlperfs_checker_accepts_a_training(tmp_path: Path) -> None:
    """The program itself, on the log of a real training."""
    mlperf = {**MLPERF, "accuracy": "accuracy", "factor": 0.5}
    done = toy.start(toy.config(sinks=["mllog"], mlperf=mlperf), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "training", "--ruleset", "4.0.0"]
    checked = subprocess.run([*command, "--werror", "mllog.log"], cwd=tmp_path, capture_output=True, text=True)
    assert (checked.stderr.splitlines()[-1:], checked.returncode) == (["INFO - SUCCESS"], 0)


def test_dllogger(tmp_path: Path) -> None:
    written("dllogger", tmp_path)
    lines = (tmp_path / "dllogger.json").read_text().splitlines()
    assert all(line.startswith("TCAPPDLL {") for line in lines)
    entries = [json.loads(line.removeprefix("TCAPPDLL ")) for line in lines]
    assert [(entry["type"], entry.get("metric")) for entry in entries] == [
        *(("METADATA", f"train.{name}") for name in ("loss", "ips", "total_time", "learning_rate")),
        ("METADATA", "val.acc1"),
        ("LOG", None),
        ("LOG", None),
        ("METADATA", "p_whole"),
        ("LOG", None),
    ]
    described = {entry["metric"]: entry["metadata"] for entry in entries if entry["type"] == "METADATA"}
    assert {name: tuple(said.values()) for name, said in described.items()} == {
        "train.loss": ("", ":.6g", "MINIMIZE", "TRAIN"),
        "train.ips": ("points/s", ":.6g", "MAXIMIZE", "TRAIN"),
        "train.total_time": ("s", ":.6g", "MINIMIZE", "TRAIN"),
        "train.learning_rate": ("", ":.6g", "MAXIMIZE", "TRAIN"),
        "val.acc1": ("", ":.6g", "MAXIMIZE", "VALID"),
        "p_whole": ("points/s", ":.6g", "MAXIMIZE", "TRAIN"),
    }
    assert list(described["train.ips"]) == ["unit", "format", "GOAL", "STAGE"]
    step, evaluation, summary = (entry for entry in entries if entry["type"] == "LOG")
    assert list(step) == ["timestamp", "datetime", "elapsedtime", "type", "step", "data"]
    assert (step["timestamp"], step["elapsedtime"], step["step"]) == ("7.25", "6.25", [2, 7])
    assert step["datetime"].endswith(".250000")
    assert ast.literal_eval(step["data"]) == {
        "rank": "0",
        "train.loss": "0.5",
        "train.ips": "80.0",
        "train.total_time": "0.4",
        "train.learning_rate": "0.1",
    }
    assert (evaluation["step"], ast.literal_eval(evaluation["data"])) == ([2, 7], {"rank": "0", "val.acc1": "76.0"})
    assert (summary["step"], ast.literal_eval(summary["data"])) == ([], {"converged": "True", "p_whole": "81.5"})


def test_dllogger_describes_each_metric(tmp_path: Path) -> None:
    """A target that is to fall, a metric beside it, and the final values of both."""
    (sink,) = open_sinks(["dllogger"], 0, str(tmp_path))
    target = {"metric": "wer", "value": 5.0, "direction": "lower", "unit": "%", "also": {"cer": 2.0}}
    metrics = {"wer": 4.0, "cer": 1.0, "eval_loss": 0.3, "bleu": 20.0}
    finals = {"final_loss": 0.1, **{f"final_{name}": value for name, value in metrics.items()}}
    sink.write(Event("SUBMIT_INFO", {"config": {**CONFIG, "target": target}}, time_ms=1_000))
    sink.write(Event("EVALUATE", {"step": 7, "samples": 224, "time": 0.5, **metrics}, time_ms=2_000))
    sink.write(Event("FINISHED", {"converged": True, "parameters": 10, **finals}, time_ms=3_000))
    lines = (tmp_path / "dllogger.json").read_text().splitlines()
    entries = [json.loads(line.removeprefix("TCAPPDLL ")) for line in lines]
    told = {entry["metric"]: entry["metadata"] for entry in entries if entry["type"] == "METADATA"}
    of_case = {name: (said["unit"], said["GOAL"], said["STAGE"]) for name, said in told.items()}
    valid = {
        "wer": ("%", "MINIMIZE", "VALID"),
        "cer": ("%", "MINIMIZE", "VALID"),
        "eval_loss": ("", "MINIMIZE", "VALID"),
        "bleu": ("", "MAXIMIZE", "VALID"),
    }
    assert {name: said for name, said in of_case.items() if name.startswith(("val.", "final_"))} == {
        **{f"val.{name}": said for name, said in valid.items()},
        "final_loss": ("", "MINIMIZE", "TRAIN"),
        **{f"final_{name}": said for name, said in valid.items()},
    }
    assert set(ast.literal_eval(entries[-1]["data"])) == {"converged", *finals}


@pytest.mark.slow
def test_a_log_for_dllogger_is_what_the_modelzoo_asks_for(tmp_path: Path) -> None:
    """Of a real training with evaluations, by the reader that follows the public description of tcap_dllogger."""
    target = {"metric": "accuracy", "value": 2.0, "direction": "higher", "unit": ""}
    done = toy.start(toy.config(sinks=["dllogger"], max_steps=8, target=target), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    log = read_log(tmp_path / "dllogger.json")
    assert list(log_faults("dllogger.json", log, 8)) == []
    told = toy.read_log(tmp_path / "rank0.out.log")
    assert [value.number for value in log.of("train.loss")] == toy.losses(told)
    evaluations = [event.value["accuracy"] for event in told if event.event == "EVALUATE"]
    assert [value.number for value in log.of("val.accuracy")] == evaluations
    assert len(evaluations) > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    written("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    scalars = {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert scalars["train/loss"] == [(7, 0.5)]
    assert scalars["eval/acc1"] == [(7, 76.0)]
    assert scalars["train/throughput"] == [(7, 80.0)]


def test_only_rank_0_writes(tmp_path: Path) -> None:
    assert open_sinks(["mllog", "dllogger"], 1, str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- a sink of the user's own

PAGE = toy.ROOT / "docs" / "perflog.md"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A folder of modules with the sink that docs/perflog.md shows."""
    shown = re.search(
        r"^```python\n(import json\n.*?^class LossFile.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    assert shown
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "mine.py").write_text(shown[1], encoding="utf-8")
    return folder


@pytest.mark.slow
def test_a_users_own_beside_a_training(python: Path, tmp_path: Path) -> None:
    sinks = ["mllog", {"_target_": "mine.LossFile", "name": "own.jsonl"}]
    done = toy.start(toy.config(sinks=sinks, max_steps=2), tmp_path, python=python)
    log = tmp_path / "rank0.out.log"
    assert done.returncode == 0, log.read_text()
    losses = [json.loads(line)["loss"] for line in (tmp_path / "own.jsonl").read_text().splitlines()]
    assert (losses, len(losses)) == (toy.losses(toy.read_log(log)), 2)
    assert (tmp_path / "mllog.log").is_file()


ALLOWED = "  allowed: a mapping with the class of a sink as _target_, and its arguments"


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        pytest.param(
            {"_target_": "mine.LosFile"},
            "no such class or function\n  where:   config.yaml\n  key:     sinks[1]._target_\n"
            "  given:   mine.LosFile\n",
            id="no such class",
        ),
        pytest.param(
            {"_target_": "mine.LossFile", "nam": "x"},
            "the sink cannot be made\n  where:   config.yaml\n  key:     sinks[1]\n"
            f"  given:   {{'_target_': 'mine.LossFile', 'nam': 'x'}}\n{ALLOWED}\n"
            "  do:      TypeError: LossFile.__init__() got an unexpected keyword argument 'nam'",
            id="no such argument",
        ),
        pytest.param(
            {"_target_": "mine.LossFile", "name": "no/such/folder"},
            "the sink cannot be made\n  where:   config.yaml\n  key:     sinks[1]\n",
            id="it raises",
        ),
        pytest.param(
            {"_target_": "pathlib.Path"},
            "this is no sink\n  where:   config.yaml\n  key:     sinks[1]\n"
            f"  given:   {{'_target_': 'pathlib.Path'}}\n{ALLOWED}\n"
            "  do:      docs/perflog.md says what a sink is",
            id="another class",
        ),
        pytest.param(
            {"target": "x"}, "this names no sink\n  where:   config.yaml\n  key:     sinks[1]\n", id="no class"
        ),
    ],
)
def test_a_wrong_sink_is_refused(
    sink: dict[str, str], message: str, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(python))
    with pytest.raises(ConfigError) as refused:
        open_sinks(["mllog", sink], 0, str(tmp_path))
    assert str(refused.value).startswith(message)


ATTACK = """
import sys
class Patch:
    def __init__(self, folder):
        import flagperf.trainer.pytorch.engine as engine
        engine.TorchEngine.step = None
    def write(self, event):
        event.value.clear()
        print('[PerfLog] {"event": "FINISHED"}', flush=True)
class Fails:
    def __init__(self, folder):
        pass
    def write(self, event):
        if event.event == "TRAIN_END":
            sys.exit("no room")
"""


@pytest.mark.slow
def test_a_users_own_has_no_part_in_the_training(tmp_path: Path) -> None:
    """One that patches the step and prints events changes nothing; one that fails ends the training with its word."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python/mine.py").write_text(ATTACK)
    sinks = [{"_target_": "mine.Patch"}, {"_target_": "mine.Fails"}]
    done = toy.start(toy.config(sinks=sinks, max_steps=2), tmp_path, python=tmp_path / "python")
    log = (tmp_path / "rank0.out.log").read_text()
    assert done.returncode == 1
    assert re.search(
        r"^FlagperfError: sinks\[1\]: the process of the sink has ended \(sinks1.out.log\): no room$", log, re.M
    )
    events = [event.event for event in toy.read_log(tmp_path / "rank0.out.log")]
    assert (events.count("STEP_END"), events.count("FINISHED")) == (2, 1)


def test_beside_a_training(tmp_path: Path) -> None:
    """Lines of every format from one real training, without changing its PerfLog."""
    done = toy.start(toy.config(sinks=["mllog", "dllogger"], max_steps=2), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    keys = [json.loads(line.split(" ", 1)[1])["key"] for line in (tmp_path / "mllog.log").read_text().splitlines()]
    assert [keys[18], keys[-1]] == ["init_start", "run_stop"]
    assert (tmp_path / "dllogger.json").read_text().count('"type": "LOG"') == 3
    events = [event.event for event in toy.read_log(tmp_path / "rank0.out.log")]
    assert (events[0], events[-1]) == ("SUBMIT_INFO", "FINISHED")
