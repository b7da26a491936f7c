"""`flagperf align`: a training held against golden curves, on the chip made of Python, and what is refused before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from flagperf_command import flagperf

from flagperf.cli.align import HINT, job_of, shipped_curves
from flagperf.cli.main import run_command
from flagperf.compare.golden import ALWAYS, check_overrides, identity_of
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.golden import Curve, Golden, read
from flagperf.contract.regular import yaml_text
from flagperf.errors import ConfigError
from flagperf.run.folder import write_configuration
from flagperf.verify import check

DATA = Path(__file__).parents[1] / "data"
CHIP = ("vendor=acme", "hardware=A1", "runtime=process", f"code_dir={DATA}/acme_chip/code")
FOLDERS = ("--config-dir", f"{DATA}/acme_chip", "--config-dir", f"{DATA}/acme")
WORDS = ["model=glm", "precision=fp32"]
EMPTY = Curve([], [], {})


def golden(**other: object) -> Golden:
    overrides = [*ALWAYS, "clip_grad=1.0"]
    identity = identity_of(compose(["model=glm", *overrides]).config)
    values = {"case": "glm", "revision": 1, "name": "plain", "overrides": overrides, "identity": identity}
    return Golden(**{**values, "curve": EMPTY, "bands": {"fp32": EMPTY}, **other})  # type: ignore[arg-type]


REFUSED = {
    "the case has changed": ({"identity": "0" * 16}, WORDS, "the case has changed since its golden curve was written"),
    "another learning rate": ({}, [*WORDS, "lr=0.01"], "would compute something else than the golden curve"),
    "no band": ({}, ["model=glm", "precision=tf32"], "the golden curve has no band for this precision"),
}


@pytest.mark.parametrize(("other", "words", "why"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
def test_what_cannot_be_compared_is_refused(other: dict[str, object], words: list[str], why: str) -> None:
    assert job_of(golden(), WORDS, []).case == "glm"
    with pytest.raises(ConfigError, match=why):
        job_of(golden(**other), words, [])


CODE = {
    "a sink": "sinks=[{_target_: os.system, command: touch owned}]",
    "an argument that is made": "network.config={_target_: subprocess.getoutput, cmd: touch owned}",
    "another class": "optimizer._target_=mine.Adam",
    "a class by an added key": "+network.x={_target_: mine.X}",
    "a plug-in of the vendor": "vendor.plugin=planted",
    "an interpreter": "runtime.python=/tmp/python",
    "a variable": "train_data.path=${oc.env:HOME}",
    "another folder of code": "code_dir=/tmp/code",
}


@pytest.mark.parametrize("override", CODE.values(), ids=CODE.keys())
def test_curves_of_others_set_values_and_no_code(
    override: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = yaml.safe_load((CONF / "golden/glm.yaml").read_text())
    shipped["curves"]["plain"]["overrides"].append(override)
    (tmp_path / "golden.yaml").write_text(yaml.safe_dump(shipped))
    assert run_command(["align", "model=glm", f"golden={tmp_path}/golden.yaml", f"result_dir={tmp_path}/result"]) == 2
    assert capsys.readouterr().err == (
        f"flagperf: a golden curve cannot set this\n  where:   the curve plain\n"
        f"  key:     {override.partition('=')[0]}\n  given:   {override}\n"
        "  allowed: values of the settings that decide what a training computes; no _target_ and no ${…}\n"
        "  do:      a class of yours belongs into a case: --config-dir FOLDER\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["golden.yaml"]


def test_a_curve_is_named_by_a_word(tmp_path: Path) -> None:
    """Its log and its run have this name."""
    shipped = yaml.safe_load((CONF / "golden/glm.yaml").read_text())
    shipped["curves"]["../../elsewhere"] = shipped["curves"]["plain"]
    (tmp_path / "golden.yaml").write_text(yaml_text(shipped))
    with pytest.raises(ConfigError, match="is no name of a curve"):
        read(tmp_path / "golden.yaml")


def test_the_shipped_curves_set_values() -> None:
    for path in sorted((CONF / "golden").glob("*.yaml")):
        for curve in read(path):
            check_overrides(curve)


def test_a_case_of_another_framework_has_no_curves() -> None:
    case = compose(["model=paddle/bert", "dry_run=true"])
    with pytest.raises(ConfigError, match="only cases of PyTorch have golden curves"):
        shipped_curves(case, [])


def align(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return flagperf("align", "model=glm", *CHIP, *FOLDERS, *words, cwd=folder)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "code", "side"), [("torch_acme", 0, "inside"), ("torch_acme_wrong", 7, "outside")])
def test_a_wrong_operator_of_a_chip_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str, code: int, side: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{DATA}/acme_chip/code")
    done = align(tmp_path, f"vendor.plugin={plugin}", "run_name=aligned")
    verdict, page, path = done.stdout.splitlines()[-3:]
    assert (done.returncode, verdict.partition(" the band")[0]) == (code, f"dropout:  {side}"), done.stderr
    assert side in Path(page).read_text(encoding="utf-8")
    record = json.loads(Path(path).read_text(encoding="utf-8"))
    assert (record["vendor"], record["inside"], [*record["curves"]]) == ("acme", code == 0, ["plain", "dropout"])
    words = ["model=glm", *CHIP, f"vendor.plugin={plugin}", "division=open", "require_alignment=true"]
    words += [f"alignment={path}", "size=tiny"]
    if code:
        with pytest.raises(ConfigError, match="the device left the band in this alignment"):
            compose(words, [Path(folder) for folder in FOLDERS[1::2]])
    else:
        job = compose(words, [Path(folder) for folder in FOLDERS[1::2]])
        assert job.config["alignment_record"] == record
        write_configuration(job, tmp_path / "job")
        rows = [row for row in check(tmp_path) if row.figure.startswith("alignment")]
        assert [(row.figure, row.answer) for row in rows if row.answer != "agrees"] == []
        assert {row.figure for row in rows} > {"alignment_record", "alignment plain", "alignment dropout: device"}


@pytest.mark.torch
@pytest.mark.slow
def test_the_wrong_operator_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{DATA}/acme_chip/code")
    done = align(tmp_path, "vendor.plugin=torch_acme_wrong", "find=true")
    assert done.returncode == 7, done.stderr
    module, operator, values, script = done.stdout.splitlines()
    assert module.startswith("module:    transformer.h.0.mlp.act, output: relative error 0.0002")
    assert operator.startswith("operator:  aten.tanh.default of torch.float32[96, 24, 256]: relative error 0.001")
    assert values.startswith("values:    ")
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=True).stdout
    assert 9e-4 < float(shown.removeprefix("relative error:")) < 1.1e-3


@pytest.mark.torch
@pytest.mark.slow
def test_a_curve_of_the_same_hosts_cpu_takes_the_place_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's losses are those of other first weights."""
    monkeypatch.setenv("PYTHONPATH", f"{DATA}/acme_chip/code")
    content = yaml.safe_load((CONF / "golden/glm.yaml").read_text(encoding="utf-8"))
    plain = content["curves"]["plain"]
    plain["loss"] = [1.1 * value for value in plain["loss"]]
    file = tmp_path / "curves.yaml"
    file.write_text(yaml.safe_dump({**content, "curves": {"plain": plain}}), encoding="utf-8")
    outside = align(tmp_path, f"golden={file}")
    inside = align(tmp_path, f"golden={file}", "reference=cpu", "run_name=beside")
    assert (outside.returncode, inside.returncode) == (7, 0), outside.stderr + inside.stderr
    assert outside.stderr.splitlines()[-1] == HINT
    assert not (tmp_path / "result/beside/align.json").exists()
