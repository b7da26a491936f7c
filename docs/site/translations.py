"""The Chinese pages and the English originals.

    python docs/site/translations.py              list the translations that are missing or out of date; exit code 1
    python docs/site/translations.py PAGE…        record that the translations of these English pages are up to date

The translation of docs/PAGE.md is docs/zh/PAGE.md; the translation of README.md is README.zh.md. The first line of a
translation names the original and its SHA-256. Parts that docs/cases/fill.py writes do not count: this program copies
these parts into the translation. In a code block only the comments are translated.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENGLISH_ONLY = ("CHANGELOG", "CONTRIBUTING", "SECURITY", "vendors/")  # for the people who change the project
CHINESE = "docs/zh/"
STAMP = re.compile(r"\A<!-- translation of (?P<page>\S+), sha256 (?P<sha256>[0-9a-f]{64}) -->\n")
GENERATED = re.compile(r"^<!-- (?P<name>\w+) -->\n.*?^<!-- /(?P=name) -->\n", re.MULTILINE | re.DOTALL)


def originals() -> list[Path]:
    """The English pages that have a translation."""
    return [ROOT / "README.md", *sorted(set(ROOT.glob("docs/**/*.md")) - set(ROOT.glob("docs/zh/**/*.md")))]


def translation(original: Path) -> Path:
    """The file of the Chinese page."""
    path = original.relative_to(ROOT)
    return ROOT / ("README.zh.md" if path.name == "README.md" else Path("docs/zh") / path.relative_to("docs"))


def digest(original: Path) -> str:
    """The SHA-256 of what people wrote on the page."""
    return hashlib.sha256(GENERATED.sub("", original.read_text(encoding="utf-8")).encode()).hexdigest()


def problems() -> Iterator[str]:
    """The translations that are missing or out of date, one line each."""
    for original in originals():
        if problem := _problem(original):
            page = original.relative_to(ROOT)
            yield f"{translation(original).relative_to(ROOT)}: {problem}; then python docs/site/translations.py {page}"


def _problem(original: Path) -> str | None:
    path = translation(original)
    if not path.exists():
        return "missing: translate the page"
    text = path.read_text(encoding="utf-8")
    stamp = STAMP.match(text)
    if not stamp or stamp["page"] != str(original.relative_to(ROOT)):
        return "the first line does not name the original: compare both pages"
    if stamp["sha256"] != digest(original):
        return "the original has changed: translate the change"
    if generated(original.read_text(encoding="utf-8")) != generated(text):
        return "the generated tables differ from those of the original"
    return None


def generated(text: str) -> dict[str, str]:
    """The parts of a page that a program writes, by name."""
    return {part["name"]: part[0] for part in GENERATED.finditer(text)}


def record(original: Path) -> None:
    """Write the hash of the original into its translation, and copy the generated parts."""
    path, parts = translation(original), generated(original.read_text(encoding="utf-8"))
    text = STAMP.sub("", path.read_text(encoding="utf-8"))
    text = GENERATED.sub(lambda part: parts.get(part["name"], ""), text)
    stamp = f"<!-- translation of {original.relative_to(ROOT)}, sha256 {digest(original)} -->\n"
    path.write_text(stamp + text, encoding="utf-8")


def contents(toc: Mapping[str, Any], *, chinese: bool) -> dict[str, Any]:
    """The table of contents of one language, as sphinx-external-toc reads it."""
    language = "zh" if chinese else "en"
    subtrees = [
        {
            "caption": subtree["caption"][language],
            "entries": [
                {kind: _page(page, chinese=chinese)}
                for entry in subtree["entries"]
                for kind, page in entry.items()
                if not page.startswith(ENGLISH_ONLY if chinese else CHINESE)
            ],
        }
        for subtree in toc["subtrees"]
    ]
    return {"root": _page(toc["root"], chinese=chinese), "subtrees": [tree for tree in subtrees if tree["entries"]]}


def _page(page: str, *, chinese: bool) -> str:
    if not chinese or page.startswith(CHINESE):
        return page
    return "README.zh" if page == "README" else page.replace("docs/", "docs/zh/", 1)


def main(pages: list[str]) -> int:
    for page in pages:
        record(ROOT / page)
    if pages:
        return 0
    lines = list(problems())
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
