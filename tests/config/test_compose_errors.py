"""Every refusal of composition: the whole message, which names the file or the command line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from refusals import lines, message
from user_folder import SAMPLE, TOY, write

from flagperf.config.compose import compose
from flagperf.config.search_path import CONF, options
from flagperf.config.values import Cluster
from flagperf.errors import ConfigError

RULES = CONF / "mutable/resnet50.yaml"


FOLDER = "the name of a folder: not empty, without /, not . or .."
FORM = "docs/configuration.md explains the words; text with commas or brackets needs quotes: key=\"'a,b'\""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            ["vendor=nvida"],
            lines(
                "no such vendor",
                where="command line",
                key="vendor",
                given="nvida",
                allowed="{vendors}",
                do="did you mean 'nvidia'?",
            ),
            id="unknown vendor",
        ),
        pytest.param(
            ["+experiment=all_cases"],
            lines(
                "this experiment is a sweep over model",
                where="command line",
                key="experiment",
                given="all_cases",
                do="flagperf -m +experiment=all_cases",
            ),
            id="an experiment that is a sweep, without -m",
        ),
        pytest.param(
            ["nprc=2"],
            lines("unknown key", where="command line", key="nprc", do="did you mean 'nproc'?"),
            id="unknown key",
        ),
        pytest.param(
            ["deadlines.stal=2"],
            lines("unknown key", where="command line", key="deadlines.stal", do="did you mean 'deadlines.stall'?"),
            id="unknown nested key",
        ),
        pytest.param(
            ["deadlines={stop: 3, stal: 2}"],
            lines("unknown key", where="command line", key="deadlines.stal", do="did you mean 'deadlines.stall'?"),
            id="unknown key in a mapping",
        ),
        pytest.param(
            ["lr=${nope}"],
            lines("Interpolation key 'nope' not found", where="command line", key="lr"),
            id="refers to nothing",
        ),
        pytest.param(
            ["zzz=2"],
            lines("unknown key", where="command line", key="zzz", do="dry_run=true prints all keys of a case"),
            id="unknown key, nothing near",
        ),
        pytest.param(
            ["fp16=true"],
            lines(
                "unknown key",
                where="command line",
                key="fp16",
                do="FlagPerf's 'fp16' is precision=amp_fp16 or precision=amp_bf16 here",
            ),
            id="FlagPerf's name",
        ),
        pytest.param(
            ["nproc=0"],
            lines(
                "value out of range",
                where="command line",
                key="nproc",
                given="0",
                allowed="a whole number, at least 1",
            ),
            id="nproc 0",
        ),
        pytest.param(
            ["train_batch_size=-1"],
            lines(
                "value out of range",
                where="command line",
                key="train_batch_size",
                given="-1",
                allowed="a whole number, at least 1",
            ),
            id="negative batch",
        ),
        pytest.param(
            ["max_time=0"],
            lines(
                "value out of range",
                where="command line",
                key="max_time",
                given="0",
                allowed="a number, above 0, or null",
            ),
            id="no time",
        ),
        pytest.param(
            ["precision=amp_bf61"],
            lines(
                "no such option",
                where="command line",
                key="precision",
                given="amp_bf61",
                allowed="one of: fp32, tf32, amp_fp16, amp_bf16",
                do="did you mean 'amp_bf16'?",
            ),
            id="unknown precision",
        ),
        pytest.param(
            ["sinks=[mlog]"],
            lines(
                "no such option",
                where="command line",
                key="sinks",
                given="['mlog']",
                allowed="a list of: mllog, dllogger, tensorboard",
                do="did you mean 'mllog'?",
            ),
            id="unknown sink",
        ),
        pytest.param(
            ["nnodes=two"],
            lines(
                "wrong type of value",
                where="command line",
                key="nnodes",
                given="two",
                allowed="a whole number, at least 1",
            ),
            id="text for a number",
        ),
        pytest.param(
            ["max_steps=2.5"],
            lines(
                "wrong type of value",
                where="command line",
                key="max_steps",
                given="2.5",
                allowed="a whole number, at least 1, or null",
            ),
            id="half a step",
        ),
        pytest.param(
            ["lr=null"],
            lines("wrong type of value", where="command line", key="lr", given="null", allowed="a number, above 0"),
            id="null",
        ),
        pytest.param(
            ["lr=true"],
            lines("wrong type of value", where="command line", key="lr", given="True", allowed="a number, above 0"),
            id="true is no number",
        ),
        pytest.param(
            ["lr=.inf"],
            lines("wrong type of value", where="command line", key="lr", given=".inf", allowed="a number, above 0"),
            id="text that looks like infinity",
        ),
        pytest.param(
            ["run_name=7"],
            lines(
                "wrong type of value",
                where="command line",
                key="run_name",
                given="7",
                allowed=f"{FOLDER}, or null",
                do="as text it is written run_name=\"'7'\"",
            ),
            id="a number for text",
        ),
        pytest.param(
            ["lr_steps=abc"],
            lines("wrong type of value", where="command line", key="lr_steps", given="abc", allowed="a whole number"),
            id="a key of the case has its type",
        ),
        pytest.param(
            ["lr=0.1,0.2"],
            lines(
                "several values need -m",
                where="command line",
                key="lr",
                given="lr=0.1,0.2",
                do="-m runs one job per value; a list is lr=[a,b]; text with a comma is lr=\"'a,b'\"",
            ),
            id="a sweep without -m",
        ),
        pytest.param(
            ["~lr"], lines("a key cannot be taken away", where="command line", given="~lr", do="lr=null"), id="deletion"
        ),
        pytest.param(
            ["resnet50"],
            lines("this is not a word of the form key=value", where="command line", given="resnet50", do=FORM),
            id="no key",
        ),
        pytest.param(
            ["model@x=resnet50"],
            lines("this is not a word of the form key=value", where="command line", given="model@x=resnet50", do=FORM),
            id="a package",
        ),
        pytest.param(
            ["hydra.verbose=true"],
            lines(
                "unknown key", where="command line", key="hydra.verbose", do="dry_run=true prints all keys of a case"
            ),
            id="a key of Hydra",
        ),
        pytest.param(
            ["network._target_=my.Net"],
            lines(
                "a closed run may not change this key",
                where="command line",
                key="network._target_",
                given="my.Net",
                allowed=f"the keys listed in {RULES}",
                do="division=open allows it, and the report says so",
            ),
            id="closed: the network",
        ),
        pytest.param(
            ["target.value=10"],
            lines(
                "a closed run may not change this key",
                where="command line",
                key="target.value",
                given="10",
                allowed=f"the keys listed in {RULES}",
                do="division=open allows it, and the report says so",
            ),
            id="closed: the target",
        ),
        pytest.param(
            ["mutable.target=please"],
            lines("unknown key", where="command line", key="mutable.target", do="did you mean 'mutable.lr'?"),
            id="closed: the rules",
        ),
        pytest.param(
            ["+network.layers=3"],
            lines(
                "a closed run may not change this key",
                where="command line",
                key="network.layers",
                given="3",
                allowed=f"the keys listed in {RULES}",
                do="division=open allows it, and the report says so",
            ),
            id="closed: something new",
        ),
        pytest.param(
            ["vendor=nvidia"],
            lines(
                "hardware cpu is a product of vendor cpu, not of nvidia",
                where="command line",
                key="hardware",
                given="cpu",
                do="choose hardware of nvidia (flagperf list hardware), or vendor=cpu",
            ),
            id="another maker's hardware",
        ),
        pytest.param(
            ["vendor=ascend", "hardware=9100"],
            lines(
                "no such hardware",
                where="command line",
                key="hardware",
                given="9100",
                allowed="{hardware}",
                do="FlagPerf's '9100' is hardware=Ascend910 here",
            ),
            id="FlagPerf's name of a product",
        ),
        *(
            pytest.param(
                [f"run_name='{name}'"],
                lines(
                    "wrong form of value",
                    where="command line",
                    key="run_name",
                    given=name or '""',
                    allowed=f"{FOLDER}, or null",
                ),
                id=f"run_name {name!r}",
            )
            for name in ("", ".", "..", "a/b", "/tmp", "../a")
        ),
        pytest.param(
            ["vendor=nvidia", "hardware=A100", "nproc=9"],
            lines(
                "more ranks than devices",
                where="command line",
                key="nproc",
                given="9",
                allowed="at most 8, the devices of a node with A100",
            ),
            id="more ranks than devices",
        ),
    ],
)
def test_command_line(words: list[str], expected: str) -> None:
    vendors, hardware = (", ".join(options(group, [CONF])) for group in ("vendor", "hardware"))
    expected = expected.replace("{vendors}", vendors).replace("{hardware}", hardware)
    assert message(["model=resnet50", "size=full", "data_dir=/data", *words]) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            ["lr=interval(1,2)"],
            lines(
                "an interval has no end of values",
                where="command line",
                key="lr",
                given="lr=interval(1,2)",
                allowed="range(start, stop, step)",
            ),
            id="interval",
        ),
        pytest.param(
            ["vendor=glob(zz*)"],
            lines("this sweep has no value", where="command line", key="vendor", given="vendor=glob(zz*)"),
            id="nothing matches",
        ),
        pytest.param(
            ["lr=0.1,0.1"],
            lines(
                "two jobs of this sweep are the same",
                where="command line",
                given="lr=0.1,0.1",
                do="repeat=N repeats a job",
            ),
            id="twice the same",
        ),
    ],
)
def test_sweeps(words: list[str], expected: str) -> None:
    assert message(words, multirun=True) == expected


GLOBAL = "# @package _global_\n"
A100 = ["model=resnet50", "vendor=nvidia", "hardware=A100", "nproc=8", "data_dir=/data"]
ANY = "title: any\nmemory_gib: null\npower_w: null\npeak_flops: {}\n"
TUNING = "vendor/nvidia/resnet50/A100x1x8"


@pytest.mark.parametrize(
    ("files", "words", "expected"),
    [
        pytest.param(
            {TUNING: GLOBAL + "target: {value: 70}\n"},
            A100,
            lines(
                "a tuning may change mutable keys only",
                where=f"{{bench}}/{TUNING}.yaml",
                key="target.value",
                given="70",
                allowed=f"the keys listed in {RULES}",
                do="take it out of the tuning; an experiment with division=open may set it",
            ),
            id="tuning: immutable key",
        ),
        pytest.param(
            {TUNING: GLOBAL + "division: open\nrepeat: 2\n"},
            A100,
            lines(
                "a tuning may change mutable keys only",
                where=f"{{bench}}/{TUNING}.yaml",
                key="repeat",
                given="2",
                allowed=f"the keys listed in {RULES}",
                do="take it out of the tuning; an experiment with division=open may set it",
            ),
            id="tuning: the platform's key, in either division",
        ),
        pytest.param(
            {TUNING: GLOBAL + "train_batch_sise: 8\n"},
            A100,
            lines(
                "unknown key",
                where=f"{{bench}}/{TUNING}.yaml",
                key="train_batch_sise",
                do="did you mean 'train_batch_size'?",
            ),
            id="tuning: unknown key",
        ),
        pytest.param(
            {TUNING: GLOBAL + "learning_rate: 0.8\n"},
            A100,
            lines(
                "unknown key",
                where=f"{{bench}}/{TUNING}.yaml",
                key="learning_rate",
                do="FlagPerf's 'learning_rate' is lr here",
            ),
            id="tuning: FlagPerf's name",
        ),
        pytest.param(
            {TUNING: GLOBAL + "lr: fast\n"},
            A100,
            lines(
                "wrong type of value",
                where=f"{{bench}}/{TUNING}.yaml",
                key="lr",
                given="fast",
                allowed="a number, above 0",
            ),
            id="tuning: wrong type",
        ),
        pytest.param(
            {TUNING: GLOBAL + "defaults: [A100, _self_]\n", "vendor/nvidia/resnet50/A100": GLOBAL + "lr: 0\n"},
            A100,
            lines(
                "value out of range",
                where="{bench}/vendor/nvidia/resnet50/A100.yaml",
                key="lr",
                given="0",
                allowed="a number, above 0",
            ),
            id="tuning: the included file is named",
        ),
        pytest.param(
            {TUNING: "# a tuning\n" + GLOBAL + "lr: 0.5\n"},
            A100,
            lines("the first line must be: # @package _global_", where=f"{{bench}}/{TUNING}.yaml"),
            id="tuning: package line too late",
        ),
        pytest.param(
            {TUNING: GLOBAL + "lr: 0.5\n  seed: 3\n"},
            A100,
            lines("not valid YAML: mapping values are not allowed here", where=f"{{bench}}/{TUNING}.yaml:3"),
            id="tuning: not YAML",
        ),
        pytest.param(
            {TUNING: GLOBAL + "lr: 0.5\nlr: 0.6\n"},
            A100,
            lines("not valid YAML: found duplicate key lr", where=f"{{bench}}/{TUNING}.yaml:3"),
            id="tuning: a key twice",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "defaults:\n  - override /model: resnet51\n"},
            ["+experiment=a"],
            lines(
                "a file chooses an option that does not exist",
                where="configuration files",
                given="model/resnet51",
                allowed="{models}",
            ),
            id="experiment: unknown case",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "repeat: 0\n"},
            ["+experiment=a", "data_dir=/data"],
            lines(
                "value out of range",
                where="{bench}/experiment/a.yaml",
                key="repeat",
                given="0",
                allowed="a whole number, at least 1",
            ),
            id="experiment: out of range",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "image_size: 64\n"},
            ["+experiment=a", "data_dir=/data"],
            lines(
                "a closed run may not change this key",
                where="{bench}/experiment/a.yaml",
                key="image_size",
                given="64",
                allowed=f"the keys listed in {RULES}",
                do="division=open allows it, and the report says so",
            ),
            id="experiment: closed",
        ),
        pytest.param(
            {"experiment/a": "# no package\nlr: 1\n"},
            ["+experiment=a", "data_dir=/data"],
            lines("the first line must be: # @package _global_", where="{bench}/experiment/a.yaml"),
            id="experiment: no package line",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "- lr\n"},
            ["+experiment=a"],
            lines("not a mapping of keys to values", where="{bench}/experiment/a.yaml"),
            id="experiment: a list",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "lr: \0\n"},
            ["+experiment=a"],
            lines("not valid YAML: special characters are not allowed", where="{bench}/experiment/a.yaml"),
            id="experiment: not text",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "defaults: [b]\n", "experiment/b": GLOBAL + "defaults: [a]\n"},
            ["+experiment=a"],
            lines("files include each other without end", where="configuration files"),
            id="experiment: a circle",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "lr: {a: 1}\n"},
            ["+experiment=a", "data_dir=/data"],
            lines(
                "wrong type of value",
                where="{bench}/experiment/a.yaml",
                key="lr",
                given="{'a': 1}",
                allowed="a number, above 0",
            ),
            id="experiment: a mapping for a number",
        ),
        pytest.param(
            {"model/resnet50": TOY},
            ["data_dir=/data"],
            lines(
                "this file would replace a shipped one, and results could no longer be compared",
                where="{bench}/model/resnet50.yaml",
                do="give it another name",
            ),
            id="a case of a shipped name",
        ),
        pytest.param(
            {"config": "nproc: 2\n"},
            [],
            lines(
                "this file would replace a shipped one, and results could no longer be compared",
                where="{bench}/config.yaml",
                do="give it another name",
            ),
            id="config.yaml",
        ),
        pytest.param(
            {"experiment/a": GLOBAL + "defaults:\n  - override /mutable: mine\n", "mutable/mine": "target: mine\n"},
            ["+experiment=a", "target.value=1", "data_dir=/data"],
            lines(
                "the mutable list is the case's to choose",
                where="{bench}/experiment/a.yaml",
                key="mutable",
                given="mine",
                allowed="resnet50",
            ),
            id="experiment: another mutable list",
        ),
        pytest.param(
            {
                "vendor/acme": GLOBAL + "vendor: {title: Acme, device: acme, plugin: null, visible_devices: null}\n",
                "hardware/any": ANY,
            },
            ["vendor=acme", "hardware=any", "data_dir=/data"],
            lines("a required key is missing", where="{bench}/vendor/acme.yaml", key="vendor.backend", allowed="text"),
            id="vendor: a field is missing",
        ),
        pytest.param(
            {
                "vendor/acme": GLOBAL
                + "vendor: {title: A, device: a, backend: a, plugin: null, visible_devices: null, imagee: {}}\n",
                "hardware/any": ANY,
            },
            ["vendor=acme", "hardware=any", "data_dir=/data"],
            lines("unknown key", where="{bench}/vendor/acme.yaml", key="vendor.imagee", do="did you mean 'image'?"),
            id="vendor: unknown field",
        ),
        pytest.param(
            {"vendor/acme": GLOBAL + "vendor: {title: Acme}\nprecision: tf32\n"},
            ["vendor=acme", "data_dir=/data"],
            lines(
                "a vendor file may set vendor only", where="{bench}/vendor/acme.yaml", key="precision", allowed="vendor"
            ),
            id="vendor: sets a word of the training",
        ),
        pytest.param(
            {"hardware/X1": "title: X1\nmemory_gib: -1\npower_w: null\npeak_flops: {}\n"},
            ["hardware=X1", "data_dir=/data"],
            lines(
                "value out of range",
                where="{bench}/hardware/X1.yaml",
                key="hardware.memory_gib",
                given="-1",
                allowed="a number, above 0, or null",
            ),
            id="hardware: out of range",
        ),
        pytest.param(
            {"hardware/X1": "title: X1\nmemory_gib: 1\npower_w: null\npeak_flops: {fp32: a lot}\n"},
            ["hardware=X1", "data_dir=/data"],
            lines(
                "wrong type of value",
                where="{bench}/hardware/X1.yaml",
                key="hardware.peak_flops.fp32",
                given="a lot",
                allowed="a number, above 0",
            ),
            id="hardware: wrong type",
        ),
        pytest.param(
            {"cluster/lab": "title: lab\nnodes:\n  - {address: h1}\n  - {address: h2, port: ssh}\n"},
            ["cluster=lab", "data_dir=/data"],
            lines(
                "wrong type of value",
                where="{bench}/cluster/lab.yaml",
                key="cluster.nodes[1].port",
                given="ssh",
                allowed="a whole number, at least 1, at most 65535, or null",
            ),
            id="cluster: wrong type",
        ),
        pytest.param(
            {"cluster/lab": "title: lab\nnodes:\n  - {address: h1, port: 70000}\n"},
            ["cluster=lab", "data_dir=/data"],
            lines(
                "value out of range",
                where="{bench}/cluster/lab.yaml",
                key="cluster.nodes[0].port",
                given="70000",
                allowed="a whole number, at least 1, at most 65535, or null",
            ),
            id="cluster: port",
        ),
        pytest.param(
            {"cluster/lab": "title: lab\nnodes:\n  - {address: h1}\n  - {address: h1}\n"},
            ["cluster=lab", "data_dir=/data"],
            lines(
                "two nodes have one name",
                where="{bench}/cluster/lab.yaml",
                key="cluster.nodes[1].name",
                given="h1",
            ),
            id="cluster: a node twice",
        ),
        pytest.param(
            {"cluster/lab": "title: lab\nnodes: []\n"},
            ["cluster=lab", "data_dir=/data"],
            lines("the cluster has no nodes", where="{bench}/cluster/lab.yaml", key="cluster.nodes"),
            id="cluster: empty",
        ),
        pytest.param(
            {"cluster/lab": "title: lab\nhosts: []\n"},
            ["cluster=lab", "data_dir=/data"],
            lines(
                "unknown key",
                where="{bench}/cluster/lab.yaml",
                key="cluster.hosts",
                do=f"one of: {', '.join(sorted(field.name for field in fields(Cluster)))}",
            ),
            id="cluster: unknown field",
        ),
        pytest.param(
            {"cluster/lab": "title: lab\nnodes:\n  - {address: h1}\n"},
            ["cluster=lab", "data_dir=data"],
            lines(
                "data_dir lies on other hosts",
                where="command line",
                key="data_dir",
                given="data",
                allowed="an absolute path",
            ),
            id="cluster: relative data_dir",
        ),
        pytest.param(
            {"model/toy": TOY.replace("lr: 0.1\n", "")},
            ["model=toy", "data_dir=/data"],
            lines("the case must set this key", where="{bench}/model/toy.yaml", key="lr", allowed="a number, above 0"),
            id="case: a word is missing",
        ),
        pytest.param(
            {"model/toy": TOY.replace("task: {_target_: toy.Task}\n", "")},
            ["model=toy", "data_dir=/data"],
            lines("the case must set this key", where="{bench}/model/toy.yaml", key="task"),
            id="case: a component is missing",
        ),
        pytest.param(
            {"model/toy": TOY + "train_batch_sise: 3\n"},
            ["model=toy", "data_dir=/data"],
            lines(
                "nothing reads this key",
                where="{bench}/model/toy.yaml",
                key="train_batch_sise",
                do="did you mean 'train_batch_size'?",
            ),
            id="case: nothing reads a key",
        ),
        pytest.param(
            {"model/toy": TOY.replace("max_steps: 5\n", "")},
            ["model=toy", "data_dir=/data"],
            lines(
                "nothing would ever end this training",
                where="{bench}/model/toy.yaml",
                key="max_steps | max_epochs | max_samples_termination | max_time | target",
            ),
            id="case: without an end",
        ),
        pytest.param(
            {"model/toy": TOY.replace("${depth}", "${dept}")},
            ["model=toy", "data_dir=/data"],
            lines("Interpolation key 'dept' not found", where="{bench}/model/toy.yaml", key="network.depth"),
            id="case: refers to nothing",
        ),
        pytest.param(
            {"model/toy": TOY},
            ["model=toy"],
            lines(
                "the case needs its data",
                where="command line",
                key="data_dir",
                allowed="a folder with the numbers\n    <data_dir>/\n    └── numbers.txt",
                do="size=tiny has sample data",
            ),
            id="case: no data",
        ),
        pytest.param(
            {"model/toy": TOY + SAMPLE, "size/tiny/toy": GLOBAL + "lr: slow\n"},
            ["model=toy"],
            lines(
                "wrong type of value",
                where="{bench}/size/tiny/toy.yaml",
                key="lr",
                given="slow",
                allowed="a number, above 0",
            ),
            id="size: wrong type",
        ),
    ],
)
def test_files(tmp_path: Path, files: dict[str, str], words: list[str], expected: str) -> None:
    models = ", ".join(sorted(path.stem for path in (CONF / "model").glob("*.yaml")))
    assert message(words, write(tmp_path, files)) == expected.replace("{models}", models)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        compose([], [tmp_path / "none"])
    assert str(caught.value) == lines(
        "no such configuration folder", where="command line", key="--config-dir", given=str(tmp_path / "none")
    )
