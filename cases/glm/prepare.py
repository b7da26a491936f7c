"""ReCoRD's questions as GLM sees them, from SuperGLUE's JSON lines and BERT's vocabulary.

The construction is that of THUDM/GLM (RecordProcessor, RecordPVP): a passage and the sentence with a blank, cut at the
passage's end to the length, and the entities of the passage as choices.
"""

from __future__ import annotations

import json
import logging
import random
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, List

from cases.conversion import reported
from cases.glm.writer import Choice, QuestionWriter, Special
from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines

log = logging.getLogger(__name__)

BLANK = "@placeholder"
PLAIN = str.maketrans("“”’‘–", "\"\"''-")

Tokens = Callable[[str], List[int]]


@dataclass(frozen=True)
class Query:
    """A sentence about a passage, in which BLANK replaces one of the passage's entities."""

    passage: str
    sentence: str
    entities: Sequence[str]
    answers: Sequence[str]


@dataclass(frozen=True)
class Question:
    """A query with its choices, and which of them are right."""

    query: Query
    choices: Sequence[str]
    right: Sequence[int]


def convert(
    source: Path, folder: Path, train_path: str, eval_path: str, length: int, train_choices: int, vocab_tokens: int
) -> None:
    """Write the two HDF5 files.

    Args:
        source: holds ReCoRD's train.jsonl and val.jsonl, and vocab.txt of bert-large-uncased.
        folder: where the files go.
        train_path, eval_path: files below the folder.
        length: tokens of a sequence, padded.
        train_choices: most choices of a question in training.
        vocab_tokens: lines of vocab.txt. GLM's own tokens follow them: the start and the end of an answer.

    Raises:
        ConfigError: the source lacks a file, or a file is not as described.
    """
    tokens, special = _tokenizer(source / "vocab.txt", vocab_tokens)
    # Sorted, so that questions that are scored together have nearly the same number of choices.
    evaluation = sorted(eval_questions(queries(source / "val.jsonl")), key=lambda question: len(question.choices))
    training = train_questions(queries(source / "train.jsonl"), train_choices)
    for path, questions in ((eval_path, evaluation), (train_path, training)):
        with QuestionWriter(folder / path, length, special) as writer:
            for question in reported(questions, log, "%s: %d questions", path):
                writer.add(_choices(question, tokens, special, length), question.right)


def queries(path: Path) -> Iterator[Query]:
    """The queries of a file of SuperGLUE's ReCoRD, one passage a line."""
    if not path.is_file():
        raise ConfigError(
            f"the source has no {path.name}",
            key="source",
            given=path.parent,
            allowed="train.jsonl and val.jsonl of ReCoRD, vocab.txt of bert-large-uncased",
        )
    for number, line in enumerate(lines(path, "source"), 1):
        try:
            queries = list(_queries(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            problem = f"line {number} is no passage of ReCoRD with its questions and answers"
            given = f"{type(error).__name__}: {error}"
            raise ConfigError(problem, where=str(path), key="source", given=given) from None
        yield from queries


def _queries(article: Mapping[str, Any]) -> Iterator[Query]:
    text = article["passage"]["text"].translate(PLAIN)
    entities = sorted({text[span["start"] : span["end"] + 1] for span in article["passage"]["entities"]})
    passage = text.replace("@highlight\n", "- ")
    for asked in article["qas"]:
        sentence = asked["query"].translate(PLAIN)
        if sentence.count(BLANK) != 1:
            raise ValueError(f"{BLANK} is not once in {sentence!r}")
        yield Query(
            passage, sentence, entities, sorted({answer["text"].translate(PLAIN) for answer in asked["answers"]})
        )


def train_questions(queries: Iterable[Query], most: int) -> Iterator[Question]:
    """One question for each right answer, which comes first, with at most `most` choices."""
    choose = random.Random(42)  # as the original
    for query in queries:
        others = [entity for entity in query.entities if entity not in query.answers]
        for answer in query.answers:
            drawn = others.copy()
            if len(drawn) > most - 1:
                choose.shuffle(drawn)
            yield Question(query, [answer, *drawn[: most - 1]], right=[0])


def eval_questions(queries: Iterable[Query]) -> Iterator[Question]:
    """One question for each query, with all entities. All that match an answer are right."""
    for query in queries:
        answers = set(map(normalized, query.answers))
        right = [number for number, entity in enumerate(query.entities) if normalized(entity) in answers]
        yield Question(query, query.entities, right)


def normalized(answer: str) -> str:
    """An answer as ReCoRD's own evaluation compares it: without case, punctuation and articles."""
    words = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", words).split())


def _choices(question: Question, tokens: Tokens, special: Special, length: int) -> Iterator[Choice]:
    before, after = question.query.sentence.split(BLANK)
    passage = tokens(question.query.passage)
    sentence = [*tokens(before), special.blank, *tokens(after)]
    for choice in question.choices:
        answer = [*tokens(choice), special.start + 1]  # GLM's end of a piece follows its start
        room = length - len(sentence) - len(answer) - 2  # two tokens begin and end the context
        if room < 0:
            raise ConfigError(
                "a question has more tokens than a sequence",
                key="network.max_position_embeddings",
                given=question.query.sentence,
                allowed=f"{length} tokens",
            )
        yield [*passage[:room], *sentence], answer


def _tokenizer(path: Path, size: int) -> tuple[Tokens, Special]:
    """A function from a text to BERT's tokens, and the special tokens. Texts that come again are kept."""
    from tokenizers import BertWordPieceTokenizer

    words = list(lines(path, "source")) if path.is_file() else []
    if len(words) != size or not {"[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"} <= set(words):
        raise ConfigError(
            "no vocabulary of BERT" if path.is_file() else "the source has no vocab.txt",
            where=str(path),
            key="source",
            given=f"{len(words)} lines",
            allowed=f"vocab.txt of bert-large-uncased, {size} lines",
        )
    vocabulary = {token: number for number, token in enumerate(words)}
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=True)

    @lru_cache(maxsize=10_000)
    def tokens(text: str) -> list[int]:
        numbers: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return numbers

    return tokens, Special(vocabulary["[CLS]"], vocabulary["[MASK]"], start=size, end=vocabulary["[PAD]"])
