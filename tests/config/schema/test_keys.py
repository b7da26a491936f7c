"""The table of overrides: complete, and right about what it accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from flagperf.config.files.search_path import CONF
from flagperf.config.schema.keys import KEYS, PARTS, is_platform, is_under
from flagperf.errors import meant, nearest


def keys(tree: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from keys(value, f"{prefix}{name}.")
        else:
            yield prefix + name


@pytest.mark.parametrize("file", ["config", "training"])
def test_every_key_is_in_the_table(file: str) -> None:
    tree = yaml.safe_load((CONF / f"{file}.yaml").read_text(encoding="utf-8"))
    for part in ("defaults", "hydra", *PARTS):
        tree.pop(part, None)
    assert [key for key in keys(tree) if key not in KEYS and key != "target"] == []


@pytest.mark.parametrize("file", ["config", "training"])
def test_every_default_is_accepted(file: str) -> None:
    tree = yaml.safe_load((CONF / f"{file}.yaml").read_text(encoding="utf-8"))
    tree.pop("defaults", None)
    refused = {
        key: value
        for key in keys(tree)
        if key in KEYS and (value := _at(tree, key)) != "???" and not KEYS[key].accepts(value)
    }
    assert refused == {}


def _at(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree


@pytest.mark.parametrize(
    ("key", "accepted", "refused", "text"),
    [
        pytest.param(
            "nproc",
            [1, 8],
            [0, -1, 1.0, "1", True, None, 10**14],
            "a whole number, at least 1, at most 1024",
            id="count",
        ),
        pytest.param("num_workers", [0, 4], [-1, 0.5], "a whole number, at least 0", id="count from 0"),
        pytest.param("max_steps", [1, None], [0, "all"], "a whole number, at least 1, or null", id="count or null"),
        pytest.param("lr", [0.1, 1], [0, -0.1, float("nan"), float("inf"), "0.1"], "a number, above 0", id="number"),
        pytest.param("momentum", [0, 0.9, 1], [1.1, -0.1], "a number, at least 0, at most 1", id="range"),
        pytest.param("dry_run", [True, False], ["true", 1, None], "true or false", id="switch"),
        pytest.param("division", ["open"], ["opened", None], "one of: closed, open", id="options"),
        pytest.param("data_dir", ["a b", None], [3, False], "text, or null", id="text"),
        pytest.param(
            "run_name",
            ["a b", "..a", ".a", "...", "图片", "a\nb", None],
            ["", ".", "..", "a/b", "/a", "a/", "../a", "a\0b", 3],
            "the name of a folder: not empty, without /, not . or .., or null",
            id="name of a folder",
        ),
        pytest.param(
            "sinks",
            [[], ["mllog"], [{"_target_": "mine.Sink", "name": "x"}, "mllog"]],
            ["mllog", ["x"], [{}], [{"_target_": 3}]],
            "a list of: mllog, dllogger, tensorboard, {_target_: path of a class, …}",
            id="list of options",
        ),
    ],
)
def test_what_a_field_accepts(key: str, accepted: list[Any], refused: list[Any], text: str) -> None:
    field = KEYS[key]
    assert [field.accepts(value) for value in accepted] == [True] * len(accepted)
    assert [field.accepts(value) for value in refused] == [False] * len(refused)
    assert str(field) == text


def test_platform_keys() -> None:
    keys = ["nnodes", "deadlines.stop", "cluster.ssh.key", "runtime.shm_size", "lr", "max_steps", "vendor.backend"]
    assert [key for key in keys if is_platform(key)] == [
        "nnodes",
        "deadlines.stop",
        "cluster.ssh.key",
        "runtime.shm_size",
    ]


def test_a_key_stands_for_all_below_it() -> None:
    assert is_under("vendor.environment.A", ["vendor.environment"])
    assert is_under("lr", ["lr"])
    assert not is_under("lr_steps", ["lr"])


def test_meant() -> None:
    assert meant("nprocs", KEYS) == "did you mean 'nproc'?"
    assert meant("zzz", KEYS) is None
    verbs = ("list", "site", "data", "docs", "doctor", "run", "rerun")
    for given, expected in (("lsit", "list"), ("zsq", None), ("dosc", "docs"), ("urn", "run"), ("LSIT", "list")):
        assert meant(given, verbs) == (expected and f"did you mean {expected!r}?"), given
    assert nearest("zzz", ["b", "a", "b"]) == "one of: a, b"
