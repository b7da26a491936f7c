"""Tables of docs/predict.md: each stands between two comments that name the program that measures it."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/predict.md"


def write_table(name: str, text: str) -> None:
    """Replace the text between the comments `<!-- name -->` and `<!-- /name -->`."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")
