"""Renders the pages of the site in one language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from flagperf import __version__
from flagperf.bundle.approval import SUFFIX
from flagperf.plain import plain
from flagperf.report.cells import number, percent
from flagperf.report.texts import LANGUAGES, dictionary, of_scripts, sentences
from flagperf.site.bundles import Bundle
from flagperf.site.entries import PUBLISHED, Entry
from flagperf.site.plots import charts, missing
from flagperf.site.texts import translator

HERE = Path(__file__).parent
GENERATOR = "flagperf site"  # in each page: by this a folder is known as a site
FOLDERS = {code: "" if code == "en" else f"{code}/" for code in LANGUAGES}
FILTERS = ("case", "vendor", "product", "scale", "precision", "division", "verdict")  # fields of Entry
PLOTS = ("words.js", "plot.js", "charts.js", "page.js")  # of flagperf/report
AFTER_STOP = re.compile(r"(?<=[，。：；、）])\s+(?=[^\s<])")  # Chinese has no spaces there
ORDER = ("VALID", "SUSPECT", "INVALID", "RUNNING", PUBLISHED)


class Pages:
    """The pages of a language: path below its folder → text."""

    def __init__(self, language: str, bundles: Sequence[Bundle], published: Sequence[Entry]) -> None:
        self._language, self._translate = language, translator(language)
        self._bundles = {bundle.id: bundle for bundle in bundles}
        entries = [*(entry for bundle in bundles for entry in bundle.entries), *published]
        self._entries = sorted(entries, key=_order)

    def all(self) -> Iterator[tuple[str, str]]:
        """Path and text of each page."""
        yield self._page(
            "index.html", self._translate("Results of flagperf"), ("site.js",), {}, filters=self._filters()
        )
        yield self._page("compare.html", self._translate("Rows side by side"), ("compare.js",), self._compared())
        for page, entries in self._cases.items():
            plots = charts(entries, self._translate)
            data = {"plots": plots} if plots else {}
            shown = {"entries": entries, "plots": plots, "missing": missing(entries, self._translate)}
            yield self._page(f"case/{page}.html", entries[0].case, PLOTS, data, **shown)
        for bundle in self._bundles.values():
            yield self._page(f"bundle/{bundle.id}.html", bundle.run, (), {}, bundle=bundle, approval_suffix=SUFFIX)

    @cached_property
    def _cases(self) -> dict[str, list[Entry]]:
        cases: dict[str, list[Entry]] = {}
        for entry in self._entries:
            cases.setdefault(entry.page, []).append(entry)
        return cases

    def _filters(self) -> dict[str, list[str]]:
        return {key: sorted({getattr(entry, key) for entry in self._entries}) for key in FILTERS}

    def _compared(self) -> dict[str, Any]:
        return {entry.id: self._side(entry) for entry in self._entries}

    def _side(self, entry: Entry) -> dict[str, Any]:
        """A column of the comparison."""
        translate, sentence = self._translate, sentences(self._language)
        identity = {key: getattr(entry, key) for key in FILTERS}
        texts = {**identity, "verdict": translate(entry.verdict), "day": entry.day}
        figures = [{"name": translate(name), "text": text} for name, text in texts.items()]
        figures += [{"name": translate(f.name), "text": sentence(f.text), "value": f.value} for f in entry.figures]
        figures += [{"name": name, "text": version} for name, version in entry.versions]
        href = f"bundle/{entry.bundle}.html" if entry.bundle else ""
        subtitle = ", ".join([f"{entry.product} {entry.scale}", entry.precision, *entry.swept])
        return {"title": entry.case, "subtitle": subtitle, "href": href, "figures": figures}

    def _page(
        self, path: str, title: str, scripts: Sequence[str], data: Mapping[str, Any], **values: Any
    ) -> tuple[str, str]:
        """A page.

        Args:
            data: what the scripts read.
        """
        home = "../" * path.count("/")
        texts = {
            "title": title,
            "entries": self._entries,
            "bundles": self._bundles,
            "home": home,
            "top": home + "../" * FOLDERS[self._language].count("/"),
            "path": path,
            "scripts": scripts,
            "data": _embedded(data),
            "words": self._words,
            **values,
        }
        template = f"{path.partition('/')[0].removesuffix('.html')}.html.j2"
        text = plain(self._environment.get_template(template).render(texts))
        return path, text if self._language == "en" else AFTER_STOP.sub("", text)

    @cached_property
    def _words(self) -> Any:
        """The texts of the scripts."""
        return _embedded({self._language: dictionary(self._language, of_scripts(PLOTS))})

    @cached_property
    def _environment(self) -> Any:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {
            "number": number,
            "percent": percent,
            "size": _size,
            "sentence": sentences(self._language),
        }
        environment.globals |= {
            "_": self._translate,
            "language": self._language,
            "languages": LANGUAGES,
            "folders": FOLDERS,
            "generator": GENERATOR,
            "version": __version__,
        }
        return environment


def _order(entry: Entry) -> tuple[bool, str, int, float]:
    """A sort key: published rows last; then by case, then verdict, then the highest throughput."""
    return entry.verdict == PUBLISHED, entry.case, ORDER.index(entry.verdict), -(entry.rate or 0.0)


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def _embedded(data: Mapping[str, Any]) -> Any:
    """JSON for a script element."""
    from markupsafe import Markup

    return Markup(json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"))
