"""Every refusal of composition: the whole message, which names the file or the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from refusals import lines, message
from user_folder import SAMPLE, TOY, write

from flagperf.config.compose import compose, compose_each
from flagperf.config.files.search_path import CONF, options
from flagperf.config.schema.cluster import Cluster
from flagperf.errors import ConfigError

VENDORS, HARDWARE, CASES = (", ".join(options(group, [CONF])) for group in ("vendor", "hardware", "model"))
RULES = CONF / "mutable/resnet50.yaml"
CLOSED = {"allowed": f"the keys listed in {RULES}", "do": "division=open allows it, and the report says so"}
NOT_TUNED = {
    "allowed": f"the keys listed in {RULES}",
    "do": "take it out of the tuning; an experiment with division=open may set it",
}
COUNT, ABOVE_0 = "a whole number, at least 1", "a number, above 0"
FOLDER = "the name of a folder: not empty, without /, not . or .."
FORM = "docs/configuration.md explains overrides; text with commas or brackets needs quotes: key=\"'a,b'\""


def refused(name: str, overrides: str | list[str], problem: str, **rest: str | None) -> Any:
    """A row of overrides that are refused. Of the message `key` and `given` are the last override's, unless said."""
    listed = [overrides] if isinstance(overrides, str) else overrides
    key, _, given = listed[-1].lstrip("+").partition("=")
    details = {"where": "command line", "key": key, "given": given, **rest}
    return pytest.param(listed, lines(problem, **{field: text for field, text in details.items() if text}), id=name)


def unknown(name: str, override: str, advice: str, **rest: str) -> Any:
    """A row of an override whose key is unknown."""
    return refused(name, override, "unknown key", given=None, do=advice, **rest)


def of_file(name: str, files: dict[str, str], overrides: list[str], problem: str, where: str = "", **rest: str) -> Any:
    """A row of the user's files of which one is refused: the first, unless said."""
    return pytest.param(
        files, overrides, lines(problem, where=where or f"{{bench}}/{next(iter(files))}.yaml", **rest), id=name
    )


GLOBAL = "# @package _global_\n"
A100 = ["model=resnet50", "vendor=nvidia", "hardware=A100", "nproc=8", "data_dir=/data"]
TUNING = "vendor/nvidia/resnet50/A100x1x8"


def of_tuning(name: str, text: str, problem: str, where: str = "", **rest: str) -> Any:
    """A row of a tuning that is refused."""
    return of_file(f"tuning: {name}", {TUNING: GLOBAL + text}, A100, problem, where, **rest)


def of_cluster(name: str, text: str, problem: str, **rest: str) -> Any:
    """A row of a cluster that is refused. `text`: its file after the title."""
    file = {"cluster/lab": f"title: lab\n{text}"}
    return of_file(f"cluster: {name}", file, ["cluster=lab", "data_dir=/data"], problem, **rest)


def of_case(name: str, text: str, problem: str, **rest: str) -> Any:
    """A row of a case that is refused."""
    return of_file(f"case: {name}", {"model/toy": text}, ["model=toy", "data_dir=/data"], problem, **rest)


COMMAND_LINES = [
    refused("unknown vendor", "vendor=nvida", "no such vendor", allowed=VENDORS, do="did you mean 'nvidia'?"),
    refused(
        "an experiment that is a sweep, without -m",
        "+experiment=all_cases",
        "this experiment is a sweep over model",
        do="flagperf -m +experiment=all_cases runs them all; a verb such as node takes the overrides of one job",
    ),
    refused(
        "an experiment that is a suite, without -m",
        "+experiment=suite",
        "this experiment is a suite of 3 jobs",
        do="flagperf -m +experiment=suite runs them all; a verb such as node takes the overrides of one job",
    ),
    refused("no folder of own code", "code_dir=/no/such", "no such folder"),
    *(
        refused(
            f"{key} of no user", f"{key}=~no-such-user/x", "no such user", do="a file of this name is ./~no-such-user/x"
        )
        for key in ("data_dir", "result_dir", "sample_dir", "code_dir", "cluster.ssh.key", "resume")
    ),
    *(
        refused(
            f"a variable that flagperf sets, or leaves out: {name}",
            f"+vendor.environment.{name}=/x",
            "flagperf itself sets this variable, or leaves it out",
            key="vendor.environment",
            given=name,
            do="take it out",
        )
        for name in ("FLAGPERF_LOG_DIR", "PYTHON_EXEC", "PET_RUN_PATH", "MASTER_ADDR", "LOCAL_RANK")
    ),
    unknown("unknown key", "nprc=2", "did you mean 'nproc'?"),
    unknown("unknown nested key", "deadlines.stal=2", "did you mean 'deadlines.stall'?"),
    unknown("a slip in what a file may say", "vendor.device_filez=/dev/x*", "did you mean 'vendor.device_files'?"),
    unknown("the name of an option", "vendor.name=mine", "did you mean 'vendor.image'?"),
    unknown(
        "unknown key in a mapping",
        "deadlines={stop: 3, stal: 2}",
        "did you mean 'deadlines.stall'?",
        key="deadlines.stal",
    ),
    refused("refers to nothing", "lr=${nope}", "Interpolation key 'nope' not found", given=None),
    unknown(
        "unknown key, nothing near", "zzz=2", "flagperf list CASE shows the settings of a case, dry_run=true all keys"
    ),
    unknown("FlagPerf's name", "fp16=true", "FlagPerf's 'fp16' is precision=amp_fp16 or precision=amp_bf16 here"),
    unknown("a word of other tools", "gpus=2", "nproc=N is the number of devices of each node"),
    unknown(
        "a key of a cluster without its group",
        "rendezvous.interface=eth0",
        "did you mean 'cluster.rendezvous.interface'?",
    ),
    refused(
        "one sink without brackets",
        "sinks=tensorboard",
        "wrong type of value",
        allowed="a list of: mllog, dllogger, tensorboard, {_target_: path of a class, …}",
        do="a list stands in brackets: sinks=[tensorboard]",
    ),
    refused(
        "a name in place of a component that others refer to",
        ["model=llama3_8b", "division=open", "network=resnet18"],
        "wrong type of value",
        allowed="a mapping",
        do="set the keys below it: network.NAME=VALUE",
    ),
    refused("nproc 0", "nproc=0", "value out of range", allowed=f"{COUNT}, at most 1024"),
    refused(
        "negative batch", "train_batch_size=-1", "value out of range", allowed=f"auto (but not in a case), or {COUNT}"
    ),
    refused("no time", "max_time=0", "value out of range", allowed="a number, above 0, or null"),
    refused(
        "unknown precision",
        "precision=amp_bf61",
        "no such option",
        allowed="one of: fp32, tf32, amp_fp16, amp_bf16",
        do="did you mean 'amp_bf16'?",
    ),
    refused(
        "unknown sink",
        "sinks=[mlog]",
        "no such option",
        given="['mlog']",
        allowed="a list of: mllog, dllogger, tensorboard, {_target_: path of a class, …}",
        do="did you mean 'mllog'?",
    ),
    refused("text for a number", "nnodes=two", "wrong type of value", allowed=f"{COUNT}, at most 65536"),
    refused("half a step", "max_steps=2.5", "wrong type of value", allowed="a whole number, at least 1, or null"),
    refused("null", "lr=null", "wrong type of value", allowed=ABOVE_0),
    refused("true is no number", "lr=true", "wrong type of value", given="True", allowed=ABOVE_0),
    refused("text that looks like infinity", "lr=.inf", "wrong type of value", allowed=ABOVE_0),
    refused(
        "a number for text",
        "run_name=7",
        "wrong type of value",
        allowed=f"{FOLDER}, or null",
        do="as text it is written run_name=\"'7'\"",
    ),
    refused("a key of the case has its type", "lr_steps=abc", "wrong type of value", allowed="a whole number"),
    refused(
        "a sweep without -m",
        "lr=0.1,0.2",
        "several values need -m",
        given="lr=0.1,0.2",
        do="-m of a run makes one job per value; a list is lr=[a,b]; text with a comma is lr=\"'a,b'\"",
    ),
    refused("deletion", "~lr", "a key cannot be taken away", key=None, given="~lr", do="lr=null"),
    refused("no key", "resnet50", "this is not an override of the form key=value", key=None, given="resnet50", do=FORM),
    refused(
        "a package",
        "model@x=resnet50",
        "this is not an override of the form key=value",
        key=None,
        given="model@x=resnet50",
        do=FORM,
    ),
    unknown(
        "a key of Hydra", "hydra.verbose=true", "flagperf list CASE shows the settings of a case, dry_run=true all keys"
    ),
    refused("closed: the network", "network._target_=my.Net", "a closed run may not change this key", **CLOSED),
    refused("closed: the target", "target.value=10", "a closed run may not change this key", **CLOSED),
    unknown("closed: the rules", "mutable.target=please", "did you mean 'mutable.lr'?"),
    refused("closed: restarts", ["checkpoint_freq=5", "restarts=1"], "a closed run may not change this key", **CLOSED),
    refused(
        "restarts without checkpoints",
        ["division=open", "restarts=1"],
        "a restart continues from a checkpoint, but this run writes no checkpoint",
        do="checkpoint_freq=N writes one every N optimizer steps",
    ),
    refused("closed: the revision", "revision=3", "a closed run may not change this key", **CLOSED),
    refused(
        "closed: a common key that the case's list takes out",
        ["model=swin_transformer", "lr=0.1"],
        "a closed run may not change this key",
        allowed=f"the keys listed in {CONF / 'mutable/swin_transformer.yaml'}",
        do=CLOSED["do"],
    ),
    refused("closed: something new", "+network.layers=3", "a closed run may not change this key", **CLOSED),
    refused(
        "a vendor without its hardware, and without data",
        ["vendor=nvidia", "model=resnet50"],
        "vendor=nvidia needs its hardware",
        key="hardware",
        given=None,
        allowed="A100, A800, B200, GB200, H100, H20, H200, H800, L40S, RTX4090",
        do="vendor=nvidia hardware=NAME",
    ),
    refused(
        "another maker's hardware",
        ["vendor=nvidia", "hardware=cpu", "data_dir=/data"],
        "hardware cpu is a product of vendor cpu, not of nvidia",
        key="hardware",
        given="cpu",
        do="choose hardware of nvidia (flagperf list hardware), or vendor=cpu",
    ),
    refused("no scale", "scale=2", "wrong form of value", allowed="<nnodes>x<nproc>, such as 2x8"),
    refused(
        "a scale and its nodes",
        ["nnodes=2", "scale=2x8"],
        "scale says how many nodes and devices",
        key="nnodes",
        given=None,
        do="give scale=2x8, or nnodes and nproc",
    ),
    refused("capitals", "hardware=h100", "no such hardware", allowed=HARDWARE, do="did you mean 'H100'?"),
    unknown("a key in capitals", "NProc=2", "did you mean 'nproc'?"),
    unknown("a group", "modle=glm", "did you mean 'model'?"),
    unknown(
        "the end of three keys",
        "batch_size=2",
        "did you mean 'eval_batch_size' or 'global_batch_size' or 'train_batch_size'?",
    ),
    unknown("nearly FlagPerf's name", "learning_rat=2", "FlagPerf's 'learning_rate' is lr here"),
    refused(
        "a cluster that is nowhere",
        "cluster=lab",
        "no such cluster",
        allowed="example, kubernetes, local, slurm",
        do="your own is a file of that name in cluster/ of a folder, given by --config-dir DIR",
    ),
    refused(
        "FlagPerf's name of a product",
        ["vendor=ascend", "hardware=9100"],
        "no such hardware",
        allowed=HARDWARE,
        do="FlagPerf's '9100' is hardware=Ascend910 here",
    ),
    *(
        refused(
            f"run_name {name!r}",
            f"run_name='{name}'",
            "wrong form of value",
            given=name or '""',
            allowed=f"{FOLDER}, or null",
        )
        for name in ("", ".", "..", "a/b", "/tmp", "../a")
    ),
    refused(
        "more ranks than devices",
        ["vendor=nvidia", "hardware=A100", "nproc=9"],
        "more ranks than devices",
        allowed="at most 8, the devices of a node with A100",
    ),
]


@pytest.fixture(scope="module")
def refusals() -> Mapping[tuple[str, ...], str]:
    """The messages of all command lines; they share what is composed of the same files."""
    commands = [("model=resnet50", "size=full", "data_dir=/data", *row.values[0]) for row in COMMAND_LINES]
    return {command[3:]: str(error) for command, error in zip(commands, compose_each(commands), strict=True)}


@pytest.mark.parametrize(("overrides", "expected"), COMMAND_LINES)
def test_command_line(refusals: Mapping[tuple[str, ...], str], overrides: list[str], expected: str) -> None:
    assert refusals[tuple(overrides)] == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        refused(
            "interval",
            "lr=interval(1,2)",
            "an interval has no end of values",
            given="lr=interval(1,2)",
            allowed="range(start, stop, step)",
        ),
        refused("nothing matches", "vendor=glob(zz*)", "this sweep has no value", given="vendor=glob(zz*)"),
        refused(
            "twice the same",
            "lr=0.1,0.1",
            "two jobs of this sweep are the same",
            key=None,
            given="lr=0.1,0.1",
            do="repeat=N repeats a job",
        ),
    ],
)
def test_sweeps(overrides: list[str], expected: str) -> None:
    assert message(overrides, multirun=True) == expected


ANY = "title: any\nmemory_gib: null\npower_w: null\npeak_flops: {}\n"


FORM = "a list of mappings, such as - {model: bert, scale: 1x8, repeat: 3, data_dir: /data/bert}"


@pytest.mark.parametrize(
    ("suite", "problem", "rest"),
    [
        pytest.param(
            "{model: bert}",
            "a suite is a list of jobs",
            {"key": "suite", "given": "{'model': 'bert'}", "allowed": FORM},
            id="no list",
        ),
        pytest.param(
            "[{model: bert}, bert]",
            "a job of a suite is a mapping",
            {"key": "suite[2]", "given": "bert", "allowed": FORM},
            id="no mapping",
        ),
        pytest.param(
            "[{experiment: smoke}]",
            "a job of a suite names no experiment",
            {"key": "suite[1]", "do": "put its values here, or give both: -m +experiment=[mine,smoke]"},
            id="an experiment",
        ),
    ],
)
def test_a_suite(tmp_path: Path, suite: str, problem: str, rest: dict[str, str]) -> None:
    bench = write(tmp_path, {"experiment/mine": f"# @package _global_\nsuite: {suite}\n"})
    expected = lines(problem, where="{bench}/experiment/mine.yaml", **rest)
    assert message(["+experiment=mine"], bench, multirun=True) == expected


@pytest.mark.parametrize(
    ("files", "overrides", "expected"),
    [
        of_tuning(
            "immutable key",
            "target: {value: 70}\n",
            "a tuning may change mutable keys only",
            key="target.value",
            given="70",
            **NOT_TUNED,
        ),
        of_tuning(
            "the platform's key, in either division",
            "division: open\nrepeat: 2\n",
            "a tuning may change mutable keys only",
            key="repeat",
            given="2",
            **NOT_TUNED,
        ),
        of_tuning(
            "unknown key",
            "train_batch_sise: 8\n",
            "unknown key",
            key="train_batch_sise",
            do="did you mean 'train_batch_size'?",
        ),
        of_tuning(
            "FlagPerf's name",
            "learning_rate: 0.8\n",
            "unknown key",
            key="learning_rate",
            do="FlagPerf's 'learning_rate' is lr here",
        ),
        of_tuning("wrong type", "lr: fast\n", "wrong type of value", key="lr", given="fast", allowed=ABOVE_0),
        of_file(
            "tuning: the included file is named",
            {TUNING: GLOBAL + "defaults: [A100, _self_]\n", "vendor/nvidia/resnet50/A100": GLOBAL + "lr: 0\n"},
            A100,
            "value out of range",
            where="{bench}/vendor/nvidia/resnet50/A100.yaml",
            key="lr",
            given="0",
            allowed=ABOVE_0,
        ),
        of_file(
            "tuning: package line too late",
            {TUNING: "# a tuning\n" + GLOBAL + "lr: 0.5\n"},
            A100,
            "the first line must be: # @package _global_",
        ),
        of_tuning(
            "not YAML",
            "lr: 0.5\n  seed: 3\n",
            "not valid YAML: mapping values are not allowed here",
            where=f"{{bench}}/{TUNING}.yaml:3",
        ),
        of_tuning(
            "a key twice",
            "lr: 0.5\nlr: 0.6\n",
            "not valid YAML: found duplicate key lr",
            where=f"{{bench}}/{TUNING}.yaml:3",
        ),
        *(
            of_tuning(name, f"seed: 1\nlr: {value}\n", f"not valid YAML: {problem}", where=f"{{bench}}/{TUNING}.yaml:3")
            for name, value, problem in (
                ("nested deeply", "[" * 500 + "]" * 500, "nested more than 100 levels deep"),
                ("nested beyond any stack", "{a: " * 9000, "exceeded maximum nesting depth"),
                ("a part that contains itself", "&a [*a]", "nested more than 100 levels deep"),
                ("a number of many digits", "9" * 5000, "a number of more than 25 characters"),
            )
        ),
        of_tuning(
            "parts of parts of parts",
            "a: &a [1, 1]\n"
            + "".join(f"b{n}: &{chr(98 + n)} [{', '.join(8 * ['*' + chr(97 + n)])}]\n" for n in range(20)),
            "not valid YAML: more than 1000000 values",
            where=f"{{bench}}/{TUNING}.yaml:2",
        ),
        of_file(
            "experiment: unknown case",
            {"experiment/a": GLOBAL + "defaults:\n  - override /model: resnet51\n"},
            ["+experiment=a"],
            "a file chooses an option that does not exist",
            where="configuration files",
            given="model/resnet51",
            allowed=CASES,
        ),
        of_file(
            "experiment: out of range",
            {"experiment/a": GLOBAL + "repeat: 0\n"},
            ["+experiment=a", "data_dir=/data"],
            "value out of range",
            key="repeat",
            given="0",
            allowed=f"{COUNT}, at most 10000",
        ),
        of_file(
            "experiment: closed",
            {"experiment/a": GLOBAL + "image_size: 64\n"},
            ["+experiment=a", "data_dir=/data"],
            "a closed run may not change this key",
            key="image_size",
            given="64",
            **CLOSED,
        ),
        of_file(
            "experiment: no package line",
            {"experiment/a": "# no package\nlr: 1\n"},
            ["+experiment=a", "data_dir=/data"],
            "the first line must be: # @package _global_",
        ),
        of_file(
            "experiment: a list",
            {"experiment/a": GLOBAL + "- lr\n"},
            ["+experiment=a"],
            "not a mapping of keys to values",
        ),
        of_file(
            "experiment: not text",
            {"experiment/a": GLOBAL + "lr: \0\n"},
            ["+experiment=a"],
            "not valid YAML: special characters are not allowed",
        ),
        of_file(
            "experiment: a circle",
            {"experiment/a": GLOBAL + "defaults: [b]\n", "experiment/b": GLOBAL + "defaults: [a]\n"},
            ["+experiment=a"],
            "files include each other without end",
            where="configuration files",
        ),
        of_file(
            "experiment: a mapping for a number",
            {"experiment/a": GLOBAL + "lr: {a: 1}\n"},
            ["+experiment=a", "data_dir=/data"],
            "wrong type of value",
            key="lr",
            given="{'a': 1}",
            allowed=ABOVE_0,
        ),
        of_file(
            "a case of a shipped name",
            {"model/resnet50": TOY},
            ["data_dir=/data"],
            "this file would replace a shipped one, and results could no longer be compared",
            do="give it another name",
        ),
        of_file(
            "config.yaml",
            {"config": "nproc: 2\n"},
            [],
            "this file would replace a shipped one, and results could no longer be compared",
            do="give it another name",
        ),
        of_file(
            "experiment: another mutable list",
            {"experiment/a": GLOBAL + "defaults:\n  - override /mutable: mine\n", "mutable/mine": "target: mine\n"},
            ["+experiment=a", "target.value=1", "data_dir=/data"],
            "only the case may choose its mutable list",
            key="mutable",
            given="mine",
            allowed="resnet50",
        ),
        of_file(
            "vendor: a field is missing",
            {
                "vendor/acme": GLOBAL + "vendor: {title: Acme, device: acme, plugin: null, visible_devices: null}\n",
                "hardware/any": ANY,
            },
            ["vendor=acme", "hardware=any", "data_dir=/data"],
            "a required key is missing",
            key="vendor.backend",
            allowed="text",
        ),
        of_file(
            "vendor: unknown field",
            {
                "vendor/acme": GLOBAL
                + "vendor: {title: A, device: a, backend: a, plugin: null, visible_devices: null, imagee: {}}\n",
                "hardware/any": ANY,
            },
            ["vendor=acme", "hardware=any", "data_dir=/data"],
            "unknown key",
            key="vendor.imagee",
            do="did you mean 'image'?",
        ),
        of_file(
            "vendor: no switch",
            {
                "vendor/acme": GLOBAL
                + "vendor: {title: A, device: a, backend: a, plugin: null, visible_devices: null,"
                + " algorithms: {deterministic: sometimes}}\n",
                "hardware/any": ANY,
            },
            ["vendor=acme", "hardware=any", "data_dir=/data"],
            "wrong type of value",
            key="vendor.algorithms.deterministic",
            given="sometimes",
            allowed="true or false",
        ),
        of_file(
            "vendor: an algorithm that is a setting of the case",
            {
                "vendor/acme": GLOBAL
                + "vendor: {title: A, device: a, backend: a, plugin: null, visible_devices: null,"
                + " algorithms: {lr: 1}}\n",
                "hardware/any": ANY,
            },
            ["vendor=acme", "hardware=any", "data_dir=/data"],
            "unknown key",
            key="vendor.algorithms.lr",
            do="one of: cudnn_benchmark, deterministic",
        ),
        of_file(
            "vendor: sets a key of the training",
            {"vendor/acme": GLOBAL + "vendor: {title: Acme}\nprecision: tf32\n"},
            ["vendor=acme", "data_dir=/data"],
            "a vendor file may set vendor only",
            key="precision",
            allowed="vendor",
        ),
        of_file(
            "hardware: out of range",
            {"hardware/X1": "title: X1\nmemory_gib: -1\npower_w: null\npeak_flops: {}\n"},
            ["hardware=X1", "data_dir=/data"],
            "value out of range",
            key="hardware.memory_gib",
            given="-1",
            allowed="a number, above 0, or null",
        ),
        of_file(
            "hardware: wrong type",
            {"hardware/X1": "title: X1\nmemory_gib: 1\npower_w: null\npeak_flops: {fp32: a lot}\n"},
            ["hardware=X1", "data_dir=/data"],
            "wrong type of value",
            key="hardware.peak_flops.fp32",
            given="a lot",
            allowed=ABOVE_0,
        ),
        of_cluster(
            "wrong type",
            "nodes:\n  - {address: h1}\n  - {address: h2, port: ssh}\n",
            "wrong type of value",
            key="cluster.nodes[1].port",
            given="ssh",
            allowed="a whole number, at least 1, at most 65535, or null",
        ),
        of_cluster(
            "port",
            "nodes:\n  - {address: h1, port: 70000}\n",
            "value out of range",
            key="cluster.nodes[0].port",
            given="70000",
            allowed="a whole number, at least 1, at most 65535, or null",
        ),
        of_cluster(
            "a node twice",
            "nodes:\n  - {address: h1}\n  - {address: h1}\n",
            "two nodes have one name",
            key="cluster.nodes[1].name",
            given="h1",
        ),
        of_cluster("empty", "nodes: []\n", "the cluster has no nodes", key="cluster.nodes"),
        of_cluster(
            "nodes from nowhere",
            "",
            "a cluster has exactly one source of its hosts",
            key="cluster",
            given="none of nodes, slurm, kubernetes, scheduler",
            allowed="exactly one of nodes, slurm, kubernetes, scheduler",
        ),
        of_cluster(
            "nodes from two places",
            "nodes:\n  - {address: h1}\nslurm: {}\n",
            "a cluster has exactly one source of its hosts",
            key="cluster",
            given="nodes and slurm",
            allowed="exactly one of nodes, slurm, kubernetes, scheduler",
        ),
        of_cluster(
            "a time limit that YAML takes for a number",
            "slurm: {time: 30}\n",
            "wrong type of value",
            key="cluster.slurm.time",
            given="30",
            allowed="[days-]hours:minutes:seconds, or minutes, as text, or null",
            do="a value in quotes is text",
        ),
        of_file(
            "cluster: docker on nodes that others may share",
            {"cluster/lab": "title: lab\nslurm: {exclusive: false}\n"},
            ["cluster=lab", "data_dir=/data", "runtime=docker"],
            "Slurm does not limit what docker's containers use: they need whole nodes",
            key="cluster.slurm.exclusive",
            given="False",
            allowed="true",
            do="or another runtime: process, apptainer, pyxis",
        ),
        of_cluster(
            "unknown field",
            "hosts: []\n",
            "unknown key",
            key="cluster.hosts",
            do=f"one of: {', '.join(sorted(field.name for field in fields(Cluster)))}",
        ),
        of_file(
            "cluster: relative data_dir",
            {"cluster/lab": "title: lab\nnodes:\n  - {address: h1}\n"},
            ["cluster=lab", "data_dir=data"],
            "data_dir lies on other hosts",
            where="command line",
            key="data_dir",
            given="data",
            allowed="an absolute path",
        ),
        of_case(
            "a key is missing", TOY.replace("lr: 0.1\n", ""), "the case must set this key", key="lr", allowed=ABOVE_0
        ),
        of_case(
            "a component is missing",
            TOY.replace("task: {_target_: cases.toy.Task}\n", ""),
            "the case must set this key",
            key="task",
        ),
        of_case(
            "nothing reads a key",
            TOY + "train_batch_sise: 3\n",
            "nothing reads this key",
            key="train_batch_sise",
            do="did you mean 'train_batch_size'?",
        ),
        of_case(
            "without an end",
            TOY.replace("max_steps: 5\n", ""),
            "nothing would ever end this training",
            key="max_steps | max_epochs | max_samples_termination | max_time | target",
        ),
        of_case(
            "refers to nothing",
            TOY.replace("${depth}", "${dept}"),
            "Interpolation key 'dept' not found",
            key="network.depth",
        ),
        of_file(
            "case: no data",
            {"model/toy": TOY},
            ["model=toy"],
            "the case needs its data",
            where="command line",
            key="data_dir",
            allowed="a folder with the numbers\n    <data_dir>/\n    └── numbers.txt",
            do="size=tiny has sample data",
        ),
        of_file(
            "size: nothing reads a key",
            {"size/small/resnet50": GLOBAL + "num_clases: 10\n", "size/small": GLOBAL + "size: small\n"},
            ["size=small", "division=open", "data_dir=/data"],
            "nothing reads this key",
            key="num_clases",
        ),
        of_file(
            "size: wrong type",
            {"model/toy": TOY + SAMPLE, "size/tiny/toy": GLOBAL + "lr: slow\n"},
            ["model=toy"],
            "wrong type of value",
            where="{bench}/size/tiny/toy.yaml",
            key="lr",
            given="slow",
            allowed=ABOVE_0,
        ),
    ],
)
def test_files(tmp_path: Path, files: dict[str, str], overrides: list[str], expected: str) -> None:
    assert message(overrides, write(tmp_path, files)) == expected


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        compose([], [tmp_path / "none"])
    assert str(caught.value) == lines(
        "no such configuration folder", where="command line", key="--config-dir", given=str(tmp_path / "none")
    )
