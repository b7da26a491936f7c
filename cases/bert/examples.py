"""From documents to pre-training examples, by the algorithm of BERT's create_pretraining_data.py.

Random numbers are drawn in the same order, so that the same documents and seed give the same examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import List

import numpy as np
from numpy.typing import NDArray

Sentence = List[int]  # its tokens
Document = List[Sentence]

RANDOM_DOCUMENT_TRIES = 10  # draws to find a document other than the text's own


@dataclass(frozen=True)
class Vocabulary:
    """The number of tokens, and the special ones."""

    size: int
    cls: int
    sep: int
    mask: int


@dataclass(frozen=True)
class Recipe:
    """The form of the examples.

    Args:
        max_seq_length: tokens of an example at most, the three special ones included.
        max_predictions_per_seq: masked tokens of an example at most.
        masked_lm_prob: share of the tokens that are masked.
        short_seq_prob: share of the documents whose examples are of a random, shorter length.
        dupe_factor: number of times that examples are made from each document.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    short_seq_prob: float
    dupe_factor: int


@dataclass(frozen=True)
class Example:
    """One example: tokens with some masked, the start of the second text, the masked positions and their words."""

    tokens: NDArray[np.int32]
    second: int
    not_next: bool
    places: NDArray[np.int32]
    words: NDArray[np.int32]


def make_examples(
    documents: Sequence[Document], recipe: Recipe, vocabulary: Vocabulary, random: Random
) -> list[Example]:
    """Shuffled examples of all documents."""
    shuffled = list(documents)
    random.shuffle(shuffled)
    examples = [
        _masked(first, second, not_next, recipe, vocabulary, random)
        for _ in range(recipe.dupe_factor)
        for number in range(len(shuffled))
        for first, second, not_next in _pairs(shuffled, number, recipe, random)
    ]
    random.shuffle(examples)
    return examples


def _pairs(
    documents: Sequence[Document], number: int, recipe: Recipe, random: Random
) -> Iterator[tuple[Sentence, Sentence, bool]]:
    """Two texts at a time from one document; the second is from elsewhere in about half of them."""
    document, room = documents[number], recipe.max_seq_length - 3
    wanted = random.randint(2, room) if random.random() < recipe.short_seq_prob else room
    start = 0  # the first of the sentences that are collected
    while start < len(document):
        end, tokens = start, 0
        while end < len(document) and tokens < wanted:
            tokens += len(document[end])
            end += 1
        split = start + (random.randint(1, end - start - 1) if end - start > 1 else 1)
        first = _joined(document[start:split])
        not_next = end - start == 1 or random.random() < 0.5
        if not_next:
            second = _elsewhere(documents, number, wanted - len(first), random)
            end = split  # the rest of the sentences is used again
        else:
            second = _joined(document[split:end])
        yield *_cut(first, second, room, random), not_next
        start = end


def _joined(sentences: Sequence[Sentence]) -> Sentence:
    return [token for sentence in sentences for token in sentence]


def _elsewhere(documents: Sequence[Document], number: int, wanted: int, random: Random) -> Sentence:
    """Consecutive sentences of another document, from a random one, with `wanted` tokens at least."""
    for _ in range(RANDOM_DOCUMENT_TRIES):
        other = random.randint(0, len(documents) - 1)
        if other != number:
            break
    document = documents[other]
    tokens: Sentence = []
    for sentence in document[random.randint(0, len(document) - 1) :]:
        tokens += sentence
        if len(tokens) >= wanted:
            break
    return tokens


def _cut(first: Sentence, second: Sentence, room: int, random: Random) -> tuple[Sentence, Sentence]:
    """Drop tokens of the longer text, at its beginning or its end by chance, until both have room."""
    spans = [0, len(first)], [0, len(second)]
    for _ in range(len(first) + len(second) - room):
        longer = max(reversed(spans), key=lambda span: span[1] - span[0])  # the second where both are equally long
        if random.random() < 0.5:
            longer[0] += 1
        else:
            longer[1] -= 1
    return first[slice(*spans[0])], second[slice(*spans[1])]


def _masked(
    first: Sentence, second: Sentence, not_next: bool, recipe: Recipe, vocabulary: Vocabulary, random: Random
) -> Example:
    """An example. Of ten chosen tokens, eight become [MASK], one stays, one becomes a random token."""
    tokens = np.array([vocabulary.cls, *first, vocabulary.sep, *second, vocabulary.sep], dtype=np.int32)
    candidates = np.flatnonzero((tokens != vocabulary.cls) & (tokens != vocabulary.sep)).tolist()
    random.shuffle(candidates)
    count = min(recipe.max_predictions_per_seq, max(1, round(len(tokens) * recipe.masked_lm_prob)))
    replaced = tokens.copy()
    for position in candidates[:count]:
        if random.random() < 0.8:
            replaced[position] = vocabulary.mask
        elif random.random() >= 0.5:
            replaced[position] = random.randint(0, vocabulary.size - 1)
    places = np.sort(np.array(candidates[:count], dtype=np.int32))
    return Example(replaced, len(first) + 2, not_next, places, tokens[places])
