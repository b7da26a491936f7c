"""The texts of the site in its languages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flagperf.contract.regular import read_yaml

Translate = Callable[[str], str]  # an English text of the site → the text in a language

LANGUAGES = {"en": "English", "zh": "中文"}  # the folder of a language, "" for the first → its name


def translator(language: str) -> Translate:
    """The texts of a language. The translator raises KeyError for a text that zh.yaml lacks."""
    if language == "en":
        return str
    texts: dict[str, str] = read_yaml(Path(__file__).with_name(f"{language}.yaml"))
    return texts.__getitem__
