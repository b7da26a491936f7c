"""The texts of the site in its languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from flagperf.contract.regular import read_yaml

Translate = Callable[[str], str]  # an English text of the site → the text in a language

LANGUAGES = {"en": "English", "zh": "中文"}  # the folder of a language, "" for the first → its name
GAP = "{}"  # any text within a sentence
DEEPEST = 3  # sentences within sentences


def translator(language: str) -> Translate:
    """The texts of a language. The translator raises KeyError for a text that zh.yaml lacks."""
    if language == "en":
        return str
    texts: dict[str, str] = read_yaml(Path(__file__).with_name(f"{language}.yaml"))
    return texts.__getitem__


def sentences(language: str) -> Translate:
    """What runs state, in a language: verdict reasons and remarks. A sentence that is not known stays as it is."""
    if language == "en":
        return str
    known: dict[str, str] = read_yaml(Path(__file__).with_name(f"sentences.{language}.yaml"))
    longest = sorted(known, key=lambda english: len(english.replace(GAP, "")), reverse=True)
    forms = {
        re.compile(re.escape(english).replace(re.escape(GAP), "(.*?)"), re.DOTALL): known[english]
        for english in longest
    }
    return lambda text: _translated(text, forms, DEEPEST)


def _translated(text: str, forms: Mapping[re.Pattern[str], str], deep: int) -> str:
    """The sentence of the most exact form, with its parts translated, too."""
    found = ((match, sentence) for form, sentence in forms.items() if (match := form.fullmatch(text)))
    match, sentence = next(found, (None, text))
    if match is None:
        return text
    parts = [_translated(part, forms, deep - 1) if deep else part for part in match.groups()]
    first, *others = sentence.split(GAP)
    return first + "".join(part + other for part, other in zip(parts, others, strict=True))
