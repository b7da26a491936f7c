"""The alignment of a run: what a configuration records of it, and each refusal."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from example_alignment import CURVES_OF_GLM, write_alignment
from refusals import lines, message

from flagperf.config.compose import compose
from flagperf.contract.alignment import CURVES, recomputed
from flagperf.contract.digest import sha256_of

ADVICE = "flagperf align model=glm vendor=cpu hardware=cpu, then alignment=RUN_FOLDER"
INSIDE = "inside the band of fp32: 20 steps, at most 0 times the band (loss, step 1)"


def refusal(given: object, problem: str, allowed: str | None = None) -> str:
    fields = {"where": "command line", "key": "alignment", "given": str(given)}
    return lines(problem, **fields, **({"allowed": allowed} if allowed else {}), do=ADVICE)


def test_a_run_records_its_alignment(tmp_path: Path) -> None:
    record = write_alignment(tmp_path)
    assert record == {
        "case": "glm",
        "revision": 1,
        "framework": "pytorch",
        "vendor": "cpu",
        "hardware": "cpu",
        "precision": "fp32",
        "device": "a CPU",
        "inside": True,
        "curves": {"plain": INSIDE, "dropout": INSIDE},
        "golden": sha256_of(CURVES_OF_GLM),
        "software": {"torch": "2.4.0"},
    }
    for path in (tmp_path, tmp_path / "align.json"):
        config = compose(["model=glm", "require_alignment=true", f"alignment={path}"]).config
        assert config["alignment_record"] == record
    assert "alignment_record" not in compose(["model=glm"]).config


def test_an_alignment_with_curves_of_your_own_is_recorded_and_is_not_what_a_run_requires(tmp_path: Path) -> None:
    write_alignment(tmp_path)
    curves, path = tmp_path / CURVES, tmp_path / "align.json"
    curves.write_text(f"# mine\n{curves.read_text(encoding='utf-8')}", encoding="utf-8")
    record = dataclasses.asdict(recomputed(tmp_path))
    path.write_text(json.dumps(record), encoding="utf-8")
    assert compose(["model=glm", f"alignment={path}"]).config["alignment_record"] == record
    given, allowed = f"{path}, golden: {sha256_of(curves)}", f"golden: {sha256_of(CURVES_OF_GLM)}"
    refused = refusal(given, "the alignment does not cover this run: another golden", allowed)
    assert message(["model=glm", "require_alignment=true", f"alignment={path}"]) == refused


def test_cases_with_one_tiny_size_share_the_alignment(tmp_path: Path) -> None:
    record = write_alignment(tmp_path, case="llama2_7b", revision=7)
    assert compose(["model=llama2_13b", f"alignment={tmp_path}"]).config["alignment_record"] == record
    assert "flagperf align model=llama2_7b vendor=" in message(["model=llama2_13b", "require_alignment=true"])


OTHER: dict[str, tuple[dict[str, Any], str, str]] = {
    "another vendor": ({"vendor": {"name": "acme"}}, "vendor", "acme"),
    "another case": ({"case": "bert"}, "case", "bert"),
}


@pytest.mark.parametrize(("other", "key", "given"), [pytest.param(*row, id=name) for name, row in OTHER.items()])
def test_another_alignment_is_refused(tmp_path: Path, other: dict[str, Any], key: str, given: str) -> None:
    write_alignment(tmp_path, **other)
    allowed = f"{key}: {'glm' if key == 'case' else 'cpu'}"
    refused = refusal(
        f"{tmp_path}/align.json, {key}: {given}", f"the alignment does not cover this run: another {key}", allowed
    )
    assert message(["model=glm", f"alignment={tmp_path}"]) == refused


def test_a_device_that_left_the_band_is_refused(tmp_path: Path) -> None:
    record = write_alignment(tmp_path, factor=1.001)
    verdicts = "; ".join(record["curves"].values())
    assert verdicts.count("outside the band of fp32 from step 7 on: loss is the first outside") == 2
    refused = refusal(
        f"{tmp_path}/align.json, inside: False",
        f"the device left the band in this alignment: {verdicts}",
        "inside: True",
    )
    assert message(["model=glm", f"alignment={tmp_path}"]) == refused


def test_a_record_that_does_not_follow_from_its_logs_is_refused(tmp_path: Path) -> None:
    """The logs of a device that left the band, beside the record of another that did not; and another device."""
    record, path = write_alignment(tmp_path), tmp_path / "align.json"
    problem = "the record of the alignment does not follow from its logs: {} differs"
    write_alignment(tmp_path, factor=1.001)
    path.write_text(json.dumps(record), encoding="utf-8")
    refused = refusal(f"{path}, inside: True", problem.format("inside"), "inside: False")
    assert message(["model=glm", f"alignment={path}"]) == refused
    write_alignment(tmp_path)
    path.write_text(json.dumps({**record, "device": "A100"}), encoding="utf-8")
    refused = refusal(f"{path}, device: A100", problem.format("device"), "device: a CPU")
    assert message(["model=glm", f"alignment={path}"]) == refused


def test_a_required_alignment_is_missing(tmp_path: Path) -> None:
    required = refusal("null", "the run requires an alignment, and names none")
    assert message(["model=glm", "require_alignment=true"]) == required
    path = tmp_path / "align.json"
    path.write_text("{}", encoding="utf-8")
    assert message(["model=glm", f"alignment={path}"]) == refusal(
        path, "this is no record of an alignment: a required key is missing"
    )
    write_alignment(tmp_path)
    (tmp_path / "dropout.log").unlink()
    problem = (
        "the record of the alignment cannot be recomputed from its logs: FileNotFoundError: [Errno 2] No such file"
    )
    refused = message(["model=glm", f"alignment={path}"])
    assert refused.startswith(problem)
    assert "a folder with align.json, golden.yaml, plain.log, dropout.log" in refused
