"""What goes into a build, the tag made of it, and the overrides of the docker command."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF, VENDORS
from flagperf.config.parts.image import ON_BASE, STAND_IN, build_context, content_tag
from flagperf.config.schema.platform import Image, ImageSettings, ImageSource
from flagperf.docker.image_build import build_argv, build_secrets, lay_out, proxies
from flagperf.errors import ConfigError

PLAIN = ImageSource()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docker"
    (tmp_path / "kit").mkdir()
    folder.mkdir()
    (folder / "sdk").symlink_to(tmp_path / "kit")
    (folder / "Dockerfile").write_text("FROM base\n")
    (folder / "sdk/install.sh").write_text("#!/bin/sh\n")
    return folder


def tag(folder: Path, source: ImageSource = PLAIN) -> str:
    return content_tag(build_context(folder, source), source)


def written(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("change", "another"),
    [
        pytest.param(written("Dockerfile", "FROM other\n"), True, id="content"),
        pytest.param(written("sdk/more", ""), True, id="another file"),
        pytest.param(lambda folder: (folder / "sdk").rename(folder / "kit"), True, id="name"),
        pytest.param(lambda folder: (folder / "sdk/install.sh").chmod(0o755), True, id="made executable"),
        pytest.param(lambda folder: (folder / "sdk/install.sh").chmod(0o600), False, id="permissions of others"),
        pytest.param(lambda folder: os.utime(folder / "Dockerfile", (1, 1)), False, id="time"),
    ],
)
def test_the_tag_follows_what_goes_in(folder: Path, change: Callable[[Path], object], another: bool) -> None:
    before = tag(folder)
    change(folder)
    assert (tag(folder) != before) is another


def test_the_tag_follows_base_and_requirements(folder: Path) -> None:
    sources = [ImageSource(), ImageSource(base="other"), ImageSource(requirements=("one",))]
    assert len({tag(folder, source) for source in sources}) == 3


def test_a_build_gets_links_to_the_files_and_the_requirements(folder: Path, tmp_path: Path) -> None:
    (folder / "requirements.txt").write_text("theirs\n")
    lay_out(Image("image:tag", "build", folder=folder, source=ImageSource(requirements=("a", "b"))), tmp_path / "sent")
    sent = {path.relative_to(tmp_path / "sent").as_posix(): path for path in (tmp_path / "sent").rglob("*")}
    assert {name: path.read_text() for name, path in sent.items() if path.is_file()} == {
        "Dockerfile": "FROM base\n",
        "more-requirements.txt": "a\nb\n",
        "requirements.txt": "theirs\n",
        "sdk/install.sh": "#!/bin/sh\n",
    }
    assert sent["sdk/install.sh"].readlink() == tmp_path / "kit/install.sh"


def test_what_is_said_to_docker_shows_no_password(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("certificate\n")
    settings = ImageSettings(
        index="https://me:word@index.example/simple",
        ca_certificate=str(tmp_path / "ca.pem"),
        https_proxy="http://me:it's@proxy.example:1",
        no_proxy="localhost",
    )
    image = Image("image:tag", "build", settings, folder, ImageSource(base="base:1"))
    assert build_argv(image, tuple(build_secrets(image))) == (
        *("docker", "build", "--tag=image:tag", "--network=host", "--progress=plain", "--build-arg=BASE_IMAGE=base:1"),
        *("--build-arg=https_proxy", "--build-arg=no_proxy"),
        *("--secret=id=ca.pem,src=ca.pem", "--secret=id=pip.conf,src=pip.conf", "context"),
    )
    assert proxies(image) == ("export https_proxy='http://me:it'\"'\"'s@proxy.example:1'\nexport no_proxy=localhost\n")
    assert build_secrets(image) == {
        "ca.pem": b"certificate\n",
        "pip.conf": b"[global]\nindex-url = https://me:word@index.example/simple\ncert = /run/secrets/ca.pem\n",
    }
    plain = dataclasses.replace(image, settings=ImageSettings())
    assert (build_secrets(plain), proxies(plain)) == ({}, "")


PADDLE = {"numpy>=1.26", "h5py>=3.11"}
TENSORFLOW = {"numpy>=1.26", "pillow>=10", "scikit-learn>=1.4"}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param(
            ("vendor=cpu", "model=paddle/bert"), {"paddlepaddle<3.4,>=3.3", *PADDLE}, id="PaddlePaddle on the CPU"
        ),
        pytest.param(
            ("vendor=nvidia", "hardware=A100", "model=paddle/bert"),
            {"paddlepaddle-gpu<3.4,>=3.3", *PADDLE},
            id="PaddlePaddle on NVIDIA",
        ),
        pytest.param(
            ("vendor=cpu", "model=tensorflow2/resnet50"),
            {"tensorflow-cpu<2.22,>=2.21", *TENSORFLOW},
            id="TensorFlow 2 on the CPU",
        ),
        pytest.param(
            ("vendor=nvidia", "hardware=A100", "model=tensorflow2/resnet50"),
            {"tensorflow[and-cuda]<2.22,>=2.21", *TENSORFLOW},
            id="TensorFlow 2 on NVIDIA",
        ),
    ],
)
def test_what_pip_installs_in_an_image(tmp_path: Path, words: tuple[str, ...], wanted: set[str]) -> None:
    """Beside what flagperf itself needs, when the Dockerfile's own sed has put the accelerator's wheel in its place."""
    image = compose([*words, "runtime=docker", "dry_run=true"]).image
    assert image is not None
    lay_out(image, tmp_path / "context")
    file = tmp_path / "context/requirements.txt"
    requirements = build_context(tmp_path, PLAIN)["requirements.txt"]
    assert isinstance(requirements, bytes)
    for expression in re.findall(r"sed -i '([^']+)' \S+", (tmp_path / "context/Dockerfile").read_text()):
        subprocess.run(["sed", "-i", expression, file], check=True)
    lines = {*file.read_text().splitlines()} - {*requirements.decode().splitlines()}
    assert {str(Requirement(line)) for line in lines} == wanted


@pytest.mark.parametrize(
    ("words", "base", "more"),  # more: packages that the vendor's file adds
    [
        pytest.param(("vendor=amd", "hardware=MI300X"), "rocm/pytorch:", set(), id="AMD"),
        pytest.param(("vendor=intel", "hardware=Max1550"), "intel/intel-extension-for-pytorch:", set(), id="Intel"),
        pytest.param(
            ("vendor=ascend", "hardware=Atlas800TA2"),
            "quay.io/ascend/cann:",
            {"torch==2.11.0", "torch-npu==2.11.0", "torchvision==0.26.*", "torchaudio==2.11.*"},
            id="Ascend",
        ),
        pytest.param(
            ("vendor=metax", "hardware=C500", "vendor.image.pytorch.base=their:1"), "their:1", set(), id="a ready image"
        ),
        pytest.param(
            ("vendor=iluvatar", "hardware=BI-V150", "model=paddle/bert", "+vendor.image.paddle.base=their:1"),
            "their:1",
            set(),
            id="PaddlePaddle on a vendor's image",
        ),
        pytest.param(
            ("vendor=iluvatar", "hardware=BI-V150", "model=tensorflow2/resnet50", "+vendor.image.tensorflow2.base=t:1"),
            "t:1",
            set(),
            id="TensorFlow 2 on a vendor's image",
        ),
    ],
)
def test_an_image_on_a_base_keeps_its_framework(
    tmp_path: Path, words: tuple[str, ...], base: str, more: set[str]
) -> None:
    image = compose([*words, "data_dir=/data", "dry_run=true"]).image
    assert image is not None
    assert image.folder is not None
    assert (image.policy, image.folder.parent) == ("build", ON_BASE)
    assert str(image.source.base).startswith(base)
    assert {line for line in image.source.requirements if not line.startswith("-")} == more
    lay_out(image, tmp_path / "context")
    file, dockerfile = tmp_path / "context/requirements.txt", (tmp_path / "context/Dockerfile").read_text()
    before = {Requirement(line).name for line in file.read_text().splitlines()}
    (expression,) = re.findall(r"sed -i '([^']+)' \S+", dockerfile)
    subprocess.run(["sed", "-i", expression, file], check=True)
    left = {Requirement(line).name for line in file.read_text().splitlines()}
    kept = {
        "pytorch": {"torch", "torchvision", "torchaudio"},
        "paddle": {"paddlepaddle"},
        "tensorflow2": {"tensorflow-cpu"},
    }
    assert before - left == kept[image.folder.name]


@pytest.mark.parametrize(
    ("words", "reference", "note"),
    [
        *(
            pytest.param(
                (f"vendor={vendor}", f"hardware={product}", f"model={case}"),
                STAND_IN,
                f"vendor {vendor} names no image for {case.partition('/')[0]}: {STAND_IN} stands for it, and a run "
                f"would be refused (vendors/{vendor}/README.md)",
                id=f"{vendor}: {case}",
            )
            for vendor, product in (("iluvatar", "BI-V150"), ("kunlunxin", "R300"), ("ascend", "Ascend910"))
            for case in ("paddle/bert",)
        ),
        *(
            pytest.param((*words, f"vendor.image.{key}"), reference, None, id=f"in place of the vendor's base: {key}")
            for words in (("vendor=ascend", "hardware=Ascend910"),)
            for key, reference in (
                ("pytorch.name=theirs:1", "theirs:1"),
                ("pytorch={name: theirs:1}", "theirs:1"),
                ("pytorch={name: theirs:1, base: b}", r"flagperf-ascend-pytorch:[0-9a-f]{12}"),
            )
        ),
        pytest.param(
            ("vendor=iluvatar", "hardware=BI-V150", "vendor.image.pytorch.base=theirs:1"),
            r"flagperf-iluvatar-pytorch:[0-9a-f]{12}",
            None,
            id="a base in place of the vendor's name",
        ),
        pytest.param(
            ("vendor=ascend", "hardware=Ascend910", "model=mindspore/resnet50"),
            r"flagperf-ascend-mindspore:[0-9a-f]{12}",
            None,
            id="the shipped recipe",
        ),
        *(
            pytest.param(
                ("vendor=nvidia", "hardware=A100", f"vendor.image.pytorch.name={name}"),
                re.escape(name),
                f"image {name}: by its name it has PyTorch {version}, and the trainer needs 2.0 or newer: a run would "
                "be refused (vendors/nvidia/README.md)"
                if version
                else None,
                id=f"the name {name}",
            )
            for name, version in (
                ("flagperf-nvidia-pytorch_1.8:t_v0.1", "1.8"),
                ("dynamicheart/pytorch1.12.1-cpu-ubuntu20.04:v0.01", "1.12.1"),
                ("pytorch/pytorch:1.13.1-cuda11.6", "1.13.1"),
                ("flagperf-nvidia-pytorch_2.0.1:t_v0.1", None),
                ("nvcr.io/nvidia/pytorch:23.09-py3", None),
                ("flagperf-nvidia-pytorch:t_v0.1", None),
            )
        ),
        pytest.param(
            ("runtime=apptainer", "runtime.image=/images/pytorch_1.8.sif", "cluster=slurm"),
            None,
            "image /images/pytorch_1.8.sif: by its name it has PyTorch 1.8, and the trainer needs 2.0 or newer: a run "
            "would be refused (vendors/cpu/README.md)",
            id="an image of another runtime",
        ),
    ],
)
def test_a_plan_names_an_image_that_a_run_would_refuse(
    words: tuple[str, ...], reference: str | None, note: str | None
) -> None:
    job = compose([*words, "dry_run=true"])
    assert (job.image is None) if reference is None else job.image and re.fullmatch(reference, job.image.reference)
    assert [line for line in job.notes if "image" in line] == ([note] if note else [])


@pytest.mark.parametrize("vendor", [path.stem for path in sorted((CONF / "vendor").glob("*.yaml"))])
def test_each_shipped_vendor_has_a_page_about_its_images(vendor: str) -> None:
    assert (VENDORS / vendor / "README.md").is_file()


def test_a_run_names_the_page_of_a_missing_image() -> None:
    with pytest.raises(ConfigError) as refused:
        compose(["vendor=kunlunxin", "hardware=R300", "model=paddle/bert", "data_dir=/data"])
    assert (refused.value.key, refused.value.advice) == (
        "vendor.image.paddle.name",
        "name the vendor's image in vendor.image.paddle.name, or an image to build on in vendor.image.paddle.base; "
        "read vendors/kunlunxin/README.md",
    )


def test_a_version_is_checked_without_an_image() -> None:
    """Processes of this machine have the version of their environment; the plan refuses what the ranks would refuse."""
    with pytest.raises(ConfigError, match="the trainer does not run on this version"):
        compose(["framework.version=1.13", "dry_run=true"])


DCU = "image.sourcefind.cn:5000/dcu/admin/base/pytorch"
OLD = "vendor.image.pytorch_1_13={name: theirs-1.13}"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        pytest.param((), f"{DCU}:2.4.1-ubuntu22.04-dtk25.04-py3.10-fixpy", id="the newest"),
        pytest.param(("vendor.image.pytorch_2_10={name: ten}",), "ten", id="the newest by its numbers"),
        pytest.param(("framework.version=2.1",), f"{DCU}:2.1.0-ubuntu22.04-dtk24.04.2-py3.10", id="that of a version"),
        pytest.param(("vendor.image.pytorch={name: own}",), "own", id="one without a version comes first"),
    ],
)
def test_an_image_by_version(words: tuple[str, ...], name: str) -> None:
    job = compose(["vendor=dcu", "hardware=K100", "data_dir=/data", "dry_run=true", *map(added, words)])
    assert job.image is not None
    assert job.image.reference == name


def added(word: str) -> str:
    """A word of the command line, whose key is added where it is one that the files do not have."""
    return word if word.startswith("framework") else f"+{word}"


def test_a_version_that_the_trainer_does_not_run_on() -> None:
    with pytest.raises(ConfigError) as refused:
        compose(["vendor=dcu", "hardware=K100", "data_dir=/data", "framework.version=1.13", f"+{OLD}", "dry_run=true"])
    assert str(refused.value) == (
        "the image is for PyTorch 1.13, and the trainer needs 2.0 or newer\n"
        "  where:   command line\n"
        "  key:     vendor.image.pytorch_1_13.name\n"
        "  given:   theirs-1.13\n"
        "  do:      use a newer image of the vendor"
    )


@pytest.mark.parametrize(
    ("version", "problem", "key", "allowed"),
    [
        pytest.param(
            "2.2",
            "vendor dcu names no image for pytorch 2.2",
            "vendor.image.pytorch_2_2.name",
            "framework.version=2.1 or 2.4",
            id="newer",
        ),
        pytest.param(
            "1.8", "the trainer does not run on this version", "framework.version", "2.0 or newer", id="too old"
        ),
    ],
)
def test_a_version_that_the_vendor_has_no_image_for(version: str, problem: str, key: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compose(["vendor=dcu", "hardware=K100", "data_dir=/data", f"framework.version={version}", "dry_run=true"])
    assert (refused.value.problem, refused.value.key, refused.value.allowed) == (problem, key, allowed)
