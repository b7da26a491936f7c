"""Writes the record of a run into a file, in the format of its ending."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError
from flagperf.export import tables
from flagperf.plain import plain

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")  # a spreadsheet takes wide signs, too
SHEETS = {"jobs": tables.jobs, "rounds": tables.rounds, "changes": tables.changes}


def write(record: Mapping[str, Any], path: Path) -> None:
    """Write the record into a file with an ending of FORMATS.

    Raises:
        ConfigError: the file exists, or it cannot be written.
    """
    data = FORMATS[path.suffix.lower()](record)
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise ConfigError("this file exists already", given=path, advice="remove it, or choose another name") from None
    except OSError as error:
        raise ConfigError(f"the file cannot be written: {error.strerror}", given=path) from None


def _json(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _csv(record: Mapping[str, Any]) -> bytes:
    rows, text = tables.jobs(record), io.StringIO()
    writer = csv.DictWriter(text, tables.columns(rows), lineterminator="\n")
    writer.writerow({column: _cell(column) for column in writer.fieldnames})
    writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """A value of a csv file. A spreadsheet would take text that begins as a formula for one."""
    if not isinstance(value, str):
        return value
    return f"'{plain(value)}" if FORMULA.match(value) else plain(value)


def _xlsx(record: Mapping[str, Any]) -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.worksheets[0])
    for name, make in SHEETS.items():
        rows = make(record)
        names = tables.columns(rows)
        sheet = book.create_sheet(name)
        lines: list[list[Any]] = [[*names], *([row.get(column) for column in names] for row in rows)]
        for line in lines:
            sheet.append([plain(value) if isinstance(value, str) else value for value in line])
        for cells in sheet.iter_rows():
            for cell in cells:
                if cell.data_type == "f":  # a text that begins with = is no formula
                    cell.data_type = "s"
        sheet.freeze_panes = "C2"
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


FORMATS = {".csv": _csv, ".xlsx": _xlsx, ".json": _json}
