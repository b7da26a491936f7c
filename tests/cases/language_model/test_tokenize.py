"""Texts become tokens in the order of the files, by several processes; a source that is none is named."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import lines
from tokenizers import Tokenizer, models, pre_tokenizers

from cases.language_model.indexed import Shard
from cases.language_model.prepare import BATCH, tokenize
from flagperf.config.compose import compose
from flagperf.config.parts.data_layout import check_layout
from flagperf.contract.components import component
from flagperf.errors import ConfigError

WORDS = {"[UNK]": 0, "end": 1, **{f"w{number}": number for number in range(2, 60)}}
ARGUMENTS: dict[str, Any] = {
    "train_path": "train.bin",
    "eval_path": "held/eval.bin",
    "train_files": ["train-*"],
    "eval_files": ["eval*.jsonl"],
    "eval_documents": 2,
    "tokenizer": "tokenizer.json",
    "vocab_size": 60,
    "processes": 2,
}


def write(path: Path, documents: list[str]) -> None:
    lines = "".join(json.dumps({"text": text, "url": "somewhere"}) + "\n" for text in documents).encode()
    path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder / "train-1.json.gz", [f"w{2 + number % 50} w3" for number in range(BATCH + 20)])
    write(folder / "train-0.jsonl", ["w7 w8 w9", "", "w10 unheard"])
    write(folder / "eval.jsonl", ["w20 w21", "w22", "w23 w24"])
    return folder


def tokens(folder: Path, name: str) -> tuple[list[int], list[int]]:
    """All tokens, and how many each document has."""
    shard = Shard(folder / name)
    shard.check()
    return shard.tokens.tolist(), shard.index.lengths.tolist()


def test_documents_keep_their_order(source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tokenize(source, tmp_path, **ARGUMENTS, end=1)
    of_first, of_second = [7, 8, 9, 1, 1, 10, 0, 1], [[2 + number % 50, 3, 1] for number in range(BATCH + 20)]
    assert tokens(tmp_path, "train.bin") == (sum(of_second, of_first), [4, 1, 3, *(len(text) for text in of_second)])
    assert tokens(tmp_path, "held/eval.bin") == ([20, 21, 1, 22, 1], [3, 2])
    assert f"train.bin: {BATCH + 23} documents" in caplog.text


def test_documents_follow_each_other_without_an_end(source: Path, tmp_path: Path) -> None:
    """As in MLPerf's data; one without a token is left out."""
    tokenize(source, tmp_path, **{**ARGUMENTS, "train_files": ["train-0.jsonl"], "processes": 1})
    assert tokens(tmp_path, "train.bin") == ([7, 8, 9, 10, 0], [3, 2])


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        pytest.param(lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer", id="no tokenizer"),
        pytest.param(
            lambda folder: (folder / "tokenizer.json").write_text("{}"), "not a file of the tok", id="another"
        ),
        pytest.param(lambda folder: (folder / "eval.jsonl").unlink(), "lacks files", id="no file of a split"),
        pytest.param(
            lambda folder: (folder / "eval.jsonl").write_text('{"text": "w2"}\nw3\n'),
            "line 2 is no document.*eval.jsonl",
            id="a line that is no JSON",
        ),
        pytest.param(lambda folder: (folder / "eval.jsonl").write_text('{"text": 3}\n'), "line 1", id="no text in it"),
        pytest.param(
            lambda folder: (folder / "train-1.json.gz").write_bytes((folder / "train-1.json.gz").read_bytes()[:-9]),
            "not a complete gzip file.*train-1",
            id="a gzip file that ended early",
        ),
    ],
)
def test_a_wrong_source_is_named(source: Path, tmp_path: Path, harm: Callable[[Path], object], message: str) -> None:
    harm(source)
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        tokenize(source, tmp_path, **{**ARGUMENTS, "processes": 1})


def test_a_tokenizer_with_more_tokens_than_the_network(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="more tokens than the network"):
        tokenize(source, tmp_path, **{**ARGUMENTS, "vocab_size": 59})


def test_parquet(source: Path, tmp_path: Path) -> None:
    """Read where pyarrow is there; else the message says what to do."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        (source / "train-2.parquet").touch()
        with pytest.raises(ConfigError, match="need the package pyarrow"):
            tokenize(source, tmp_path, **{**ARGUMENTS, "train_files": ["*.parquet"], "processes": 1})
        return
    parquet.write_table(pyarrow.table({"url": ["a", "b"], "text": ["w5", "w6 w7"]}), source / "train-2.parquet")
    tokenize(source, tmp_path, **{**ARGUMENTS, "train_files": ["*.parquet"], "processes": 1})
    assert tokens(tmp_path, "train.bin") == ([5, 6, 7], [1, 2])


def test_parquet_that_cannot_be_read(source: Path, tmp_path: Path) -> None:
    """Without a column of texts, cut off, or no parquet at all."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return  # the message about that is tested above
    path, arguments = source / "train-2.parquet", {**ARGUMENTS, "train_files": ["*.parquet"], "processes": 1}
    parquet.write_table(pyarrow.table({"url": ["a"], "content": ["w5"]}), path)
    with pytest.raises(ConfigError) as caught:
        tokenize(source, tmp_path, **arguments)
    assert str(caught.value) == lines(
        "the parquet file has no column of texts",
        where=str(path),
        key="source",
        given="url, content",
        allowed="a column named text",
    )
    for damaged in (path.read_bytes()[:-20], b"no parquet"):
        path.write_bytes(damaged)
        with pytest.raises(
            ConfigError, match=r"^not a complete parquet file\n  where: .*\n  key:     source\n  given: "
        ):
            tokenize(source, tmp_path, **arguments)


def test_what_the_case_asks_for(source: Path, tmp_path: Path) -> None:
    """The prepared files have the layout of the case, and its data sets read them."""
    globs = ["data.prepare.train_files=[train-*]", "data.prepare.eval_files=[eval.jsonl]", "seq_length=1"]
    words = ["model=llama3_8b", "size=tiny", "division=open", "dry_run=true", f"data_dir={tmp_path}"]
    config = compose([*words, *globs, "data.prepare.processes=1"]).config
    component(config["data"], "prepare", source, tmp_path)
    check_layout(config["data"], tmp_path)
    trained, held = component(config, "train_data"), component(config, "eval_data")
    assert (len(trained), len(held)) == (3 + 2 + 2 * (BATCH + 20) - 1, 4)
    assert held[0].tolist() == [20, 21]
