"""A value in the form of the command line: Hydra's grammar gives the same value back."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from flagperf.config.files.suite import literal, override

PARTS = ("", "a", "true", "null", "inf", "1e3", "0x1", "\\", "'", '"', "${b}", ",", "=", ":", "[", "{", " ", "\n", "图")
AT_AN_END = itertools.product(("a", "\\", "'", "\n"), repeat=3)  # a backslash before a quote, and at the end
TEXTS = ["".join(parts) for parts in (*itertools.product(PARTS, repeat=2), *AT_AN_END)]
VALUES = [None, True, 0, -1, 1.5, 1e-05, [], {}, [1, [2, {"a": None}]], {"a b": 1, "c:d": {"e,f=(g)": "h\\"}}]


def parsed(text: str) -> Any:
    return OverridesParser.create().parse_override(text).value()


@pytest.mark.parametrize("form", [lambda text: text, lambda text: [text, "b"], lambda text: {"k": text}])
def test_a_text_comes_back(form: Any) -> None:
    given = [form(text) for text in TEXTS]
    assert [value for value in given if not _same(parsed(override("key", value)), value)] == []


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_other_values_come_back(value: Any) -> None:
    assert _same(parsed(override("key", value)), value)


def test_a_resolved_text_is_no_reference_again() -> None:
    texts = [text for text in TEXTS if "${" in text]
    again = OmegaConf.create([parsed(override("key", literal(text))) for text in texts])
    assert OmegaConf.to_container(again, resolve=True) == texts


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)
