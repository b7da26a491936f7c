"""Layers are plain trees; Hydra and OmegaConf say what they must come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from user_folder import write

from flagperf.config.files.layer import Choice, Layer, merged
from flagperf.config.files.layers import OF_MANY, Load
from flagperf.config.files.search_path import CONF
from flagperf.errors import ConfigError

TREE = {
    "lr": 0.1,
    "name": "case",
    "none": None,
    "todo": "???",
    "optimizer": {"lr": "${lr}", "betas": [0.9, "${none}"], "more": {"deep": "${optimizer.lr}"}},
    "again": "${optimizer}",
    "text": "${name}-${lr}-${none}",
    "nodes": [{"address": "a"}, {"address": "b"}],
}


@pytest.mark.parametrize(
    "key",
    [*TREE, "optimizer.lr", "optimizer.betas", "optimizer.more.deep", "again.more.deep", "no", "lr.no", "again.no.no"],
)
def test_a_value_is_the_one_that_omegaconf_selects(key: str) -> None:
    expected = OmegaConf.select(OmegaConf.create(TREE), key)
    plain = OmegaConf.to_container(expected, resolve=True) if OmegaConf.is_config(expected) else expected
    assert Layer(TREE, {}).get(key) == plain


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="references"),
        pytest.param({"x": r"\${lr}"}, id="an escaped reference"),
        pytest.param({"x": "${oc.env:HOME}"}, id="a resolver"),
        pytest.param({"x": {"y": "${.z}", "z": 3}}, id="a relative reference"),
        pytest.param({"x": "${nodes[1].address} ${nodes.0}"}, id="an index"),
        pytest.param({"x": "${${name}}", "case": 7}, id="a reference to a reference"),
    ],
)
def test_a_resolved_tree_is_the_one_that_omegaconf_resolves(more: dict[str, Any]) -> None:
    tree = {**TREE, **more}
    assert Layer(tree, {}).resolved() == OmegaConf.to_container(OmegaConf.create(tree), resolve=True)


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({"a": "${no}"}, "Interpolation key 'no' not found"),
        ({"a": "${b}", "b": "???"}, "MissingMandatoryValue while resolving interpolation: Missing mandatory value: b"),
    ],
)
def test_a_reference_that_leads_nowhere(tree: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Layer(tree, {}).resolved(lambda key: f"the file of {key}")
    assert (refused.value.problem, refused.value.where, refused.value.key) == (problem, "the file of a", "a")


@pytest.mark.parametrize(
    "above",
    [
        pytest.param({"lr": 1, "new": {"a": 1}, "none": {"a": 1}}, id="values"),
        pytest.param({"lr": "???", "optimizer": "???", "new": "???"}, id="what a file above has to set"),
        pytest.param({"optimizer": {"lr": 2, "betas": [1]}}, id="mappings are merged, lists are not"),
        pytest.param({"optimizer": None, "nodes": None}, id="nothing"),
        pytest.param({"optimizer": "${name}", "text": {"a": 1}}, id="a reference and a mapping"),
        pytest.param({"again": {"lr": 3}}, id="a mapping over a reference to one"),
    ],
)
def test_a_tree_over_another_is_what_omegaconf_merges(above: dict[str, Any]) -> None:
    before = repr(TREE)
    assert merged(TREE, above) == OmegaConf.to_container(OmegaConf.merge(TREE, above))
    assert repr(TREE) == before  # layers share it


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lr", 1),
        ("lr.a", 1),
        ("optimizer.more", {"wide": 1}),
        ("optimizer.more", 1),
        ("new.a.b", [1]),
        ("nodes[1].address", "c"),
        ("nodes.0", {"name": "n"}),
        ("again.lr", 3),
        ("optimizer.lr", "${name}"),
        ("name", "???"),
    ],
)
def test_a_value_is_set_where_omegaconf_sets_it(key: str, value: Any) -> None:
    config = OmegaConf.create(TREE)
    OmegaConf.update(config, key, value, force_add=True)
    assert Layer(TREE, {}).with_values({key: value}).tree == OmegaConf.to_container(config)


@pytest.mark.parametrize(
    "choices",
    [
        pytest.param([], id="defaults"),
        pytest.param(["model=paddle/bert", "cluster=example"], id="a case on another framework"),
        pytest.param(
            ["vendor=nvidia", "hardware=A100", "model=glm", "+vendor/nvidia/glm@_global_=A100x2x8"], id="a tuning"
        ),
        pytest.param(["+experiment=[smoke,mine]"], id="experiments, one of the user's own"),
    ],
)
def test_files_make_the_configuration_that_hydra_composes(tmp_path: Path, choices: list[str]) -> None:
    mine = "# @package _global_\ndefaults: [{override /model: toy}, _self_]\nlr: 1e-3\nwhen: 2026-11-23\n"
    bench = write(tmp_path, {"experiment/mine": mine, "model/toy": "# @package _global_\ndefaults: [resnet50]\n"})
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config: Any = compose("config", [f"hydra.searchpath=[{bench}]", *choices])
    made: Any = OmegaConf.to_container(config)
    expected = {key: value for key, value in made.items() if key not in OF_MANY}
    assert Load((bench, CONF))(*map(choice, choices)).tree == expected


@pytest.mark.parametrize(
    "defaults",
    [
        pytest.param("[_self_]", id="values"),
        pytest.param("[A100, _self_]", id="values over those for the product"),
        pytest.param("[_self_, A100]", id="values below them"),
        pytest.param("[_self_, {override /runtime: process}]", id="a choice"),
    ],
)
def test_a_tuning_lies_over_the_rest_as_hydra_composes_it(tmp_path: Path, defaults: str) -> None:
    top = "# @package _global_\n"
    files = {"A100": "lr: 0.5\nseed: 2\n", "A100x1x1": f"defaults: {defaults}\nlr: 0.25\noptimizer: {{new: 1}}\n"}
    bench = write(tmp_path, {f"vendor/nvidia/resnet50/{name}": top + text for name, text in files.items()})
    choices, load = (Choice("vendor", "nvidia"), Choice("hardware", "A100")), Load((bench, CONF))
    tuning = Choice("vendor/nvidia/resnet50", "A100x1x1", "_global_", added=True)
    assert load.tuned("vendor/nvidia/resnet50/A100x1x1", *choices).tree == load(tuning, *choices).tree


def choice(override: str) -> Choice:
    key, _, option = override.partition("=")
    group, _, package = key.lstrip("+").partition("@")
    options = tuple(option[1:-1].split(",")) if option.startswith("[") else option
    return Choice(group, options, package or None, added=key.startswith("+"))
