"""An import where flagperf ships a tuning of the vendor, the case and the product; and a vendor's software."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from flagperf.cli.main import run_command

BASE = "fp16 = False\nlr: float = 0.1\ntrain_batch_size = 32\neval_batch_size = 32\n"
KEPT = "precision: fp32    (nvidia/resnet50/A100.yaml has tf32: computed in TF32, its PyTorch's default on this chip)"


def _imported(tmp_path: Path, files: dict[str, str], product: str, vendor: str = "nvidia") -> Path:
    folder = tmp_path / "FlagPerf"
    config = folder / f"{vendor}/resnet50-pytorch/config"
    base = folder / "benchmarks/resnet50/pytorch/config/_base.py"
    for path, text in {base: BASE, **{config / name: text for name, text in files.items()}}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert run_command(["import", str(folder), f"into={tmp_path / 'bench'}"]) == 0
    return tmp_path / f"bench/vendor/{vendor}/resnet50/{product}x1x8.yaml"


@pytest.mark.parametrize(
    ("vendor", "product", "config", "values", "kept"),
    [
        pytest.param("nvidia", "A100", "lr = 0.3\n", {"precision": "tf32", "lr": 0.3}, KEPT, id="why it differs"),
        pytest.param("nvidia", "A100", "fp16 = True\n", {"precision": "amp_fp16"}, None, id="yet another value"),
        pytest.param("nvidia", "A800", "fp16 = False\n", {}, None, id="none of this product"),
        pytest.param(
            "mthreads",
            "S4000",
            "train_batch_size = 256\n",
            {"train_batch_size": 256, "lr": 0.8, "memory_format": "channels_last"},
            None,
            id="FlagPerf says nothing of it",
        ),
    ],
)
def test_a_shipped_value_stays(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    vendor: str,
    product: str,
    config: str,
    values: dict[str, object],
    kept: str | None,
) -> None:
    base = "" if vendor == "nvidia" else "lr = 0.8\n"
    made = _imported(tmp_path, {f"config_{product}x1x8.py": base + config}, product, vendor)
    found = yaml.safe_load(made.read_text()) or {}
    assert {key: value for key, value in found.items() if key != "vendor"} == values
    told = [line for line in capsys.readouterr().out.splitlines() if "ships a value" in line or "has tf32" in line]
    assert [line.partition(".py:1: ")[2] for line in told[1:]] == ([kept] if kept else [])


SCRIPT = "export A=1\nif [ -f /x ]; then\n  export A=2\nfi\n"


@pytest.mark.parametrize(
    ("vendor", "product", "files", "said", "comment"),
    [
        pytest.param(
            "nvidia",
            "A100",
            {"environment_variables.sh": 'export CONTAINER_MOUNTS="--gpus all"\nexport A=1\n'},
            {"environment": {"A": "1"}},
            "say: CONTAINER_MOUNTS=--gpus all (environment_variables.sh:1)",
            id="options of docker are no variable",
        ),
        pytest.param(
            "nvidia",
            "A100",
            {"environment_variables.sh": SCRIPT},
            {"extension": {"environment_script": "resnet50-pytorch.sh"}},
            "",
            id="a script",
        ),
        pytest.param(
            "acme",
            "A1",
            {"requirements.txt": "kernels==1.2  # ours\n-r other.txt\n"},
            {"extension": {"requirements": ["kernels==1.2"]}},
            "a line of requirements.txt that names no package: -r other.txt",
            id="packages",
        ),
        pytest.param(
            "nvidia",
            "A100",
            {"requirements.txt": "boto3\n"},
            None,
            "what FlagPerf's own code needs: flagperf has its own for this tuning (vendors/README.md): boto3",
            id="packages where flagperf has a tuning",
        ),
    ],
)
def test_a_vendors_software(
    tmp_path: Path, vendor: str, product: str, files: dict[str, str], said: object, comment: str
) -> None:
    made = _imported(tmp_path, {f"config_{product}x1x8.py": "", **files}, product, vendor)
    text = made.read_text()
    assert (yaml.safe_load(text) or {}).get("vendor") == said
    assert comment in " ".join(line.removeprefix("#").strip() for line in text.splitlines())
    scripts = {path.name: path.read_text() for path in (tmp_path / "bench").rglob("*.sh")}
    assert scripts == ({"resnet50-pytorch.sh": SCRIPT} if SCRIPT in files.values() else {})
