"""The alignment of a run: what a configuration records of it, and each refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import lines, message

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.digest import sha256_of

RECORD = {
    "case": "glm",
    "revision": 1,
    "framework": "pytorch",
    "vendor": "cpu",
    "hardware": "cpu",
    "precision": "fp32",
    "device": "a CPU",
    "inside": True,
    "curves": {"plain": "inside the band of fp32", "dropout": "inside the band of fp32"},
    "golden": sha256_of(CONF / "golden/glm.yaml"),
    "software": {"torch": "2.4.0"},
}
ADVICE = "flagperf align model=glm vendor=cpu hardware=cpu, then alignment=RUN_FOLDER"


def test_a_run_records_its_alignment(tmp_path: Path) -> None:
    (tmp_path / "align.json").write_text(json.dumps(RECORD), encoding="utf-8")
    for path in (tmp_path, tmp_path / "align.json"):
        config = compose(["model=glm", "require_alignment=true", f"alignment={path}"]).config
        assert config["alignment_record"] == RECORD
    assert "alignment_record" not in compose(["model=glm"]).config


OTHER = {
    "another vendor": ({"vendor": "acme"}, "the alignment does not cover this run: another vendor", "vendor: cpu"),
    "another case": ({"case": "bert"}, "the alignment does not cover this run: another case", "case: glm"),
    "other curves": (
        {"golden": "0" * 64},
        "the alignment does not cover this run: another golden",
        f"golden: {RECORD['golden']}",
    ),
    "a device that left the band": (
        {"inside": False, "curves": {"plain": "outside"}},
        "the device left the band in this alignment: outside",
        "inside: True",
    ),
}


@pytest.mark.parametrize(("other", "problem", "allowed"), [pytest.param(*row, id=name) for name, row in OTHER.items()])
def test_another_alignment_is_refused(tmp_path: Path, other: dict[str, object], problem: str, allowed: str) -> None:
    path = tmp_path / "align.json"
    path.write_text(json.dumps({**RECORD, **other}), encoding="utf-8")
    key = next(iter(other))
    details = {"where": "command line", "key": "alignment", "given": f"{path}, {key}: {other[key]}"}
    expected = lines(problem, **details, allowed=allowed, do=ADVICE)
    assert message(["model=glm", f"alignment={path}"]) == expected


def test_a_required_alignment_is_missing(tmp_path: Path) -> None:
    required = lines(
        "the run requires an alignment, and names none",
        where="command line",
        key="alignment",
        given="null",
        do=ADVICE,
    )
    assert message(["model=glm", "require_alignment=true"]) == required
    path = tmp_path / "align.json"
    path.write_text("{}", encoding="utf-8")
    details = {"where": "command line", "key": "alignment", "given": str(path)}
    no_record = lines("this is no record of an alignment: a required key is missing", **details, do=ADVICE)
    assert message(["model=glm", f"alignment={path}"]) == no_record
