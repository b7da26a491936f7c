"""The texts of the site in its languages: those of reports, and its own in zh.yaml."""

from __future__ import annotations

from pathlib import Path

from flagperf.contract.regular import read_yaml
from flagperf.report.texts import Translate, words


def translator(language: str) -> Translate:
    """The texts of a language. The translator raises KeyError for a text that has no translation."""
    if language == "en":
        return str
    texts: dict[str, str] = read_yaml(Path(__file__).with_name(f"{language}.yaml"))
    return {**words(language), **texts}.__getitem__
