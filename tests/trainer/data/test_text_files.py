"""Texts of data sets: every reader takes the lines of one function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from toy_config import ROOT

from cases.glm.prepare import queries
from cases.speech_synthesis.data import Clips
from cases.transformer import prepare
from cases.wav2vec2.data import read_manifest
from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"a\n\nb", ["a", "", "b"], id="no end of the last line"),
        pytest.param(MARK + "caf\u00e9\n".encode(), ["caf\u00e9"], id="byte order mark"),
        pytest.param(b"a\r\nb\r\n", ["a", "b"], id="of Windows"),
        pytest.param("a\u2028b\x85c\x0cd\n".encode(), ["a\u2028b\x85c\x0cd"], id="other characters of Unicode"),
    ],
)
def test_lines(tmp_path: Path, content: bytes, wanted: list[str]) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    assert list(lines(path)) == wanted


@pytest.mark.parametrize(
    ("content", "line", "given"),
    [
        pytest.param("gut\nsch\u00f6n\n".encode("latin-1"), 2, "byte 0xf6 behind 'sch'", id="Latin-1"),
        pytest.param("gut\n".encode("utf-16"), 1, "byte 0xff behind ''", id="UTF-16"),
    ],
)
def test_another_encoding_is_refused(tmp_path: Path, content: bytes, line: int, given: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        list(lines(path, "source"))
    assert str(caught.value) == (
        f"not UTF-8 text\n  where:   {path}:{line}\n  key:     source\n  given:   {given}\n"
        "  allowed: a text file in UTF-8\n  do:      convert the file, such as by: iconv -f LATIN1 -t UTF-8 FILE"
    )


@pytest.mark.parametrize(("path", "problem"), [("nothing", "no such file"), (".", "cannot read a file")])
def test_no_file(tmp_path: Path, path: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^{problem}"):
        list(lines(tmp_path / path))


def passage(text: str) -> str:
    asked = {"query": f"{text} @placeholder", "answers": []}
    return json.dumps({"passage": {"text": text, "entities": []}, "qas": [asked]}, ensure_ascii=False)


def texts_of_clips(path: Path) -> list[str]:
    return Clips("", str(path), None).texts


READERS: dict[str, tuple[Callable[[str], str], Callable[[Path], Iterable[Any]]]] = {  # reader → a line, its texts
    "file list": ("a.wav|{}".format, texts_of_clips),
    "manifest": ("{}\t5".format, lambda path: [name for name, _ in read_manifest(path)[1]]),
    "ReCoRD": (passage, lambda path: [query.passage for query in queries(path)]),
    "parallel text": (str, prepare.lines),
}


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_takes_these_lines(tmp_path: Path, reader: str) -> None:
    """The first line of a manifest is its folder."""
    line, read = READERS[reader]
    first, texts, path = ["root"] * (reader == "manifest"), ["caf\u00e9", "a\u2028b"], tmp_path / "text"
    path.write_bytes(MARK + "\r\n".join([*first, *map(line, texts)]).encode())
    assert list(read(path)) == texts
    path.write_bytes("\n".join([*first, *map(line, ["a", "caf\u00e9"])]).encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8 text") as caught:
        list(read(path))
    assert caught.value.where == f"{path}:{2 + len(first)}"


def test_no_case_reads_a_text_otherwise() -> None:
    readers = {path for kind in ("data", "prepare") for path in (ROOT / "cases").glob(f"*/{kind}.py")}
    others = ("read_text(", ".splitlines(", 'open(encoding="utf-8")', ".readlines(")
    assert [path.name for path in readers if any(word in path.read_text(encoding="utf-8") for word in others)] == [
        "data.py"  # the message of an error of torchvision
    ]
