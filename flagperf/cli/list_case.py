"""`flagperf list CASE`: a case, its settings, and the settings that a closed run may change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.text import Text

from flagperf.config.about_case import AboutCase, Setting
from flagperf.report.fitted import FittedTable

BETWEEN = " · "  # between the parts of a setting's description
MUTABLE = "a closed run may change (and why)"
FIXED = "only division=open may change: they make the case what it is, and its results comparable"


def case_table(about: AboutCase) -> Group:
    """The tables of a case. Columns are folded, so that no text is cut off at any width."""
    mutable = [setting for setting in about.settings if setting.reason is not None]
    fixed = [setting for setting in about.settings if setting.reason is None]
    return Group(
        columns(_head(about)),
        Text(f"\n{MUTABLE}", style="bold"),
        columns(map(_row, mutable)),
        Text(f"\n{FIXED}", style="bold"),
        columns(map(_row, fixed)),
        Text("\nEvery run may also set where and how it runs: flagperf --help"),
    )


def columns(rows: Iterator[tuple[str, str]]) -> FittedTable:
    """Names beside their texts."""
    table = FittedTable(show_header=False)
    table.add_column()
    table.add_column()
    for name, description in rows:
        table.add_row(Text(name), Text(description))
    return table


def _head(about: AboutCase) -> Iterator[tuple[str, str]]:
    yield about.name, about.title
    if about.field:
        yield "field", about.field
    yield "revision", str(about.revision)
    others = [name for name in about.frameworks if name != about.framework]
    yield "framework", about.framework + (f" (framework=… also takes {', '.join(others)})" if others else "")
    other_sizes = [size for size in about.sizes if size != about.size]
    yield "size", about.size + (f" (list … size={other_sizes[0]} shows the other)" if other_sizes else "")
    yield "target", about.target
    if about.mlperf:
        yield "MLPerf", about.mlperf
    yield "data", about.data + (", or sample data with size=tiny" if about.sample else "")
    for line in about.tree.splitlines():
        yield "", line
    if not about.tunings:
        yield "tunings", "none"
    for number, (vendor, names) in enumerate(about.tunings.items()):
        yield "" if number else "tunings", f"{vendor}: {', '.join(names)}"
    for number, file in enumerate(about.files):
        state = "" if file.exists else "missing: "
        yield "" if number else "files", f"{state}{file.path} ({file.content})"


def _row(setting: Setting) -> tuple[str, str]:
    parts = [setting.comment, setting.allowed, f"({setting.reason})" if setting.reason else ""]
    name = setting.key if setting.default is None else f"{setting.key}: {setting.default}"
    return name, BETWEEN.join(filter(None, parts))
