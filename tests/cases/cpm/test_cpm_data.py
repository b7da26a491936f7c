"""cpm's tokens and samples by value, what cannot be used, and the conversion of the published data."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from sentencepiece import SentencePieceTrainer

from cases.cpm.data import IGNORED, Conversations, _most_tokens
from cases.cpm.sample import numeral, write_tokenizer
from cases.cpm.tokens import Tokenizer, segmented
from flagperf.contract.components import component
from flagperf.errors import ConfigError

DataDir = Callable[[str], Path]
Tiny = Callable[[str], dict]
MODEL = "bpe_3w_new/chinese_vocab.model"


@pytest.fixture
def model(data_dir: DataDir) -> str:
    return str(data_dir("cpm") / MODEL)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("今天天气很好", "今天天气 很 好", id="words of several characters"),
        pytest.param("今天 很好\n", "今天 ▂ 很 好 ▃", id="space and end of line"),
        pytest.param("用 PyTorch2。", "用 ▂ PyTorch2 。", id="Latin letters and punctuation"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert segmented(text) == words


def test_a_line_becomes_one_sample(model: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("对话上文:今天星期三，明天呢？ 回复:星期四。\n", encoding="utf-8")
    data = Conversations(str(tmp_path / "one.txt"), model, vocab_size=200, length=40)
    pieces = data.tokenizer.pieces
    (tokens, labels), *rest = [data[index] for index in range(len(data))]
    used = int((labels != IGNORED).sum())
    assert rest == []
    words = pieces.id_to_piece(tokens.tolist())
    assert "".join(words[:used]).replace("▁", "") == "对话上文:今天星期三,明天呢?▂回复:星期四。▃"
    assert words[used:] == ["<eod>", *["<pad>"] * (39 - used)]
    assert labels.tolist() == [*tokens[1 : used + 1].tolist(), *[IGNORED] * (40 - used)]


def test_a_long_line_becomes_several(model: str, tmp_path: Path) -> None:
    """As the original cuts it: samples of length + 1 tokens, no token twice."""
    line = "星期一" * 30
    (tmp_path / "long.txt").write_text(f"{line}\n星期二\n", encoding="utf-8")
    data = Conversations(str(tmp_path / "long.txt"), model, vocab_size=200, length=9)
    tokens = [*data.tokenizer.encode(f"{line}\n"), data.tokenizer.end]
    parts = [tokens[start : start + 10] for start in range(0, len(tokens), 10)]
    assert len(parts) > 5
    assert len(data) == len(parts) + 1
    for (inputs, labels), part in zip(data, parts, strict=False):
        assert inputs.tolist() == (part + [data.tokenizer.pad] * 10)[:9]
        assert labels.tolist() == (part[1:] + [IGNORED] * 10)[:9]


def test_an_end_alone_is_no_sample(model: str, tmp_path: Path) -> None:
    """Some tokens and the end, cut before the end."""
    (tmp_path / "end.txt").write_text("一一一一\n", encoding="utf-8")
    tokens = Tokenizer(model, 200).encode("一一一一\n")
    data = Conversations(str(tmp_path / "end.txt"), model, vocab_size=200, length=len(tokens) - 1)
    assert len(data) == 1
    assert data[0][1].tolist() == tokens[1:]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("对话上文:今天星期三，明天呢？ 回复:星期四。\n", id="as in the data"),
        pytest.param("，。！" * 20, id="punctuation"),
        pytest.param("㍿﷽ﷺ㋿" * 10, id="characters that normalization spreads"),
        pytest.param("a b c\t d  e\n", id="spaces"),
        pytest.param("", id="nothing"),
    ],
)
def test_no_line_has_more_tokens_than_it_can_have(model: str, line: str) -> None:
    assert len(Tokenizer(model, 200).encode(line)) + 1 <= _most_tokens(line)


@pytest.mark.parametrize(
    ("number", "text"), [(100, "一百"), (101, "一百零一"), (110, "一百一十"), (120, "一百二十"), (999, "九百九十九")]
)
def test_numerals(number: int, text: str) -> None:
    assert numeral(number) == text


def test_posts_tell_the_replies_of_the_sample_data(tiny: Tiny) -> None:
    lines = component(tiny("cpm"), "eval_data").lines
    replies: dict[str, set[str]] = {}
    for line in lines:
        post, reply = line.split(" 回复:")
        replies.setdefault(post, set()).add(reply)
    assert len(lines) == 300
    assert {len(found) for found in replies.values()} == {1}


# ---------------------------------------------------------------- what cannot be used


UNREADABLE = "cannot read the sentencepiece model\n  where:   {folder}/m.model\n  given:   "


def without_end(folder: Path) -> None:
    SentencePieceTrainer.train(
        sentence_iterator=iter(["一 二 三"] * 10), model_prefix=str(folder / "m"), vocab_size=7, minloglevel=2
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda _: None, UNREADABLE, id="no model"),
        pytest.param(lambda folder: (folder / "m.model").write_bytes(b"\x00 no model"), UNREADABLE, id="another file"),
        pytest.param(
            without_end,
            "the sentencepiece model lacks <pad> or <eod>\n  where:   {folder}/m.model\n  key:     data_dir",
            id="another model",
        ),
        pytest.param(
            lambda folder: write_tokenizer(folder / "m.model", map(numeral, range(100, 200)), 99),
            "the sentencepiece model has more tokens than the network\n  where:   {folder}/m.model\n"
            "  key:     data_dir\n  given:   ",
            id="a model of another size",
        ),
    ],
)
def test_models_that_cannot_be_used(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    make(tmp_path)
    with pytest.raises(ConfigError) as caught:
        Tokenizer(str(tmp_path / "m.model"), vocab_size=10)
    assert str(caught.value).startswith(message.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "no such file in the data set", id="missing"),
        pytest.param(b"", "no conversations in this split of the data set", id="empty"),
        pytest.param("对话".encode("gbk"), "not UTF-8 text", id="another encoding"),
    ],
)
def test_texts_that_cannot_be_used(model: str, tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Conversations(str(path), model, vocab_size=200, length=40)
    assert (caught.value.problem, caught.value.key) == (problem, "data_dir")
    assert caught.value.where.partition(":")[0] == str(path)


# ---------------------------------------------------------------- conversion

STC = {
    "train": [[f"第 {number} 个 问题 ？", f"回答 {number}\n"] for number in range(20)],
    "valid": [["你好 吗 ？", " 我　很好 。"]],
}


@pytest.fixture
def source(data_dir: DataDir, tmp_path: Path) -> Path:
    """The published files, small."""
    folder = tmp_path / "source"
    (folder / MODEL).parent.mkdir(parents=True)
    (folder / MODEL).write_bytes((data_dir("cpm") / MODEL).read_bytes())
    (folder / "STC.json").write_text(json.dumps(STC, ensure_ascii=False), encoding="utf-8")
    return folder


def test_conversion(tiny: Tiny, source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, folder = tiny("cpm"), tmp_path / "data"
    folder.mkdir()
    with caplog.at_level(logging.INFO):
        component(config["data"], "prepare", source, folder)
    assert (folder / "train.txt").read_text(encoding="utf-8") == (
        "对话上文:第0个问题？ 回复:回答0\n对话上文:第1个问题？ 回复:回答1\n"
    )
    assert (folder / "valid.txt").read_text(encoding="utf-8") == "对话上文:你好吗？ 回复:我很好。\n"
    assert (folder / MODEL).read_bytes() == (source / MODEL).read_bytes()
    assert caplog.messages == [f"reading {source}/STC.json, 0 MB"]
    assert len(Conversations(str(folder / "train.txt"), str(folder / MODEL), vocab_size=200, length=40)) == 2


def replace(text: str) -> Callable[[Path], None]:
    return lambda source: (source / "STC.json").write_text(text, encoding="utf-8") and None


LAYOUT = 'STC.json with {"train": [[post, reply], …], "valid": [[post, reply], …]}'


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda source: (source / MODEL).unlink(),
            "the source has no sentencepiece model\n  where:   command line\n  key:     source\n  given:   {source}\n"
            f"  allowed: {MODEL}, as in github.com/TsinghuaAI/CPM-1-Finetune",
            id="no model",
        ),
        pytest.param(
            lambda source: (source / "STC.json").unlink(),
            "the source has no STC.json\n  where:   command line\n  key:     source\n  given:   {source}\n"
            "  allowed: {layout}",
            id="no pairs",
        ),
        pytest.param(
            replace('{"train": ['),
            "not a JSON file\n  where:   {source}/STC.json\n  key:     source\n"
            "  given:   Expecting value: line 1 column 12 (char 11)\n  allowed: {layout}",
            id="cut off",
        ),
        pytest.param(
            replace('{"train": [["a"]], "valid": []}'),
            "no lists of pairs in the JSON file\n  where:   {source}/STC.json\n  key:     source\n  allowed: {layout}",
            id="no pair",
        ),
        pytest.param(
            replace("[]"),
            "no lists of pairs in the JSON file\n  where:   {source}/STC.json\n  key:     source\n  allowed: {layout}",
            id="a list",
        ),
    ],
)
def test_sources_that_cannot_be_used(
    tiny: Tiny, source: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(source)
    with pytest.raises(ConfigError) as caught:
        component(tiny("cpm")["data"], "prepare", source, tmp_path)
    assert str(caught.value) == message.format(source=source, layout=LAYOUT)
