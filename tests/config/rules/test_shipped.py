"""What a user's files, code and variables can do to a shipped case: refused in a closed run, told by an open one."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import lines, message
from user_folder import SAMPLE, TOY, write

import flagperf
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.config.rules.own_code import LIBRARIES, SHIPPED, STANDARD
from flagperf.config.schema.values import JobConfig
from flagperf.contract.records import Change
from flagperf.errors import ConfigError

GLOBAL = "# @package _global_\n"
RULES = CONF / "mutable/resnet50.yaml"
LISTED = f"the keys listed in {RULES}"
VALUES = f"a plain value; {RULES} lists the mutable keys"
OPEN = "division=open allows it, and the report says so"
DATA = "data_dir=/data"
A100 = ["vendor=nvidia", "hardware=A100", DATA]
ACME = "vendor: {title: Acme, device: cpu, backend: gloo, plugin: null, visible_devices: null}\n"
ANY = "title: any\nmemory_gib: null\npower_w: null\npeak_flops: {}\n"
SHIPPED_A100 = (CONF / "hardware/A100.yaml").read_text()
COOLER_A100 = re.sub(r"power_w: \S+", "power_w: 300", SHIPPED_A100)


def acme(defaults: str, **more: str) -> dict[str, str]:
    """A vendor of the user's own whose file reaches for what is not its own, by the defaults list."""
    return {"vendor/acme": f"{GLOBAL}defaults:\n  - {defaults}\n  - _self_\n{ACME}", "hardware/any": ANY, **more}


def row(name: str, files: dict[str, str], overrides: list[str], change: tuple[str, Any, Any], where: str = "") -> Any:
    """An attack by files: the key that a closed run refuses, and that an open one records."""
    return pytest.param(files, overrides, Change(*change, where), id=name)


BY_FILES = [
    row(
        "a vendor that brings a list of its own",
        acme("/patch@_global_: net", **{"patch/net": "network: {groups: 2}\n"}),
        ["vendor=acme", "hardware=any", "size=full", DATA],
        ("network.groups", None, 2),
        "a file of --config-dir",
    ),
    row(
        "a vendor that starts other processes",
        acme("override /framework: mine", **{"framework/mine": "title: mine\nlaunch: ['{python}', -m, mine]\n"}),
        ["vendor=acme", "hardware=any", "size=full", DATA],
        ("framework.title", "PyTorch, ranks started by torchrun", "mine"),
        "{bench}/framework/mine.yaml",
    ),
    row(
        "a vendor that adds to the mutable list",
        acme("/patch@mutable: net", **{"patch/net": "network: mine\n"}),
        ["vendor=acme", "hardware=any", "size=full", DATA],
        ("mutable.network", None, "mine"),
        "a file of --config-dir",
    ),
    row(
        "a size of the user's own",
        {"size/mine": GLOBAL + "size: mine\n", "size/mine/resnet50": GLOBAL + "num_classes: 2\n"},
        ["size=mine", DATA],
        ("num_classes", 1000, 2),
        "{bench}/size/mine/resnet50.yaml",
    ),
    row(
        "an experiment with another data set",
        {
            "dataset/mine": GLOBAL + "defaults: [imagenet, _self_]\nnum_classes: 2\n",
            "experiment/a": GLOBAL + "defaults:\n  - override /dataset: mine\n",
        },
        ["+experiment=a", "size=full", DATA],
        ("num_classes", 1000, 2),
        "experiment a",
    ),
    row(
        "an experiment with another framework",
        {
            "framework/mine": "title: mine\nlaunch: ['{python}', -m, mine]\n",
            "experiment/a": GLOBAL + "defaults:\n  - override /framework: mine\n",
        },
        ["+experiment=a", "size=full", DATA],
        ("framework.title", "PyTorch, ranks started by torchrun", "mine"),
        "experiment a",
    ),
]


@pytest.mark.parametrize(("files", "overrides", "change"), BY_FILES)
def test_files_that_change_a_shipped_case(
    tmp_path: Path, files: dict[str, str], overrides: list[str], change: Change
) -> None:
    bench = write(tmp_path, files)
    with pytest.raises(ConfigError) as caught:
        compose(overrides, [bench])
    error = caught.value
    assert (error.problem, error.key, error.given, error.allowed, error.advice) == (
        "a closed run may not change this key",
        change.key,
        change.after,
        LISTED,
        OPEN,
    )
    source = change.source.format(bench=bench)
    assert (
        Change(change.key, change.before, change.after, source)
        in compose([*overrides, "division=open"], [bench]).changes
    )


@pytest.mark.parametrize(
    ("files", "overrides", "expected"),
    [
        pytest.param(
            {"framework/pytorch": "title: mine\nlaunch: ['{python}', -m, mine]\n"},
            ["division=open", DATA],
            lines(
                "this file would replace a shipped one, and results could no longer be compared",
                where="{bench}/framework/pytorch.yaml",
                do="give it another name",
            ),
            id="a framework of a shipped name",
        ),
        pytest.param(
            {"model/mine": GLOBAL + "defaults: [resnet50, _self_]\nimage_size: 32\n"},
            ["model=mine", "division=open", DATA],
            lines(
                "a case of your own cannot have the name of a shipped one",
                where="{bench}/model/mine.yaml",
                key="case",
                given="resnet50",
                do="case: mine",
            ),
            id="a case that calls itself a shipped one",
        ),
        pytest.param(
            {"vendor/nvidia/resnet50/A100": GLOBAL + "optimizer: {fused: {_target_: mine.patch}}\n"},
            ["division=open", *A100],
            lines(
                "no class may stand below a mutable key",
                where="{bench}/vendor/nvidia/resnet50/A100.yaml",
                key="optimizer.fused._target_",
                given="mine.patch",
                allowed=VALUES,
            ),
            id="a tuning with a class below a mutable key",
        ),
    ],
)
def test_files_that_are_refused_in_either_division(
    tmp_path: Path, files: dict[str, str], overrides: list[str], expected: str
) -> None:
    assert message(overrides, write(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("override", "key", "given"),
    [
        pytest.param("optimizer.fused={_target_: a.b}", "optimizer.fused._target_", "a.b", id="a mapping"),
        pytest.param("+optimizer.foreach._target_=a.b", "optimizer.foreach._target_", "a.b", id="a key"),
        pytest.param(
            "+optimizer.fused='${oc.create:{_target_: a.b}}'",
            "optimizer.fused._target_",
            "a.b",
            id="what a resolver makes",
        ),
        pytest.param("ddp={x: {_target_: a.b}}", "ddp.x._target_", "a.b", id="a new key below"),
        pytest.param(
            "sinks=[{_target_: a.b, c: {_target_: d.e}}]",
            "sinks.c._target_",
            "d.e",
            id="an argument of a sink",
        ),
    ],
)
@pytest.mark.parametrize("division", ["closed", "open"])
def test_a_class_below_a_mutable_key(override: str, key: str, given: str, division: str) -> None:
    """It would load a pickle, say; a hyper-parameter is a value, in either division."""
    problem = "no class may stand below a mutable key"
    expected = lines(problem, where="command line", key=key, given=given, allowed=VALUES)
    assert message([override, DATA, f"division={division}"]) == expected


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        pytest.param(["+data.x={_target_: a.b}"], "data.x._target_", id="the data"),
        pytest.param(["+hardware.x._target_=a.b"], "hardware.x._target_", id="the hardware"),
        pytest.param(["deadlines._target_=a.b"], "deadlines._target_", id="the deadlines"),
        pytest.param(["+extra={y: [{_target_: a.b}]}"], "extra.y._target_", id="a key that nothing refers to"),
        pytest.param(["+_target_=a.b"], "_target_", id="the root"),
        pytest.param(
            ["+extra={_target_: a.b}", "+data.x='${extra}'"], "data.x._target_", id="what a reference brings there"
        ),
    ],
)
def test_a_class_where_no_component_stands(overrides: list[str], key: str) -> None:
    of_framework = "task, network, optimizer, lr_scheduler, parallel, train_data, eval_data"
    parts = f"{of_framework}, data.sample, data.prepare, sinks, reports, vendor.extension.replace"
    expected = lines(
        "no component stands here",
        where="command line",
        key=key,
        given="a.b",
        allowed=f"a class in {parts}, or in what ${{…}} there refers to",
    )
    added = [text if text.startswith("+") else f"+{text}" for text in overrides]
    assert message([*added, DATA, "division=open"]) == expected


def test_text_that_would_be_resolved_once_more() -> None:
    """Behind a backslash it is text here; Hydra makes the components in the ranks and resolves what it finds."""
    assert message([r"+optimizer.fused='\${oc.create:{_target_: a.b}}'", DATA]) == lines(
        "after resolution, a text may not contain ${…}",
        where="command line",
        key="optimizer.fused",
        given="${oc.create:{_target_: a.b}}",
        do=r"write ${…} without \ before it",
    )


# ---------------------------------------------------------------- libraries


def a_case(network: str) -> dict[str, str]:
    """A user's own case with this network."""
    text = TOY.replace("depth: 2\n", "").replace('{_target_: cases.toy.Network, depth: "${depth}"}', network)
    return {"model/toy": text}


@pytest.mark.parametrize(
    ("network", "key", "given"),
    [
        pytest.param("{_target_: mmdet.Net}", "network._target_", "mmdet.Net", id="another library"),
        pytest.param("{_target_: os.system, command: ls}", "network._target_", "os.system", id="Python's own"),
        pytest.param("{_target_: builtins.eval, _args_: ['1']}", "network._target_", "builtins.eval", id="a builtin"),
        pytest.param(
            "{_target_: torch.nn.Sequential, _args_: [{_target_: mmdet.Net}]}",
            "network._args_._target_",
            "mmdet.Net",
            id="inside of another",
        ),
        pytest.param(
            "{_target_: torch.nn.Sequential, a: {_target_: hydra.utils.get_method, path: os.system}}",
            "network.a.path",
            "os.system",
            id="looked up",
        ),
        pytest.param(
            "{_target_: hydra.utils.instantiate, config: {}}",
            "network._target_",
            "hydra.utils.instantiate",
            id="Hydra's own maker",
        ),
        pytest.param(
            "{_target_: flagperf.contract.command.Command}",
            "network._target_",
            "flagperf.contract.command.Command",
            id="the launcher's",
        ),
    ],
)
def test_a_class_of_another_library(tmp_path: Path, network: str, key: str, given: str) -> None:
    bench = write(tmp_path, a_case(network))
    assert message(["model=toy", "size=full", DATA], bench) == lines(
        "this class is neither of the case's libraries nor of its own code",
        where="{bench}/model/toy.yaml",
        key=key,
        given=given,
        allowed="a class of cases, flagperf.trainer, torch, torchvision, torchaudio, diffusers, timm, transformers, "
        "or of code_dir, PYTHONPATH or the working folder",
        do=OPEN,
    )
    opened = compose(["model=toy", "size=full", DATA, "division=open"], [bench])
    assert opened.config["own"] == {
        "model/toy": f"{bench}/model/toy.yaml",
        key: f"{given}: this class is neither of the case's libraries nor of its own code",
    }


def test_a_class_that_a_mutable_setting_names() -> None:
    expected = message(["checkpoint_modules=mmdet.Block", DATA])
    assert expected.startswith("this class is neither of the case's libraries nor of its own code\n")


@pytest.mark.parametrize("where", ["code_dir", "PYTHONPATH", "working folder"])
def test_a_class_of_the_cases_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """A module, or a folder without __init__.py, in any of the places where ranks find a user's code."""
    bench = write(tmp_path / "bench", a_case("{_target_: nets.Net, inner: {_target_: shapes.deep.Net}}"))
    folder = code(tmp_path / "code", "nets.py", "shapes/deep.py")
    given = [f"code_dir={folder}"] if where == "code_dir" else []
    if where == "PYTHONPATH":
        monkeypatch.setenv("PYTHONPATH", str(folder))
    elif where == "working folder":
        monkeypatch.chdir(folder)
    own_code = compose(["model=toy", "size=full", DATA, *given], [bench]).config["own"]
    named = {} if where == "working folder" else {where: str(folder)}
    assert own_code == {"model/toy": f"{bench}/model/toy.yaml", **named}


# ---------------------------------------------------------------- honest choices


@pytest.mark.parametrize("override", ["+optimizer.fused=true", "sinks=[{_target_: a.B}, mllog]", "compile=true"])
def test_an_honest_choice_stays_closed(override: str) -> None:
    assert len(compose([override, DATA]).changes) == 1


def test_what_a_users_file_says_otherwise_of_a_product_is_recorded(tmp_path: Path) -> None:
    bench = write(tmp_path, {"hardware/A100": COOLER_A100})
    job = compose([*A100, "size=tiny"], [bench])
    power = compose([*A100, "size=tiny"]).hardware.power_w
    file = f"{bench}/hardware/A100.yaml"
    assert job.changes == (Change("hardware.power_w", power, 300, file),)
    assert job.config["own"] == {"hardware/A100": f"{file}, in place of the shipped file"}
    with pytest.raises(ConfigError, match="a closed run may not change this key"):
        compose([*A100, "size=tiny", "hardware.peak_flops.bf16=2.0e+14"], [bench])


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        pytest.param(r"bf16: \S+", "bf16: 1.0e+14", "hardware.peak_flops.bf16", id="peak"),
        pytest.param(r"(?m)^device_names:(.*\n)(  .*\n)+", "", "hardware.device_names", id="names of the device"),
        pytest.param(r"(?m)^vendor: .*\n", "", "hardware.vendor", id="vendor"),
    ],
)
def test_what_the_name_of_a_shipped_product_stands_for(tmp_path: Path, old: str, new: str, key: str) -> None:
    text, count = re.subn(old, new, SHIPPED_A100, count=1)
    assert count == 1
    bench = write(tmp_path, {"hardware/A100": text})
    expected = message([*A100, "size=tiny"], bench)
    assert expected.startswith(
        f"a closed run may not change this key\n  where:   {{bench}}/hardware/A100.yaml\n  key:     {key}\n"
    )
    assert [change.key for change in compose([*A100, "size=tiny", "division=open"], [bench]).changes] == [key]


@pytest.mark.parametrize(
    ("files", "overrides", "key", "name"),
    [
        pytest.param(
            {"model/mine": GLOBAL + TOY.partition("\n")[2].replace("case: toy", "case: r\u0435snet50")},
            ["model=mine"],
            "case",
            "r\\u0435snet50",
            id="Cyrillic letter",
        ),
        pytest.param(
            {"model/mine": GLOBAL + TOY.partition("\n")[2].replace("case: toy", "case: resnet50\u200b")},
            ["model=mine"],
            "case",
            "resnet50\\u200b",
            id="zero-width space",
        ),
        pytest.param({"hardware/\u041d100": ANY}, ["hardware=\u041d100"], "hardware", "\\u041d100", id="product"),
    ],
)
def test_a_name_that_looks_like_another_one(
    tmp_path: Path, files: dict[str, str], overrides: list[str], key: str, name: str
) -> None:
    expected = message([*overrides, DATA], write(tmp_path, files))
    assert expected == lines(
        "this name may look like another one",
        where=f"{{bench}}/{next(iter(files))}.yaml",
        key=key,
        given=f"'{name}'",
        allowed="ASCII letters, digits, and any of . _ + -",
    )


def test_a_users_own_vendor_and_case_stay_closed(tmp_path: Path) -> None:
    bench = write(
        tmp_path,
        {
            "vendor/acme": GLOBAL + "defaults:\n  - override /size: full\n  - _self_\n" + ACME,
            "hardware/X1": ANY,
            "model/toy": GLOBAL + "defaults:\n  - override /mutable: toy\n  - _self_\n" + TOY.partition("\n")[2],
            "mutable/toy": "defaults: [common, _self_]\nnetwork: mine to choose\n",
            "cluster/lab": "title: lab\nnodes: [{address: h1}]\n",
        },
    )
    overrides = ["vendor=acme", "hardware=X1", "cluster=lab", DATA]
    assert compose([*overrides, "model=resnet50"], [bench]).changes == ()
    job = compose([*overrides, "model=toy", "network.depth=7"], [bench])
    assert job.changes == (Change("network.depth", "${depth}", 7, "command line"),)
    assert job.config["own"] == {
        name: f"{bench}/{name}.yaml"
        for name in ("model/toy", "mutable/toy", "hardware/X1", "vendor/acme", "cluster/lab")
    }


# ---------------------------------------------------------------- code


def code(folder: Path, *names: str) -> Path:
    """A folder of the user's code with these empty files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def refusal_of_code(given: object, modules: str, where: str) -> str:
    problem = f"own code would be imported in place of {modules}"
    return lines(problem, where="command line", key=where, given=str(given), do=OPEN)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        pytest.param(["cases/image_classification/task.py"], "cases", id="flagperf's own, laid over"),
        pytest.param(["flagperf/__init__.py", "torch/__init__.py"], "flagperf, torch", id="packages"),
        pytest.param(["numpy.py", "random.py"], "numpy, random", id="modules"),
        pytest.param(["torchvision.cpython-311-x86_64-linux-gnu.so"], "torchvision", id="a compiled module"),
        pytest.param(["sitecustomize.py"], "sitecustomize", id="what Python imports first"),
    ],
)
def test_code_dir_with_a_shipped_name(tmp_path: Path, files: list[str], names: str) -> None:
    folder = code(tmp_path, *files)
    assert message([f"code_dir={folder}", DATA]) == refusal_of_code(folder, names, "code_dir")
    job = compose([f"code_dir={folder}", "division=open", DATA])
    assert job.config["own"]["code_dir"] == f"{folder}: own code would be imported in place of {names}"


def test_a_code_dir_of_ones_own_modules_is_recorded(tmp_path: Path) -> None:
    folder = code(tmp_path, "mine/__init__.py", "torch_acme/__init__.py", "test/__init__.py", "torch/notes.txt")
    job = compose([f"code_dir={folder}", DATA])
    assert job.changes == (Change("code_dir", None, str(folder), "command line"),)
    assert job.config["own"]["code_dir"] == str(folder)


@pytest.mark.parametrize(
    "variable", ["PYTHONPATH", "PYTHONWARNINGS", "PYTHONPYCACHEPREFIX", "LD_AUDIT", "BASH_ENV", "ENV"]
)
def test_a_variable_that_decides_what_is_imported(variable: str) -> None:
    override = f"+vendor.environment.{variable}=/mine"
    problem, key = "this variable decides which code the ranks run", "vendor.environment"
    assert message([override, DATA]) == lines(problem, where="command line", key=key, given=variable, do=OPEN)
    assert compose([override, "division=open", DATA]).config["own"][key] == f"{variable}: {problem}"


def test_a_variable_that_is_to_hold_a_networks_interface(tmp_path: Path) -> None:
    acme_file = GLOBAL + ACME.replace("plugin", "interface_variables: [PYTHONPATH], plugin")
    bench = write(tmp_path, {"vendor/acme": acme_file, "hardware/any": ANY})
    assert message(["vendor=acme", "hardware=any", DATA], bench) == lines(
        "this variable decides which code the ranks run",
        where="{bench}/vendor/acme.yaml",
        key="vendor.interface_variables",
        given="PYTHONPATH",
        do=OPEN,
    )


def test_variables_that_vendors_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    job = compose(["+vendor.environment={LD_PRELOAD: libjemalloc.so, LD_LIBRARY_PATH: /opt/acme/lib}", DATA])
    assert {change.key for change in job.changes} == {
        "vendor.environment.LD_PRELOAD",
        "vendor.environment.LD_LIBRARY_PATH",
    }
    assert job.config["own"] == {"LD_PRELOAD": "libjemalloc.so"}


@pytest.mark.parametrize("folder_kind", ["PYTHONPATH", "the working folder"])
def test_the_launchers_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_kind: str) -> None:
    """Ranks on this machine look there first; containers and other hosts do not get it."""
    folder = code(tmp_path, "cases/__init__.py", "yaml.py", "mine.py")
    if folder_kind == "PYTHONPATH":
        monkeypatch.setenv("PYTHONPATH", str(folder))
    else:
        monkeypatch.chdir(folder)
    assert message([DATA]) == refusal_of_code(folder, "cases, yaml", folder_kind)
    assert compose([*A100, "nproc=8"]).runtime.kind == "docker"
    for name in ("cases/__init__.py", "yaml.py"):
        (folder / name).unlink()
    (folder / "cases").rmdir()
    assert compose([DATA]).config["own"].get(folder_kind) == (str(folder) if folder_kind == "PYTHONPATH" else None)


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        pytest.param("/usr/local/lib/python3.11/site-packages/torch", False, id="a package of the image"),
        pytest.param("/opt/conda:rw", False, id="all packages of the image"),
        pytest.param("/var/tmp/flagperf/run/code/cases", False, id="the code that is sent"),
        pytest.param("/usr/local/Ascend/driver", True, id="a driver"),
        pytest.param("/usr/bin/cnmon", True, id="a tool"),
    ],
)
@pytest.mark.parametrize("part", ["vendor", "cluster", "runtime"])
def test_mounts(target: str, allowed: bool, part: str) -> None:
    override = f"+{part}.container.mounts={{/mine: '{target}'}}"
    if allowed:
        job = compose([override, *A100, "nproc=8"])
        assert Change(f"{part}.container.mounts./mine", None, target, "command line") in job.changes
        return
    problem, key = "this mount takes the place of code that the ranks import", f"{part}.container.mounts"
    expected = lines(problem, where="command line", key=key, given=f"/mine: {target}", do=OPEN)
    assert message([override, *A100, "nproc=8"]) == expected
    assert compose([override, *A100, "nproc=8", "division=open"]).config["own"][key] == f"/mine: {target}: {problem}"


def test_an_interpreters_own_folders_and_plain_folders_take_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without __init__ comes after every package, wherever that lies."""
    plain = code(tmp_path, "cases/notes.py", "torch/notes.py")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(plain), *sys.path]))
    assert compose([DATA]).changes == ()


# ---------------------------------------------------------------- names of sizes


@pytest.mark.parametrize(
    ("files", "size"),
    [
        pytest.param({"model/toy": TOY + SAMPLE}, "full", id="no tiny size"),
        pytest.param({"model/toy": TOY + SAMPLE, "size/tiny/toy": GLOBAL + "depth: 1\n"}, "tiny", id="a tiny size"),
    ],
)
def test_a_case_without_a_tiny_size_is_not_called_tiny(tmp_path: Path, files: dict[str, str], size: str) -> None:
    job: JobConfig = compose(["model=toy"], [write(tmp_path, files)])
    assert (job.size, job.config["size"]) == (size, size)


def test_every_library_that_ranks_import_is_known() -> None:
    root = Path(flagperf.__file__).parents[1]
    python = [*root.glob("flagperf/trainer/**/*.py"), *root.glob("cases/**/*.py")]
    imported = {
        name.split(".")[0]
        for path in python
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in names_imported(node)
    }
    targets = {match for path in CONF.rglob("*.yaml") for match in re.findall(r"_target_: (\w+)\.", path.read_text())}
    files = (CONF / "framework").glob("*.yaml")
    frameworks = {name for path in files for name in yaml.safe_load(path.read_text()).get("imports", ())}
    others = {"__future__", "your", "mlperf_logging"}  # python -m cases.convergence imports the last, and no rank
    assert (imported | targets) - STANDARD - {*SHIPPED, *LIBRARIES, *frameworks, *others} == set()


def names_imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
