"""A case → the model folder of the ModelZoo's guide.

Its scripts call flagperf. Its README lists measured results and missing measurements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf import __version__
from flagperf.config.about_case import target_text
from flagperf.config.parts.needs import needs_of
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.kit.wheel import NAME, wheel
from flagperf.partners.flagperf.pages.case_text import case_text
from flagperf.partners.flagperf.pages.render import render
from flagperf.partners.flagperf.submission import MeasuredJob
from flagperf.partners.modelzoo import guide, results
from flagperf.plan.container import docker_run_argv
from flagperf.plan.values import Container, Mount

HERE = Path(__file__).parent
CPU = {"name": "cpu", "words": {"vendor": "cpu"}, "mixed": "amp_bf16"}
SAMPLE = "sample"  # the value of --dataset_path for sample data
STEPS, EPOCHS = 10, 1  # of the short run
WORKDIR = "/workspace"  # of the image and the container
FROM_IMAGE = ("torch", "torchvision", "torchaudio")  # built by the vendor for its devices; pip must not replace them


def export(full: JobConfig, short: JobConfig, jobs: Sequence[MeasuredJob], folder: Path, account: str) -> list[Path]:
    """Write the folder and return its files.

    Args:
        full: the case at its full size on the vendor's product.
        short: the case for the entry of model.yaml: on the user's data, else at reduced size on sample data.
        jobs: measured jobs, on the product and on the reference.
        folder: a new or empty folder.
        account: name of the user's account in the ModelZoo.

    Raises:
        ConfigError: the folder is not empty, or the ModelZoo has no such framework.
    """
    if full.framework.name not in guide.FRAMEWORKS:
        allowed = ", ".join(guide.FRAMEWORKS)
        raise ConfigError(
            "the ModelZoo has no such framework", key="framework", given=full.framework.name, allowed=allowed
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("the folder is not empty", key="into", given=folder, advice="give a new or empty folder")
    texts = {folder / name: text for name, text in _texts(full, short, jobs, account).items()}
    wheel_file = folder / NAME
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        wheel_file.write_bytes(wheel())
    except OSError as error:
        raise ConfigError(f"the folder cannot be written: {error.strerror}", key="into", given=folder) from None
    return sorted([*texts, wheel_file])


def _texts(full: JobConfig, short: JobConfig, jobs: Sequence[MeasuredJob], account: str) -> dict[str, str]:
    """File below the folder → text."""
    values = _values(full, short, jobs, account)
    templates = {
        guide.README: "README.md.j2",
        guide.REQUIREMENTS: "requirements.txt.j2",
        guide.ENTRY: "model.yaml.j2",
        f"{guide.SCRIPTS}/README.md": "run_scripts.md.j2",
        f"{guide.SCRIPTS}/run_{full.case}.py": "run.py.j2",
        **({"Dockerfile": "Dockerfile.j2"} if full.image else {}),
    }
    texts = {name: render(template, folder=HERE / "templates", **values) for name, template in templates.items()}
    scripts = {name: (HERE / "scripts" / name).read_text(encoding="utf-8") for name in (guide.ARGUMENT, guide.FORMAT)}
    return texts | {f"{guide.SCRIPTS}/{name}": text for name, text in scripts.items()}


def _values(full: JobConfig, short: JobConfig, jobs: Sequence[MeasuredJob], account: str) -> dict[str, Any]:
    """The variables of the templates."""
    devices = _devices(full)
    entry = _entry(full, short, account)
    name = full.case if full.framework.main else f"{full.framework.name}/{full.case}"
    lowest = needs_of(full, sample=True).lowest  # --dataset_path sample writes sample data
    return {
        "version": __version__,
        "wheel": NAME,
        "job": full,
        "case": {"model": full.case} | ({} if full.framework.main else {"framework": full.framework.name}),
        "devices": devices,
        "mixed": {device["name"]: device["mixed"] for device in devices},
        "text": case_text(name),
        "base": _base(full),
        "target": target_text(full.config.get("target")),
        "entry": yaml.safe_dump([entry], sort_keys=False, allow_unicode=True),
        "run_dir": entry["desc"]["run_dir"],
        "packages": {name: version for name, version in lowest.items() if name in full.framework.case_needs},
        "from_image": dict.fromkeys([full.framework.packages[0], *(name for name in lowest if name in FROM_IMAGE)]),
        "cards": _cards(full),
        "container": _docker_line(full),
        "workdir": WORKDIR,
        "measured": results.rows(full, jobs),
        "left_out": results.left_out(full, jobs),
        "missing": results.missing(full, jobs),
        "alignment": results.alignment(full, jobs),
    }


def _devices(job: JobConfig) -> list[Mapping[str, Any]]:
    """Values of --device: the vendor's device and the processor, each with its overrides for flagperf."""
    if job.vendor.name == "cpu":
        return [CPU]
    words = {"vendor": job.vendor.name, "hardware": job.hardware.name}
    precision = job.identity.precision
    mixed = precision if precision.startswith("amp_") else "amp_fp16"
    return [{"name": job.vendor.device, "words": words, "mixed": mixed}, CPU]


def _entry(full: JobConfig, short: JobConfig, account: str) -> dict[str, Any]:
    """The entry of model.yaml."""
    _, package, *_ = str(full.config["task"]["_target_"]).split(".")
    area = guide.AREAS.get(package, guide.OTHER_AREA)
    framework = guide.FRAMEWORKS[full.framework.name]
    params = {
        "nnodes": 1,
        "nproc_per_node": full.hardware.devices_per_card,
        "batch_size": short.train_batch_size,
        "model_name": full.case,
        "dataset_path": SAMPLE if short.size != "full" else short.data_dir,
        "step": STEPS,
        "epoch": EPOCHS,
        "lr": short.config["lr"],
        "device": full.vendor.device,
        "autocast": full.vendor.name != "cpu",
    }
    desc = {"run_dir": f"{framework}/contrib/{area}/{full.case}", "run_file": f"{guide.SCRIPTS}/run_{full.case}.py"}
    return {"case_name": account, "desc": desc, "params": params}


def _cards(job: JobConfig) -> list[tuple[str, int]]:
    """Name and number of devices to train on: one device, a card, a machine."""
    counts = {
        "单设备": 1,
        "单卡": job.hardware.devices_per_card,
        "单机": job.hardware.devices_per_node or job.hardware.devices_per_card,
    }
    return [(name, count) for name, count in counts.items() if name == "单设备" or count > 1]


def _base(job: JobConfig) -> str | None:
    """The image on which the Dockerfile builds: the vendor's, not one that flagperf builds on it."""
    return (job.image.source.base or job.image.reference) if job.image else None


def _docker_line(job: JobConfig) -> str:
    """The command that starts a shell in a container of the vendor's image; "" where the vendor has no container."""
    if job.container is None:
        return ""
    data = Mount("DATA", "/data")
    container = Container(
        name=job.case,
        image=f"{job.case}-flagperf",
        argv=("bash",),
        env={},
        labels={},
        mounts=(data,),
        options=job.container,
    )
    docker, verb, *rest = docker_run_argv(container)
    return " ".join([docker, verb, "-it", *rest])
