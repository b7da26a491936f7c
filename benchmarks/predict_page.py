"""Tables of docs/predict.md: each stands between two comments that name the program that measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flagperf.config.files.search_path import CONF
from flagperf.report.markdown import table

PAGE = Path(__file__).parents[1] / "docs/predict.md"


def write_table(name: str, text: str) -> None:
    """Replace the text between the comments `<!-- name -->` and `<!-- /name -->`."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")


def measure_cases(name: str, row: Callable[[str], Mapping[str, str]], cases: Sequence[str]) -> None:
    """Print the row of each case when it is known. Without cases: of all of PyTorch, and the page gets the table."""
    rows = []
    for case in cases or sorted(path.stem for path in (CONF / "model").glob("*.yaml")):
        rows.append(row(case))
        print(rows[-1], flush=True)
    if not cases:
        write_table(name, table(rows))
