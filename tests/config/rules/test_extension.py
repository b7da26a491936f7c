"""A vendor's own code in a configuration: what is refused, and the division of a job with and without a proof."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import lines

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.config.parts.needs import needs_of
from flagperf.config.rules.extension import NO_PROOF, proof_path
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError

DATA = Path(__file__).parents[2] / "data"
WORDS = ("vendor=acme", "hardware=A1", "runtime=process", "size=tiny")
CODE = "vendors/acme/code"
REPLACED = {
    "environment_script": "environment.sh",
    "requirements": "numpy>=1.24",
    "modules": "acme_kernels.library",
    "optimizer": "acme_kernels.optimizer.FusedSGD",
    "loader": "acme_kernels.loader.AheadLoader",
    "network_hook": "acme_kernels.network.accelerate",
}


DIFFERENCES = {"batches": 0.0, "loss": 1e-7, "weights": 2e-6, "buffers": 0.0, "evaluation": 0.0, "optimizer": 1e-8}
TOO_MUCH = "it does not say that all differences are at most 0.001"


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """A copy of the vendor with code of its own."""
    left_out = shutil.ignore_patterns("proofs", "__pycache__")
    shutil.copytree(DATA / "acme", tmp_path / "acme")
    return Path(shutil.copytree(DATA / "acme_kernels", tmp_path / "acme", ignore=left_out, dirs_exist_ok=True))


def composed(acme: Path, *words: str) -> JobConfig:
    return compose([*WORDS, *words], [acme])


def write_proof(job: JobConfig, **changes: Any) -> Path:
    """A proof of the code as it lies there, but for changes."""
    expected = {
        "case": "resnet50",
        "revision": job.config["revision"],
        "files": job.config["extension"]["files"],
        "differences": DIFFERENCES,
        "optimizer": {},
        "same_modules": False,
        "classes": ["torch.nn.modules.linear.Linear"],
        "versions": {},
    }
    path = proof_path(job.vendor.extension, job.config)
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({**expected, **changes}))
    return path


def test_what_is_recorded(acme: Path) -> None:
    job = composed(acme)
    extension = job.config["extension"]
    assert extension["replaced"] == REPLACED
    assert set(extension["files"]) == {
        "environment.sh",
        *(f"acme_kernels/{name}.py" for name in ("library", "loader", "network", "optimizer")),
    }
    assert job.code_dirs == (acme / CODE,)
    assert {change.source for change in job.changes} == {"tuning acme/resnet50/A1"}
    assert not any(change.key == "train_batch_size" for change in job.changes)  # a reduced size is not tuned


def test_another_case_has_none_of_it(acme: Path) -> None:
    job = composed(acme, "model=glm")
    assert (job.tuning, "extension" in job.config, job.division) == (None, False, "closed")


@pytest.mark.parametrize(
    ("words", "division", "then"),
    [
        pytest.param((), "open", "the run is open", id="nothing is said"),
        pytest.param(("division=closed",), "closed", "its result is INVALID", id="closed is asked for"),
    ],
)
def test_without_a_proof(acme: Path, words: tuple[str, ...], division: str, then: str) -> None:
    job = composed(acme, *words)
    note = f"no proof that the vendor's own code does what the case does ({NO_PROOF}): {then}"
    assert (job.division, job.config["division"], job.notes[-1]) == (division, division, note)


def test_with_a_proof_the_run_is_closed(acme: Path) -> None:
    write_proof(composed(acme))
    job = composed(acme)
    assert (job.division, job.config["extension"]["no_proof"]) == ("closed", "")
    assert job.config["extension"]["proof"]["differences"] == DIFFERENCES


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"differences": {**DIFFERENCES, "loss": 0.1}}, TOO_MUCH, id="too different"),
        pytest.param({"differences": {**DIFFERENCES, "loss": float("nan")}}, TOO_MUCH, id="no number"),
        pytest.param({"differences": {"loss": 1e-7}}, TOO_MUCH, id="not all was compared"),
        pytest.param({"revision": 1}, "the case was changed after it", id="an earlier revision"),
        pytest.param({"differences": None}, "it cannot be read", id="half of one"),
        pytest.param({"files": []}, "it cannot be read", id="no files"),
    ],
)
def test_proofs_that_do_not_hold(acme: Path, changes: dict[str, Any], why: str) -> None:
    write_proof(composed(acme), **changes)
    assert composed(acme).config["extension"]["no_proof"] == why


def test_code_that_was_changed_after_its_proof(acme: Path) -> None:
    write_proof(composed(acme))
    with (acme / CODE / "acme_kernels/optimizer.py").open("a") as file:
        file.write("# faster\n")
    (acme / CODE / "acme_kernels/conf").mkdir()
    (acme / CODE / "acme_kernels/conf/more.py").touch()
    job = composed(acme)
    why = "acme_kernels/conf/more.py, acme_kernels/optimizer.py changed after it"
    assert (job.division, job.config["extension"]["no_proof"]) == ("open", why)


def test_a_proof_is_of_what_is_replaced(acme: Path) -> None:
    write_proof(composed(acme))
    job = composed(acme, "vendor.extension.replace.optimizer._target_=acme_kernels.optimizer.Other")
    assert (job.division, job.config["extension"]["no_proof"]) == ("open", NO_PROOF)


def test_a_script_and_packages_need_no_proof(acme: Path) -> None:
    (acme / "vendor/acme/resnet50/A1.yaml").write_text(
        "# @package _global_\nvendor: {extension: {environment_script: environment.sh, requirements: [numpy]}}\n"
    )
    job = composed(acme)
    assert (job.division, job.config["extension"]["has_code"]) == ("closed", False)
    assert needs_of(job).requirements == {"numpy": "vendor.extension.requirements"}


TUNING = "{acme}/vendor/acme/resnet50/A1.yaml"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            ("+vendor.extension.replace.task._target_=acme.Task",),
            lines(
                "no vendor has its own of this part",
                where=TUNING,
                key="vendor.extension.replace",
                given="task",
                allowed="network, optimizer, loader",
                do="data, evaluation, metric, schedule and target stay the case's",
            ),
            id="evaluation",
        ),
        pytest.param(
            ("vendor.extension.replace.optimizer._target_=null",),
            lines(
                "this names no class",
                where="command line",
                key="vendor.extension.replace.optimizer._target_",
                allowed="the path of a class or function",
            ),
            id="no class",
        ),
        pytest.param(
            ("vendor.extension.environment_script=absent.sh",),
            lines(
                "there is no such file",
                where="command line",
                key="vendor.extension.environment_script",
                given="{acme}/vendors/acme/code/absent.sh",
                allowed="a file of the extension's folder code/",
            ),
            id="no script",
        ),
        pytest.param(
            ("vendor.extension.folder=/no/such",),
            lines(
                "there is no such folder",
                where="command line",
                key="vendor.extension.folder",
                given="/no/such/code",
            ),
            id="no folder",
        ),
        pytest.param(
            ("vendor.extension.hook=a.b",),
            lines("unknown key", where="command line", key="vendor.extension.hook", do="did you mean 'network_hook'?"),
            id="unknown key",
        ),
        pytest.param(
            ("framework=paddle", "model=bert", "vendor.extension.network_hook=acme_kernels.accelerate"),
            lines(
                "there is no such thing with PaddlePaddle",
                where="command line",
                key="vendor.extension.network_hook",
                given="acme_kernels.accelerate",
                do="framework=pytorch",
            ),
            id="another framework has the case's own parts",
        ),
    ],
)
def test_refused(acme: Path, words: tuple[str, ...], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        composed(acme, *words)
    assert str(caught.value).replace(str(acme), "{acme}") == expected


def test_a_link_to_a_folder(acme: Path) -> None:
    (acme / CODE / "more").symlink_to(acme)
    with pytest.raises(ConfigError) as caught:
        composed(acme)
    assert str(caught.value) == lines(
        "a link to a folder: flagperf would neither send nor check the files behind the link",
        where=TUNING.format(acme=acme),
        key="vendor.extension.folder",
        given=str(acme / CODE / "more"),
        do="put the folder itself there",
    )


def test_code_without_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["vendor.extension.modules=[kernels]", "size=tiny"], [tmp_path])
    assert str(caught.value) == lines(
        "the vendor has no folder of its own code",
        where=str(CONF / "vendor/cpu.yaml"),
        key="vendor.extension.folder",
        given="null",
        do="make vendors/cpu/code in your --config-dir folder; proofs lie beside it",
    )


def test_code_that_would_take_the_place_of_a_library(acme: Path) -> None:
    (acme / CODE / "torch.py").touch()
    with pytest.raises(ConfigError) as caught:
        composed(acme)
    assert str(caught.value) == lines(
        "own code would be imported in place of torch",
        key="vendor.extension.folder",
        given=str(acme / CODE),
        do="division=open allows it, and the report says so",
    ).replace("\n  key:", "\n  where:   command line\n  key:")
