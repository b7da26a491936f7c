"""The texts of pages in other languages.

A page is written in English. What it shows is translated afterwards, as a whole: sentences.zh.yaml knows each text and
each kind of sentence. So code and templates hold English texts only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.contract.regular import read_yaml

Translate = Callable[[str], str]  # an English text → the text in a language

LANGUAGES = {"en": "English", "zh": "中文"}
GAP = "{}"  # any text within a sentence
DEEPEST = 5  # sentences within sentences
SEPARATORS = {". ": " ", "; ": "；", ", ": "，"}  # between sentences, parts of sentences, and words → in Chinese
WEAK = 3  # letters; a form without more of them may fit any text
NO_READER = ("script", "style", "pre", "code")  # elements whose text is no sentence
SPOKEN = "aria-label"  # the attribute with a text
OF_SCRIPTS = re.compile(r'\bT\([^"()]*"([^"]+)"(?: : "([^"]+)")?')  # one or two texts in a script
LONGEST = 1500  # characters of a text that is compared with forms: ranks and hosts print texts of any length
WORD = re.compile(r"[A-Za-z]{2}")
CHINESE = "[\u3000-\u9fff\uff00-\uffef]"
APART = re.compile(f"(?<={CHINESE}) (?={CHINESE})")  # a gap in a form has spaces for values in Latin letters


class Form(NamedTuple):
    """A kind of sentence."""

    english: str
    first: str  # before the first gap
    last: str  # after the last gap
    pattern: re.Pattern[str]
    translation: str

    @property
    def label(self) -> bool:
        """Whether it names what follows: "Machine: {}."."""
        return self.english.count(GAP) == 1 and self.labels("; ")

    def labels(self, separator: str) -> bool:
        """Whether it names all that follows, also several parts: "Round {}: {}"."""
        return separator != ". " and self.english.rstrip(".").endswith(": {}")

    @property
    def weak(self) -> bool:
        """Whether it says little without its parts."""
        return sum(letter.isalpha() or letter == "%" for letter in self.english) <= WEAK

    def match(self, text: str) -> re.Match[str] | None:
        """The match of a whole text."""
        ends = text.startswith(self.first) and text.endswith(self.last)
        stop = text.endswith(".") and "." not in self.english  # a full stop is no part of a gap
        return self.pattern.fullmatch(text) if ends and not stop else None


@cache
def words(language: str) -> Mapping[str, str]:
    """English text → text in the language. {} within a text stands for any text."""
    known: dict[str, str] = read_yaml(Path(__file__).with_name(f"sentences.{language}.yaml"))
    return known


@cache
def sentences(language: str) -> Translate:
    """The sentences and words of reports, in a language. A text that is not known stays as it is."""
    return str if language == "en" else cache(_Sentences(words(language)).translated)


class _Sentences:
    """The sentences of a language."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        forms = [_form(text, known[text]) for text in known if GAP in text]
        self._forms = sorted(forms, key=lambda form: (form.label, len(form.english.replace(GAP, ""))), reverse=True)

    def translated(self, text: str, deep: int = DEEPEST) -> str:
        """A known text; else a known form; several sentences one by one, if no form has them all."""
        core = text.strip()
        if core in self._known or not deep or len(core) > LONGEST or not WORD.search(core):
            return self._known.get(core, text)
        for separator in SEPARATORS:
            if len(parts := _split(core, separator)) > 1:
                of_all = [form for form in self._forms if separator in form.english or form.labels(separator)]
                if translated := self._by_form(core, deep, of_all) or self._one_by_one(parts, deep, separator):
                    return translated
        return self._by_form(core, deep, self._forms) or self._without_stop(core, deep) or text

    def _without_stop(self, text: str, deep: int) -> str | None:
        """A sentence that is known without its full stop."""
        core = text.removesuffix(".")
        chosen = self.translated(core, deep - 1)
        return f"{chosen}。" if core != text and chosen != core else None

    def _one_by_one(self, parts: Sequence[str], deep: int, separator: str) -> str | None:
        """The sentences or words; None where none is known, and where a word of a list is not known."""
        each = [self.translated(part, deep - 1) for part in parts]
        known = [old != new for old, new in zip(parts, each, strict=True)]
        enough = all(known) if separator == ", " else any(known)
        return SEPARATORS[separator].join(each).replace("。 ", "。") if enough else None

    def _by_form(self, text: str, deep: int, forms: Iterable[Form]) -> str | None:
        """The sentence of the most exact form, with its parts translated, too; None without one."""
        for form in forms:
            if match := form.match(text):
                parts = [self.translated(part, deep - 1) for part in match.groups()]
                if not (form.weak and parts == [*match.groups()]):
                    first, *others = form.translation.split(GAP)
                    return APART.sub("", first + "".join(map("".join, zip(parts, others, strict=True))))
        return None


def _form(english: str, translation: str) -> Form:
    first, *_, last = english.split(GAP)
    pattern = re.escape(english).replace(re.escape(GAP), "(.*?)")
    return Form(english, first, last, re.compile(pattern, re.DOTALL), translation)


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators outside of brackets. A part keeps a full stop."""
    parts, start, deep = [], 0, 0
    for at, letter in enumerate(text):
        deep = max(0, deep + (letter in "([") - (letter in ")]"))
        if not deep and text.startswith(separator, at):
            parts.append(text[start : at + (separator[0] == ".")])
            start = at + len(separator)
    return [*parts, text[start:]]


def dictionary(language: str, texts: Iterable[str]) -> dict[str, str]:
    """English text → text in the language, of the texts that are known."""
    translate = sentences(language)
    return {text: chosen for text in map(squeezed, texts) if (chosen := translate(text)) != text}


def of_page(page: str) -> Sequence[str]:
    """The texts of a page that have readers."""
    return _Texts(page).texts


def of_scripts(names: Iterable[str]) -> Iterator[str]:
    """The texts in scripts of this folder."""
    for name in names:
        code = Path(__file__).with_name(name).read_text(encoding="utf-8")
        yield from (text for pair in OF_SCRIPTS.findall(code) for text in pair if text)


def squeezed(text: str) -> str:
    """The text with single spaces, as words.js looks it up."""
    return " ".join(text.split())


def strings(data: Any) -> Iterator[str]:
    """Each text in mappings and lists."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        yield from strings([*data.values()])
    elif isinstance(data, Sequence):
        for item in data:
            yield from strings(item)


class _Texts(HTMLParser):
    """The texts of a page that have readers."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._silent = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in NO_READER
        self.texts += [value for name, value in attrs if name == SPOKEN and value]

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in NO_READER

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.texts.append(data)
