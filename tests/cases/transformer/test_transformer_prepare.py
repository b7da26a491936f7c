"""transformer: the converter on small files in the format of WMT14's archives, and the sample data."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor

from cases.transformer import prepare
from cases.transformer.data import BEGIN, END, PAD, UNKNOWN, EvalSentences, Sentences, TrainPairs
from cases.transformer.sample import english, german
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.errors import ConfigError

EUROPARL = [("Resumption of the session", "Wiederaufnahme der Sitzungsperiode"), ("Please rise.", "Bitte.")] * 30
COMMONCRAWL = [
    ("", "Wo?"),  # left out, as are the next two
    ("I agree " * 300, "Ich bin einverstanden " * 300),
    ("I agree", "Ich bin einverstanden " * 20),
    ("rise\u2028or\x85rise", "Bitte Bitte"),  # one line all the same
]
TEST = [("Resumption of the session", "Noch mehr &quot;Sicherheit&quot;"), ("Please rise.", "Bitte &amp; bitte")]
SGML = '<srcset setid="newstest2014" srclang="any">\n<doc docid="1">\n<p>\n{}\n</p>\n</doc>\n</srcset>\n'


def sgml(sentences: list[str]) -> str:
    return SGML.format("\n".join(f'<seg id="{n}">{text} </seg>' for n, text in enumerate(sentences, start=1)))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The unpacked archives, with a handful of sentences."""
    folder = tmp_path / "source"
    (folder / "training").mkdir(parents=True)
    (folder / "test-full").mkdir()
    for stem, pairs in (
        ("training/europarl-v7.de-en", EUROPARL),
        ("commoncrawl.de-en", COMMONCRAWL),
        ("training/news-commentary-v12.de-en", EUROPARL[:1]),
    ):
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{stem}.{language}").write_text(text, encoding="utf-8")
    for side, name in enumerate(("src.en", "ref.de")):
        text = sgml([pair[side] for pair in TEST])
        (folder / f"test-full/newstest2014-deen-{name}.sgm").write_text(text, encoding="utf-8")
    return folder


def convert(source: Path, folder: Path, **arguments: Any) -> None:
    """As `flagperf data prepare` does, with the vocabulary that so little text has."""
    node = compose(["model=transformer", "size=full", "data_dir=/data"]).config["data"]["prepare"]
    folder.mkdir(exist_ok=True)
    component({"prepare": {**node, "vocab_size": 60, **arguments}}, "prepare", str(source), str(folder))


def test_public_files_become_the_data_set(source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, prepare.__name__):
        convert(source, tmp_path / "data")
    assert caplog.messages[-1] == "kept 62 of 65 pairs"

    folder = str(tmp_path / "data")
    vocabulary = SentencePieceProcessor(model_file=f"{folder}/sentencepiece.model")
    special = (vocabulary.bos_id(), vocabulary.pad_id(), vocabulary.eos_id(), vocabulary.unk_id())
    assert (vocabulary.vocab_size(), special) == (60, (BEGIN, PAD, END, UNKNOWN))
    pairs = TrainPairs(f"{folder}/train.en", f"{folder}/train.de")
    assert {int(sentence[-1]) for pair in pairs for sentence in pair} == {END}
    texts = [tuple(vocabulary.decode(sentence.tolist()) for sentence in pair) for pair in pairs]
    assert texts[:60] == EUROPARL
    assert (texts[60][1], texts[61]) == ("Bitte Bitte", EUROPARL[0])
    tests = EvalSentences(f"{folder}/test.en", f"{folder}/test.de")
    assert sorted((vocabulary.decode(sentence.tolist()), reference) for sentence, reference in tests) == [
        ("Please rise.", "Bitte & bitte"),
        ("Resumption of the session", 'Noch mehr "Sicherheit"'),
    ]


def test_text_files_and_chunks(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding a few pairs at once gives what encoding all at once does; a test set may be plain text."""
    for side, language in enumerate(("en", "de")):
        (source / f"test.{language}").write_text("".join(f"{pair[side]}\n" for pair in TEST))
    words = {"test": {"en": "test.en", "de": "test.de"}}
    convert(source, tmp_path / "whole", **words)
    monkeypatch.setattr(prepare, "CHUNK", 7)
    convert(source, tmp_path / "chunks", **words)
    whole, chunks = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in ("whole", "chunks"))
    assert whole == chunks
    assert len(Sentences(str(tmp_path / "whole/test.en"))) == 2


def test_progress_is_told(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "PROGRESS", 0)
    monkeypatch.setattr("sentencepiece.set_random_generator_seed", lambda _: time.sleep(0.05))  # seconds
    with caplog.at_level(logging.INFO, prepare.__name__):
        convert(source, tmp_path / "data")
    assert caplog.messages[0] == "learning the vocabulary: 0 s"
    assert caplog.messages[-2:] == ["encoded 65 pairs, kept 62", "kept 62 of 65 pairs"]


def one_line_more(source: Path) -> None:
    with (source / "commoncrawl.de-en.de").open("a") as file:
        file.write("Mehr\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda source: (source / "commoncrawl.de-en.de").unlink(),
            "no such file in the source\n  where:   {source}/commoncrawl.de-en.de\n  key:     source",
            id="missing",
        ),
        pytest.param(
            one_line_more,
            "the two languages have different numbers of lines\n  where:   {source}/commoncrawl.de-en.en\n"
            "  key:     source\n  given:   4 lines\n  allowed: as many as in {source}/commoncrawl.de-en.de",
            id="not parallel",
        ),
        pytest.param(
            lambda source: (source / "training/europarl-v7.de-en.en").write_bytes(b"One\nTw\xf6\n"),
            "not UTF-8 text\n  where:   {source}/training/europarl-v7.de-en.en:2\n  key:     source\n"
            "  given:   byte 0xf6 behind 'Tw'\n"
            "  allowed: a text file in UTF-8\n  do:      convert the file, such as by: iconv -f LATIN1 -t UTF-8 FILE",
            id="another encoding",
        ),
    ],
)
def test_a_bad_source_is_refused(source: Path, tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(source)
    with pytest.raises(ConfigError) as caught:
        convert(source, tmp_path / "data")
    assert str(caught.value) == message.format(source=source)


def test_too_little_text_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot learn a vocabulary of this size") as caught:
        convert(source, tmp_path / "data", vocab_size=33712)
    assert (caught.value.key, caught.value.given) == ("data.prepare.vocab_size", 33712)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, ("zero", "null")),
        (1, ("one", "eins")),
        (17, ("seventeen", "siebzehn")),
        (21, ("twenty-one", "einundzwanzig")),
        (30, ("thirty", "dreißig")),
        (100, ("one hundred", "einhundert")),
        (201, ("two hundred and one", "zweihunderteins")),
        (742, ("seven hundred and forty-two", "siebenhundertzweiundvierzig")),
        (999, ("nine hundred and ninety-nine", "neunhundertneunundneunzig")),
    ],
)
def test_number_words(number: int, words: tuple[str, str]) -> None:
    assert (english(number), german(number)) == words
