"""The test of reference convergence points: its decisions are those of MLPerf's own checker on the same data."""

from __future__ import annotations

import io
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_results import CONFIG, a_result

from flagperf.compare.golden import identity_of
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.report.texts import words
from flagperf.results import summary
from flagperf.results.convergence import Point, batch_of, held_against, pruned, sentence
from flagperf.results.summary import summary_of
from flagperf.verify.convergence import too_fast
from flagperf.verify.mesh import samples_of_step

REFERENCES = {  # batch → samples; of a benchmark whose submissions have ten rounds
    "two points": {16: [160 + n % 7 for n in range(20)], 32: [180 + n % 11 for n in range(20)]},
    "a slow point between, and a fast one": {
        8: [170.0] * 20,
        16: [150 + n % 5 for n in range(20)],
        32: [210 + n % 9 for n in range(20)],
        64: [200 + n % 13 for n in range(20)],
        128: [260 + n for n in range(20)],
    },
    "a point without a spread": {16: [100.0] * 20, 48: [130 + n for n in range(20)]},
    "one point": {32: [150 + n % 17 for n in range(20)]},
}
BATCHES = (4, 16, 24, 48, 100, 256)


JOB: dict[str, Any] = {
    "nnodes": 1,
    "nproc": 1,
    "parallel": {"mesh": {"dp_replicate": -1, "dp_shard": 1, "tp": 1}},
    "train_batch_size": 32,
    "gradient_accumulation_steps": 1,
    "division": "closed",
}


def jobs(points: dict[int, list[float]]) -> Iterator[tuple[int, list[float]]]:
    """Batch sizes and samples of ten rounds: around the bounds of the test, with rounds that miss the target."""
    drawn = random.Random(str(points))
    for batch in BATCHES:
        for missed in (0, 1, 2):
            for share in (0.9, 0.98, 0.99, 1.1):
                mean = share * points[min(points, key=lambda known: abs(known - batch))][0]
                samples = [round(mean * drawn.uniform(0.97, 1.03), 1) for _ in range(10 - missed)]
                yield batch, [*samples, *[math.inf] * missed]


def checker(folder: Path, points: dict[int, list[float]], batch: int, samples: Sequence[float]) -> bool:
    """The decision of MLPerf's checker, which reads a log a round."""
    from mlperf_logging.rcp_checker.rcp_checker import check_directory

    name = "llama31_8b"
    content = {
        f"{name}_{size}": {"Benchmark": name, "BS": size, "Hyperparams": {}, "Epochs to converge": list(known)}
        for size, known in points.items()
    }
    for number, needed in enumerate(samples):
        status = "success" if math.isfinite(needed) else "aborted"
        events: list[tuple[str, Any, dict[str, Any]]] = [
            ("submission_benchmark", name, {}),
            ("global_batch_size", batch, {}),
            ("eval_accuracy", 1.0, {"samples_count": needed if math.isfinite(needed) else 0}),
            ("run_stop", None, {"status": status}),
        ]
        lines = (json.dumps({"key": key, "value": value, "metadata": data}) for key, value, data in events)
        (folder / f"result_{number}.txt").write_text("".join(f":::MLLOG {line}\n" for line in lines))
    passed, _, _ = check_directory(
        str(folder), "training", "6.1.0", False, False, io.StringIO(json.dumps(content)), "pruned_rcps"
    )
    return bool(passed)


def seen_by_verify(points: dict[int, list[float]], batch: int, samples: Sequence[float]) -> bool:
    """Whether `flagperf verify` finds the job too fast."""
    known = [{"batch": size, "samples": needed} for size, needed in points.items()]
    config = {**JOB, "train_batch_size": batch, "reference_points": {"rounds": 10, "points": known}}
    rounds = [
        {"verdict": "VALID", "target_reached": math.isfinite(needed), "values": {"global_samples": needed}}
        for needed in samples
    ]
    return bool(list(too_fast(config, rounds)))


MESHES: dict[str, tuple[dict[str, int], int]] = {  # sizes of the mesh of 8 ranks, samples of a step
    "data parallel": ({"dp_replicate": -1, "dp_shard": 1, "tp": 1}, 256),
    "shards": ({"dp_replicate": 2, "dp_shard": -1, "tp": 1}, 256),
    "layers and stages": ({"dp_replicate": 1, "dp_shard": -1, "tp": 2, "pp": 2}, 64),
    "parts of sequences": ({"dp_replicate": -1, "dp_shard": 1, "tp": 1, "cp": 4}, 64),
    "experts": ({"dp_replicate": 1, "dp_shard": 2, "tp": 1, "cp": 2, "ep": 2}, 128),
}


@pytest.mark.parametrize(("sizes", "samples"), MESHES.values(), ids=MESHES.keys())
def test_verify_counts_the_samples_of_a_step_too(sizes: dict[str, int], samples: int) -> None:
    config = {**JOB, "nnodes": 2, "nproc": 4, "parallel": {"mesh": sizes}}
    assert (batch_of(config), samples_of_step(config)) == (samples, samples)


@pytest.mark.parametrize("points", [pytest.param(points, id=name) for name, points in REFERENCES.items()])
def test_decisions_are_those_of_the_checker_of_mlperf(tmp_path: Path, points: dict[int, list[float]]) -> None:
    known = [Point.of(batch, samples, rounds=10) for batch, samples in points.items()]
    decided, by_checker, faster, by_verify = [], [], [], []
    for batch, samples in jobs(points):
        answer = held_against(known, batch, samples, "a test")
        passed = answer is not None and answer.outcome in ("as expected", "slower")
        decided.append((batch, samples, passed))
        by_checker.append((batch, samples, checker(tmp_path, points, batch, samples)))
        faster.append((batch, samples, answer is not None and answer.outcome == "faster"))
        by_verify.append((batch, samples, seen_by_verify(points, batch, samples)))
    assert decided == by_checker
    assert faster == by_verify
    assert {passed for _, _, passed in decided} == {True, False}


REFERENCE = {
    "source": "a test",
    "rounds": 5,
    "points": [{"batch": 32, "samples": [900.0, *[1000.0, 1100.0] * 4, 1200]}],
}
CAUSES = (
    "Does the training evaluate other data, or train on the evaluation's data? "
    "Or are the reference points older than a change of the case?"
)
ANSWERS = {
    "as expected": ((1000, 1040, 1100), None, "as expected", "VALID"),
    "faster": ((800, 810, 820), None, "faster", "SUSPECT"),
    "one round, faster": ((800,), None, "faster", "SUSPECT"),
    "slower": ((1300, 1310, 1320), None, "slower", "VALID"),
    "one of three missed": ((1000, 1040, None), None, "as expected", "VALID"),
    "one of two missed": ((800, None), None, None, "VALID"),
    "a larger batch": ((800,), {"train_batch_size": 64}, "no point", "VALID"),
    "a smaller batch": ((800,), {"train_batch_size": 16}, "no point", "VALID"),
    "an open job": ((800,), {"division": "open"}, None, "VALID"),
    "no reference": ((800,), {"reference_points": None}, None, "VALID"),
}


SHIPPED = [
    pytest.param(size["points"], id=f"{path.stem}, {name}")
    for path in sorted((CONF / "convergence").glob("*.yaml"))
    for name, size in yaml.safe_load(path.read_text(encoding="utf-8"))["sizes"].items()
]


@pytest.mark.parametrize("reference", SHIPPED)
def test_no_training_of_a_reference_is_slower_than_itself(reference: list[dict[str, Any]]) -> None:
    points = [Point.of(point["batch"], point["samples"], rounds=5) for point in reference]
    kept = {point.batch for point in pruned(points)}
    answers = {
        (point["batch"], needed): answer.outcome
        for point in reference
        for needed in point["samples"]
        if point["batch"] in kept and (answer := held_against(points, point["batch"], [needed], "a test"))
    }
    assert [known for known, outcome in answers.items() if outcome == "slower"] == []


@pytest.mark.parametrize(
    ("samples", "config", "outcome", "verdict"), [pytest.param(*row, id=name) for name, row in ANSWERS.items()]
)
def test_a_job_is_judged(
    samples: Sequence[float | None], config: dict[str, Any] | None, outcome: str | None, verdict: str, tmp_path: Path
) -> None:
    results = [
        a_result(round=n, target_reached=needed is not None, values={"global_samples": needed})
        for n, needed in enumerate(samples, 1)
    ]
    done = summary_of("job", results, {**CONFIG, **JOB, "reference_points": REFERENCE, **(config or {})}, ())
    assert (done.convergence and done.convergence.outcome, summary.verdict(done)) == (outcome, verdict)
    reason = done.convergence and outcome == "faster" and f"{sentence(done.convergence)}. {CAUSES}"
    assert done.reasons == ((reason,) if reason else ())
    assert CAUSES in words("zh")
    summary.write(done, tmp_path)
    assert summary.read(tmp_path).convergence == done.convergence


@pytest.mark.parametrize("size", ["tiny", "full"])
def test_the_page_names_the_cases_that_have_points(size: str) -> None:
    page = (CONF.parent / "docs/numerics.md").read_text(encoding="utf-8")
    (cases,) = re.findall(rf"^\| {size} \| .+ \| (.+) \|$", page, re.MULTILINE)
    files = {path.stem: path.read_text(encoding="utf-8") for path in (CONF / "convergence").glob("*.yaml")}
    assert sorted(cases.split(", ")) == sorted(case for case, text in files.items() if f"\n  {size}:\n" in text)


@pytest.mark.parametrize("path", sorted((CONF / "convergence").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_shipped_reference_is_of_the_case_as_it_is_now(path: Path) -> None:
    """Where this fails, `python -m cases.convergence CASE` writes the file again."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for size, reference in content["sizes"].items():
        model = f"model={path.stem}"
        config = compose([model, f"size={size}", "dry_run=true"]).config
        assert (content["revision"], reference["target"]) == (config["revision"], config["target"])
        assert config["reference_points"]["points"] == [
            {"batch": point["batch"], "samples": point["samples"]} for point in reference["points"]
        ]
        assert len(reference["points"]) >= 2
        assert min(len(point["samples"]) for point in reference["points"]) >= 10
        measured = {point["identity"]: point["overrides"] for point in reference["points"] if "identity" in point}
        assert list(measured) == [identity_of(compose([model, *words]).config) for words in measured.values()]
