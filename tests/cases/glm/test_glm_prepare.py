"""glm's conversion of ReCoRD: from lines as SuperGLUE publishes them to the questions that are read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cases.glm.data import eval_questions, train_questions
from cases.glm.prepare import convert, normalized
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.errors import ConfigError

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] paris lyon nice rome is in france beyonce sings . , - \" ' s to the"
VOCABULARY = WORDS.split()
NUMBER = {word: number for number, word in enumerate(VOCABULARY)}
START, END = len(VOCABULARY), len(VOCABULARY) + 1  # of what fills a blank

TEXT = "Paris is in France, Lyon is in “France”. Beyoncé sings\n@highlight\nNice is in France"
ENTITIES = ["Paris", "France", "Lyon", "Beyoncé", "Nice", "France"]


def article(queries: list[tuple[str, list[str]]], text: str = TEXT, entities: list[str] = ENTITIES) -> dict[str, Any]:
    """A passage as ReCoRD has it; places count their last character in."""
    places = [{"start": text.index(entity), "end": text.index(entity) + len(entity) - 1} for entity in entities]
    asked = [
        {"query": query, "idx": number, "answers": [{"start": 0, "end": 1, "text": answer} for answer in answers]}
        for number, (query, answers) in enumerate(queries)
    ]
    return {"source": "CNN", "passage": {"text": text, "entities": places}, "qas": asked, "idx": 0}


def numbers(text: str) -> list[int]:
    return [NUMBER[word] for word in text.split()]


PASSAGE = 'paris is in france , lyon is in " france " . beyonce sings - nice is in france'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY), encoding="utf-8")
    train = [article([("“@placeholder”’s in France", ["Paris", "Lyon"]), ("@placeholder sings", ["Beyoncé"])])]
    small = article([("@placeholder is in France", ["Nice"])], "Nice, Rome", ["Nice", "Rome"])
    valid = [article([("@placeholder is in France.", ["Paris", "Lyon", "the Nice."])]), small]
    for name, articles in (("train", train), ("val", valid)):
        lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in articles)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture
def converted(source: Path, tmp_path: Path) -> Callable[..., Path]:
    def call(length: int = 40, train_choices: int = 10) -> Path:
        convert(source, tmp_path, "train/t.hdf5", "eval/e.hdf5", length, train_choices, len(VOCABULARY))
        return tmp_path

    return call


def choices(question: dict[str, Any]) -> list[list[int]]:
    """What fills the blank in each choice, without its end."""
    found = [
        target[mask == 1].tolist() for target, mask in zip(question["target"], question["target_mask"], strict=True)
    ]
    assert all(tokens[-1] == END for tokens in found)
    return [tokens[:-1] for tokens in found]


def words(text: str) -> list[list[int]]:
    return [numbers(word) for word in text.split()]


def test_training_has_a_question_for_each_answer(converted: Callable[..., Path]) -> None:
    questions = list(train_questions(str(converted() / "train/t.hdf5")))
    assert [choices(question) for question in questions] == [
        words("lyon beyonce france nice"),
        words("paris beyonce france nice"),
        words("beyonce france lyon nice paris"),
    ]
    context = [NUMBER["[CLS]"], *numbers(f'{PASSAGE} " [MASK] " \' s in france'), NUMBER["[PAD]"]]
    assert questions[0]["text"][0].tolist() == [*context, START, NUMBER["lyon"], *[0] * (40 - len(context) - 2)]
    assert questions[0]["context"].tolist() == [len(context)] * 4
    blank = context.index(NUMBER["[MASK]"])
    assert questions[0]["position"][0, 0].tolist() == [*range(len(context)), blank, blank, *[0] * (38 - len(context))]


def test_evaluation_has_all_entities_and_all_answers(converted: Callable[..., Path]) -> None:
    """Those with fewer choices come first. Answers match without case, punctuation and articles."""
    questions = list(eval_questions(str(converted() / "eval/e.hdf5")))
    assert [choices(question) for question in questions] == [
        words("nice rome"),
        words("beyonce france lyon nice paris"),
    ]
    assert [question["answers"].tolist() for question in questions] == [
        [True, False],
        [False, False, True, True, True],
    ]


def test_training_keeps_so_many_choices(converted: Callable[..., Path]) -> None:
    questions = list(train_questions(str(converted(train_choices=3) / "train/t.hdf5")))
    assert [len(choices(question)) for question in questions] == [3, 3, 3]
    assert [choices(question)[0] for question in questions] == words("lyon paris beyonce")
    assert all(set(map(tuple, choices(question))) < set(map(tuple, words(PASSAGE))) for question in questions)


def test_passages_are_cut_at_their_end(converted: Callable[..., Path]) -> None:
    """Each choice to the length: here all have one token and its end, beside which the context needs two."""
    (_, longer) = eval_questions(str(converted(length=14) / "eval/e.hdf5"))
    kept = [NUMBER["[CLS]"], *numbers("paris is in france , [MASK] is in france ."), NUMBER["[PAD]"]]
    assert longer["text"][0].tolist() == [*kept, START, NUMBER["beyonce"]]
    assert longer["context"].tolist() == [len(kept)] * 5


@pytest.mark.parametrize(
    ("answer", "words"),
    [("The U.S.", "us"), ("a  man", "man"), ("Theo's", "theos"), ("Beyoncé", "beyoncé"), ("the", "")],
)
def test_normalized(answer: str, words: str) -> None:
    assert normalized(answer) == words


def test_the_case_names_it(source: Path, tmp_path: Path) -> None:
    """With the arguments of the full size, it asks for BERT's vocabulary."""
    config = compose(["model=glm", "size=full", "dry_run=true"]).config
    with pytest.raises(ConfigError) as caught:
        component(config["data"], "prepare", source, tmp_path)
    assert str(caught.value) == (
        f"no vocabulary of BERT\n  where:   {source}/vocab.txt\n  key:     source\n  given:   {len(VOCABULARY)} lines\n"
        "  allowed: vocab.txt of bert-large-uncased, 30522 lines"
    )


def test_progress_is_told(
    converted: Callable[..., Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cases.conversion.INTERVAL", 0.0)
    with caplog.at_level(logging.INFO):
        converted()
    assert caplog.messages[:2] == ["eval/e.hdf5: 1 questions", "eval/e.hdf5: 2 questions"]


def line(**changes: Any) -> str:
    return json.dumps(article([("@placeholder is in France", ["Paris"])]) | changes)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param(
            "vocab.txt",
            None,
            "the source has no vocab.txt\n  where:   {source}/vocab.txt\n  key:     source\n  given:   0 lines\n"
            "  allowed: vocab.txt of bert-large-uncased, 22 lines",
            id="no vocabulary",
        ),
        pytest.param(
            "val.jsonl",
            None,
            "the source has no val.jsonl\n  where:   command line\n  key:     source\n  given:   {source}\n"
            "  allowed: train.jsonl and val.jsonl of ReCoRD, vocab.txt of bert-large-uncased",
            id="no questions",
        ),
        pytest.param(
            "train.jsonl",
            line() + '\n{"passage": ',
            "line 2 is no passage of ReCoRD with its questions and answers\n  where:   {source}/train.jsonl\n"
            "  key:     source\n  given:   JSONDecodeError: Expecting value: line 1 column 13 (char 12)",
            id="cut off",
        ),
        pytest.param(
            "train.jsonl",
            line(qas=[{"query": "@placeholder is", "idx": 0}]),
            "line 1 is no passage of ReCoRD with its questions and answers\n  where:   {source}/train.jsonl\n"
            "  key:     source\n  given:   KeyError: 'answers'",
            id="no answers, as in test.jsonl",
        ),
        pytest.param(
            "train.jsonl",
            line(qas=[{"query": "Paris is", "idx": 0, "answers": []}]),
            "line 1 is no passage of ReCoRD with its questions and answers\n  where:   {source}/train.jsonl\n"
            "  key:     source\n  given:   ValueError: @placeholder is not once in 'Paris is'",
            id="no blank",
        ),
        pytest.param(
            "train.jsonl",
            line(qas=[{"query": "@placeholder" + " is" * 40, "idx": 0, "answers": [{"text": "Paris"}]}]),
            "a question has more tokens than a sequence\n  where:   command line\n"
            "  key:     network.max_position_embeddings\n  given:   @placeholder"
            + " is" * 40
            + "\n  allowed: 40 tokens",
            id="a long question",
        ),
    ],
)
def test_sources_that_cannot_be_used(
    source: Path, converted: Callable[..., Path], name: str, content: str | None, message: str
) -> None:
    if content is None:
        (source / name).unlink()
    else:
        (source / name).write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        converted()
    assert str(caught.value) == message.format(source=source)
