"""YAML and JSON of anyone: what would fill the memory or the stack of its readers is refused as it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flagperf.contract.regular import bounded, parse_json, parse_yaml, read_mapping, yaml_text
from flagperf.errors import ConfigError
from flagperf.verify import logs

DEEP = "nested more than 100 levels deep"
REPEATED = "a part with a name that is repeated"
YAML: dict[str, tuple[str, str]] = {
    "flow": ("[" * 102 + "]" * 102, DEEP),
    "mappings": ("{a: " * 200 + "1" + "}" * 200, DEEP),
    "blocks": ("- " * 300 + "1", DEEP),
    "deeper than the parser follows": ("[" * 100_000, "nest"),
    "itself": ("&a [*a]", REPEATED),
    "itself in a mapping": ("&a {b: *a}", REPEATED),
    "a repeated part": ("a: &a [1]\nb: *a", REPEATED),
    "a repeated text": ("a: &a x\nb: *a", REPEATED),
    "a merged part": ("a: &a {c: 1}\nb: {<<: *a}", REPEATED),
    "a number": (f"a: {'9' * 26}", "a number of more than 25 characters"),
    "a number of another base": (f"a: 0x{'f' * 30}", "a number of more than 25 characters"),
    "a number of another form": (f"a: 1{':59' * 20}", "a number of more than 25 characters"),
}
JSON: dict[str, tuple[str, str]] = {
    "lists": ("[" * 101 + "1" + "]" * 101, DEEP),
    "objects": ('{"a": ' * 200 + "1" + "}" * 200, DEEP),
    "deeper than the parser follows": ("[" * 1_000_000, DEEP),
    "a number": ("9" * 26, "a number of more than 25 characters"),
    "a number of 5,000 digits": ("9" * 5000, ""),
}
LOADERS = {"libyaml": getattr(yaml, "CSafeLoader", yaml.SafeLoader), "Python": yaml.SafeLoader}


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS.keys())
@pytest.mark.parametrize(("text", "problem"), YAML.values(), ids=YAML.keys())
def test_yaml_is_refused(text: str, problem: str, loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "CSafeLoader", loader)
    with pytest.raises(yaml.YAMLError, match=problem):
        parse_yaml(text)


@pytest.mark.parametrize(("text", "_"), YAML.values(), ids=YAML.keys())
def test_verify_reads_none_of_it(text: str, _: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert logs.read_yaml(tmp_path / "config.yaml") is None


@pytest.mark.parametrize("parse", [parse_json, lambda text: logs._with_numbers(json.loads(text))], ids=["", "verify"])
@pytest.mark.parametrize(("text", "problem"), JSON.values(), ids=JSON.keys())
def test_json_is_refused(text: str, problem: str, parse: Callable[[str], Any]) -> None:
    with pytest.raises((ValueError, RecursionError), match=(problem if parse is parse_json else None) or None):
        parse(text)


def test_all_else_is_read(tmp_path: Path) -> None:
    content = {"a": [1, 1.5, None, True, "x"], "b": {"c": {}}, "d": 10**24, "deep": {}}
    node = content["deep"]
    for _ in range(97):
        node["x"] = {}
        node = node["x"]
    assert (parse_yaml(yaml.safe_dump(content)), parse_json(json.dumps(content))) == (content, content)
    assert parse_yaml("a: &a [1]\nb: *a", aliases=True) == {"a": [1], "b": [1]}
    assert parse_yaml("") is None
    (tmp_path / "list.yaml").write_text("[1]")
    with pytest.raises(ConfigError, match=r"^this file cannot be read\n.*\n  given:   list\n  allowed: a mapping$"):
        read_mapping(tmp_path / "list.yaml")


def test_what_is_written_is_read() -> None:
    shared = {"a": [1, {"b": "x"}]}
    content = {"one": shared, "two": shared, "three": [shared["a"], shared["a"]]}
    assert parse_yaml(yaml_text(content)) == content


def test_repeated_parts_count_each_time() -> None:
    laughs = "a: &a [1, 1]\n" + "".join(
        f"b{n}: &{chr(98 + n)} [{', '.join(9 * ['*' + chr(97 + n)])}]\n" for n in range(20)
    )
    loader = bounded(yaml.SafeLoader, True)
    with pytest.raises(yaml.YAMLError, match="more than 1000000 values"):
        yaml.load(laughs, loader)
