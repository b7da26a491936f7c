"""Text files of data sets, line by line: lists of files, manifests, JSON lines, plain text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from flagperf.errors import ConfigError


def lines(path: str | Path, key: str = "data_dir") -> Iterator[str]:
    """The lines of a text in UTF-8, without their ends.

    A byte order mark, which some editors write, is no text. Only a line feed ends a line, with a carriage return before
    it or without: other characters that Unicode counts as line ends belong to the text.

    Args:
        key: the setting that names the file or its folder.

    Raises:
        ConfigError: the file cannot be read, or a line is no UTF-8.
    """
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                yield _text(line, number, path, key)
    except FileNotFoundError:
        raise ConfigError("no such file in the data set", where=str(path), key=key) from None
    except OSError as error:
        raise ConfigError(
            "cannot read a file of the data set", where=str(path), key=key, given=error.strerror
        ) from None


def _text(line: bytes, number: int, path: str | Path, key: str) -> str:
    text = line[:-1] if line.endswith(b"\n") else line
    text = text[:-1] if text.endswith(b"\r") else text
    text = text[len(codecs.BOM_UTF8) :] if number == 1 and text.startswith(codecs.BOM_UTF8) else text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            "not UTF-8 text",
            where=f"{path}:{number}",
            key=key,
            given=f"byte 0x{text[error.start]:02x} behind {text[: error.start][-40:].decode('utf-8', 'replace')!r}",
            allowed="a text file in UTF-8",
            advice="convert the file, such as by: iconv -f LATIN1 -t UTF-8 FILE",
        ) from None
