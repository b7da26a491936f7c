"""`flagperf import`: a checkout of FlagPerf becomes files that compose, and nothing of it is lost silently."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from flagperf_tree import ACME, CASE, TREE, write_tree
from refusals import lines

from flagperf.cli.main import run_command
from flagperf.config.compose import compose_each, compose_jobs
from flagperf.config.schema.platform import Extension
from flagperf.plan.plan import make_plan

ON_MEGATRON = "written for megatron; flagperf trains the network with PyTorch and other settings: model=llama3_8b"
NO_CONFIG = "no config_<hardware>x<nodes>x<devices>.py"
PYTORCH = "flagperf-acme-pytorch_2.1:t_v0.1"
TUNING = "vendor/acme/resnet50/A1x2x4.yaml"
SCRIPT = "vendors/acme/code/resnet50-pytorch.sh"
FILES = [
    "cluster/flagperf.yaml",
    "experiment/flagperf.yaml",
    "vendor/acme.yaml",
    "hardware/A1.yaml",
    TUNING,
    SCRIPT,
    "vendor/iluvatar/paddle/bert/BI-V100x1x8.yaml",
    "vendor/nvidia/bert/A100x1x8.yaml",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "FlagPerf")


@pytest.fixture
def bench(checkout: Path, tmp_path: Path) -> Path:
    assert run_command(["import", str(checkout), f"into={tmp_path / 'bench'}"]) == 0
    return tmp_path / "bench"


def test_what_is_written_and_told(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["import", str(checkout), f"into={tmp_path / 'bench'}"]) == 0
    config = checkout / "training" / ACME / "config"
    test_conf = "test_conf.py:11: CASES"
    told = [
        f"{config}/config_A1x2x4.py:11: num_workers = int(os.environ['WORKERS'])    (computed)",
        f"{config}/config_A1x2x4.py:12: open(PLANTED, 'w').write('executed')    (computed)",
        f"{config}/config_A1x2x8.example: config_A1x2x8.example    (no name of a file that FlagPerf reads)",
        f"{checkout}/training/acme/vit-pytorch/config: {NO_CONFIG}    (nothing to import)",
        "test_conf.py:3: --odd    (no option here)",
        f'{test_conf} "llama3_8B:megatron:A1:1:8:1": /data/llama    ({ON_MEGATRON})',
        f'{test_conf} "resnet50:pytorch:A1:1": /data/imagenet    '
        "(not of the form model:framework:hardware:nnodes:nproc:repeat)",
        f'{test_conf} "vit:pytorch:A100:1:8:1": /data/imagenet    (A100 is a product of nvidia here)',
        "cluster_conf.py:3: HOSTS_PORTS = ['2222']    (the nodes of TensorFlow find free ports by themselves)",
        "test_conf.py:6: FLAGPERF_PATH = /home/FlagPerf/training    (code is sent to the hosts for each run)",
        f"{checkout}/training/acme/llama3_8B-megatron: 1 config file    ({ON_MEGATRON})",
    ]
    bench = tmp_path / "bench"
    assert capsys.readouterr().out.splitlines() == [
        *(str(bench / name) for name in FILES),
        "",
        "not carried over:",
        *(f"  {line}" for line in told),
        "",
        "values without a counterpart are comments in their files; to see what would run:",
        f"  flagperf --config-dir {bench} -m +experiment=flagperf dry_run=true",
    ]
    assert sorted(path.relative_to(bench).as_posix() for path in bench.rglob("*.*")) == sorted(FILES)


def test_the_suite_composes(bench: Path) -> None:
    """The same jobs, images, ranks and values as FlagPerf would run."""
    words = ["+experiment=flagperf", "dry_run=true"]
    jobs = compose_jobs(words, config_dirs=[bench], multirun=True)
    plans = [make_plan(job, 1, Path("/result"), placeholders=True) for job in jobs]
    assert [
        (job.name, job.repeat, job.data_dir, node.node.address, node.node.port, node.ranks, node.container.image)
        for job, plan in zip(jobs, plans, strict=True)
        for node in plan.nodes
        if node.container
    ] == [
        ("resnet50-pytorch-A1x2x4", 3, "/data/imagenet", "10.1.2.2", 2200, (0, 1, 2, 3), PYTORCH),
        ("resnet50-pytorch-A1x2x4", 3, "/data/imagenet", "10.1.2.3", 2200, (4, 5, 6, 7), PYTORCH),
        ("resnet50-pytorch-A1x1x4", 1, "/data/imagenet", "10.1.2.2", 2200, (0, 1, 2, 3), PYTORCH),
        ("bert-paddle-A1x1x8", 1, "/data/bert", "10.1.2.2", 2200, tuple(range(8)), "flagperf-acme-paddle:t_v0.1"),
    ]
    first = jobs[0]
    keys = (
        "lr",
        "momentum",
        "train_batch_size",
        "eval_batch_size",
        "precision",
        "log_freq",
        "weight_decay",
        "seed",
        "num_workers",
    )
    assert [first.config[key] for key in keys] == [0.4, 0.8, 128, 128, "amp_fp16", 10, 1e-4, 7, 32]
    assert first.vendor.environment == {"ACME": "all"}
    assert first.vendor.extension == Extension(
        folder=str(bench / "vendors/acme"),
        environment_script="resnet50-pytorch.sh",
        requirements=("numpy>=1.15.4", "acme-kernels"),
    )
    assert (first.vendor.device, first.vendor.backend, first.vendor.visible_devices) == (
        "cuda",
        "accl",
        "ACME_VISIBLE_DEVICES",
    )
    assert first.container is not None
    assert (first.container.devices, first.container.group_add, first.container.shm_size, first.container.mounts) == (
        ("/dev/acme0",),
        ("video",),
        "32g",
        {"/opt/acme/": "/opt/acme/"},
    )
    assert (first.result_dir, first.log_level, first.clear_caches) == ("/home/FlagPerf/training/result", "debug", True)
    assert (first.cluster.rendezvous.port, first.cluster.image.index) == (29501, "https://example.org/simple")
    assert first.tuning == "acme/resnet50/A1x2x4"


def test_every_file_composes(bench: Path) -> None:
    """FlagPerf counts micro steps in bert's max_steps: of thirty thousand each four make a step here."""
    words = ["model=bert", "vendor=nvidia", "hardware=A100", "nproc=8", "data_dir=/data", "dry_run=true"]
    (run,) = compose_each([words], [bench])
    assert not isinstance(run, Exception)
    assert [(change.key, change.after) for change in run.changes] == [
        ("gradient_accumulation_steps", 4),
        ("max_steps", 7500),
        ("lr_decay_steps", 30000),
    ]


def test_an_image_that_the_vendor_has_not(bench: Path) -> None:
    """FlagPerf's own is named where no image is known for the framework."""
    words = ["model=paddle/bert", "vendor=iluvatar", "hardware=BI-V100", "nproc=8", "data_dir=/data", "dry_run=true"]
    (run,) = compose_jobs(words, config_dirs=[bench])
    (node,) = make_plan(run, 1, Path("/result"), placeholders=True).nodes
    assert node.container is not None
    assert (node.container.image, run.config["lr"]) == ("flagperf-iluvatar-paddle:t_v0.1", 1e-4)


def test_nothing_is_lost(bench: Path) -> None:
    """Every name of a vendor's files stands in its tuning, as a setting or in a comment; its script beside it."""
    assert (bench / SCRIPT).read_text(encoding="utf-8") == TREE[f"{ACME}/config/environment_variables.sh"]
    tuning = (bench / TUNING).read_text(encoding="utf-8")
    config = [TREE[f"{ACME}/config/{name}"] for name in ("config_A1x2x4.py", "config_common.py")]
    names = {node.id for text in config for node in ast.walk(ast.parse(text)) if _is_set(node)}
    assert {name for name in names if name not in tuning} == set()
    for text in (
        "made_up.a = 1 (config_A1x2x4.py:10)",
        "seed = null (config_A1x2x4.py:8)",
        "config_A1x2x4.py:12: open(PLANTED, 'w').write('executed')    (computed)",
        "acme/resnet50-pytorch/extern/",
        "FlagPerf's mutable_params.py does not let a vendor set: weight_decay, eval_batch_size, log_freq.",
        "As the case has it: weight_decay.",
        "Of FlagPerf's case, without counterpart: model_odd.",
    ):
        assert text in " ".join(line.removeprefix("#").strip() for line in tuning.splitlines())


def _is_set(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def test_nothing_is_executed(checkout: Path, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    for name in (f"{ACME}/config/config_A1x2x4.py", f"{CASE}/_base.py", "run_benchmarks/config/test_conf.py"):
        path = checkout / "training" / name
        path.write_text(f"{path.read_text()}\nopen({str(planted)!r}, 'w').write('executed')\n")
    assert run_command(["import", str(checkout), f"into={tmp_path / 'bench'}"]) == 0
    assert not planted.exists()


DEVICE = (
    "host[:container[:permissions]], both absolute paths of one device (no pattern, no X for a number), "
    "permissions of r, w and m in this order"
)
TOLD = {
    "a vendor's name that leaves the folder": ("VENDOR = '../acme'", "VENDOR = ../acme    (no name of a vendor)"),
    "a product's name that leaves the folder": (
        "CASES = {'bert:pytorch:../A1:1:1:1': '/d'}",
        'CASES "bert:pytorch:../A1:1:1:1": /d    (no name of a product or framework)',
    ),
    "no folder": (
        "CASES = {'bert:pytorch:A100:1:1:1': 5}",
        'CASES "bert:pytorch:A100:1:1:1": 5    (no folder of data)',
    ),
    "a stand-in for a device": (
        "ACCE_CONTAINER_OPT = '--device=/dev/davinciX --device=/dev/davinci_manager'",
        f"devices: /dev/davinciX    (wrong form of value; allowed: {DEVICE})",
    ),
    "no size": (
        "SHM_SIZE = 'lots'",
        "shm_size: lots    (wrong form of value; allowed: a number with b, k, m, g or t, such as 512m, or null)",
    ),
    "no text": ("SHM_SIZE = 32", "SHM_SIZE = 32    (no text)"),
    "another variable": (
        "ACCE_VISIBLE_DEVICE_ENV_NAME = 'GPUS'",
        "ACCE_VISIBLE_DEVICE_ENV_NAME = GPUS    (the file of nvidia here says CUDA_VISIBLE_DEVICES)",
    ),
}


@pytest.mark.parametrize(("line", "told"), TOLD.values(), ids=TOLD)
def test_what_cannot_be_used_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, told: str) -> None:
    """Files are named after vendors and products: none lies outside the folder."""
    path = tmp_path / "deep" / "test_conf.py"
    path.parent.mkdir()
    path.write_text(f"VENDOR = 'nvidia'\n{line}\n")
    assert run_command(["import", str(path), f"into={tmp_path / 'deep' / 'bench'}"]) == 0
    assert f"\n  test_conf.py:2: {told}\n" in capsys.readouterr().out
    written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.yaml"))
    assert written == ["deep/bench/cluster/flagperf.yaml", "deep/bench/experiment/flagperf.yaml"]


def test_the_plan_says_what_a_run_would_refuse(tmp_path: Path) -> None:
    """FlagPerf's usual images have PyTorch 1.8, and its devices of Ascend are an example that a person edits."""
    rows = {
        ("nvidia", "resnet50:pytorch_1.8:A100:1:8:1"): (
            "image flagperf-nvidia-pytorch_1.8:t_v0.1: by its name it has PyTorch 1.8, and the trainer needs 2.0 or "
            "newer: a run would be refused (vendors/nvidia/README.md)",
        ),
        ("ascend", "resnet50:mindspore:9100:1:8:1"): (),
    }
    for (vendor, key), notes in rows.items():
        path = tmp_path / vendor / "test_conf.py"
        path.parent.mkdir()
        options = "--device=/dev/davinciX --device=/dev/davinci_manager" if vendor == "ascend" else "--gpus all"
        path.write_text(f"VENDOR = '{vendor}'\nACCE_CONTAINER_OPT = '{options}'\nCASES = {{'{key}': '/data'}}\n")
        assert run_command(["import", str(path), f"into={path.parent / 'bench'}"]) == 0
        words = ["+experiment=flagperf", "dry_run=true"]
        (job,) = compose_jobs(words, config_dirs=[path.parent / "bench"], multirun=True)
        assert tuple(note for note in job.notes if "image" in note) == notes
        assert job.container is not None and job.image is not None
        assert job.image.reference == f"flagperf-{vendor}-{key.split(':')[1]}:t_v0.1"
        assert not [device for device in job.container.devices if "X" in device]


def test_no_case_is_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that is shown composes once its names are filled in; FlagPerf's hosts and options count."""
    path = tmp_path / "test_conf.py"
    path.write_text("VENDOR = 'nvidia'\nCASES = {'llama3_8B:megatron:A100:1:8:1': '/data'}\n")
    bench = tmp_path / "bench"
    assert run_command(["import", str(path), f"into={bench}"]) == 0
    *_, shown = capsys.readouterr().out.splitlines()
    words = "+experiment=flagperf model=NAME hardware=NAME data_dir=/data dry_run=true"
    assert shown == f"  flagperf --config-dir {bench} {words}"
    given = words.replace("model=NAME", "model=bert").replace("hardware=NAME", "hardware=A100")
    (run,) = compose_jobs(given.split(), config_dirs=[bench])
    assert (run.vendor.name, run.cluster.name) == ("nvidia", "flagperf")


def test_a_job_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FlagPerf ignores what follows the sixth part of a key."""
    path = tmp_path / "test_conf.py"
    cases = {"bert:pytorch:A100:1:8:1": "/d", "bert:pytorch:A100:1:8:1:again": "/d"}
    path.write_text(f"VENDOR = 'nvidia'\nCASES = {cases}\n")
    assert run_command(["import", str(path), f"into={tmp_path / 'bench'}"]) == 0
    told = 'test_conf.py:2: CASES "bert:pytorch:A100:1:8:1:again": /d    (the same job as one before)'
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "problem", "rest"),
    [
        pytest.param(
            lambda path: path.write_text("HOSTS = ["),
            "not valid Python: '[' was never closed",
            {"where": "{path}:1"},
            id="no Python",
        ),
        pytest.param(
            lambda path: path.symlink_to("/no/such/file"),
            "this cannot be read: No such file or directory",
            {"where": "command line", "given": "{path}"},
            id="a link to nothing",
        ),
    ],
)
def test_a_file_that_cannot_be_read(
    checkout: Path,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], object],
    problem: str,
    rest: dict[str, str],
) -> None:
    """The import is refused: half of what somebody has is no import."""
    path = checkout / "training/run_benchmarks/config/cluster_conf.py"
    path.unlink()
    make(path)
    assert run_command(["import", str(checkout), f"into={checkout / 'bench'}"]) == 2
    assert capsys.readouterr().err == lines(f"flagperf: {problem}", **rest).format(path=path) + "\n"
    assert not (checkout / "bench").exists()


def test_one_config_file_alone(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What lies beside it, and the case that it is for, are read with it; not those for other scales."""
    file = checkout / "training" / ACME / "config/config_A1x2x4.py"
    file.with_name("config_A1x1x1.py").write_text("lr = 0.3\n")
    whole, alone = tmp_path / "whole", tmp_path / "alone"
    assert run_command(["import", str(checkout), f"into={whole}"]) == 0
    capsys.readouterr()
    assert run_command(["import", str(file), f"into={alone}"]) == 0
    assert "config_A1x1x1" not in capsys.readouterr().out
    assert sorted(path.relative_to(alone).as_posix() for path in alone.rglob("*.yaml")) == [
        "hardware/A1.yaml",
        "vendor/acme.yaml",
        TUNING,
    ]
    assert (alone / TUNING).read_text() == (whole / TUNING).read_text()


def test_what_is_there_stays(bench: Path, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same again changes nothing; a file that says something else refuses all."""
    assert run_command(["import", str(checkout), f"into={bench}"]) == 0
    (bench / TUNING).write_text("mine")
    (bench / "hardware/A1.yaml").unlink()
    assert run_command(["import", str(checkout), f"into={bench}"]) == 2
    said = lines(
        "flagperf: these files exist already, with other contents",
        where="command line",
        key="into",
        given=TUNING,
        do="give another folder, or move them away first",
    )
    assert capsys.readouterr().err == said + "\n"
    assert (bench / TUNING).read_text() == "mine"
    assert not (bench / "hardware/A1.yaml").exists()


FORM = (
    "a checkout of FlagPerf or a folder of it; or files: test_conf.py, cluster_conf.py, "
    "<vendor>/<model>-<framework>/config/config_<hardware>x<nodes>x<devices>.py, "
    "benchmarks/<model>/<framework>/config/_base.py"
)
USAGE = "flagperf import DIR|FILE… into=FOLDER"


@pytest.mark.parametrize(
    ("arguments", "problem", "rest"),
    [
        pytest.param([], "import takes FlagPerf's files, and one folder", {"do": USAGE}, id="nothing"),
        pytest.param(
            ["{tree}"],
            "import takes FlagPerf's files, and one folder",
            {"given": "{tree}", "do": USAGE},
            id="no folder to write to",
        ),
        pytest.param(
            ["{tree}/no", "into=x"],
            "no such file or folder",
            {"given": "{tree}/no", "allowed": FORM},
            id="no such path",
        ),
        pytest.param(
            ["{tree}/training/acme/resnet50-pytorch/extern", "into=x"],
            "this path holds no configuration of FlagPerf",
            {"given": "{tree}/training/acme/resnet50-pytorch/extern", "allowed": FORM},
            id="nothing of its configuration",
        ),
        pytest.param(
            ["{tree}/training/acme/llama3_8B-megatron", "into=x"],
            "no value has a counterpart:\n  {tree}/training/acme/llama3_8B-megatron: 1 config file    "
            f"({ON_MEGATRON})",
            {"given": "{tree}/training/acme/llama3_8B-megatron"},
            id="a case that is not here",
        ),
    ],
)
def test_refusals(
    checkout: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str, rest: dict[str, str]
) -> None:
    assert run_command(["import", *(text.format(tree=checkout) for text in arguments)]) == 2
    expected = lines(f"flagperf: {problem}", where="command line", **rest).replace("{tree}", str(checkout))
    assert capsys.readouterr().err == expected + "\n"
