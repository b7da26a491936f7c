"""Sample data of bert: documents that count, in the HDF5 shards that the converter writes.

A document counts on from a random number, some numbers a sentence, round a clock of all numbers. So a masked number
follows from its neighbours, and a text continues another one if it counts on.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from cases.bert.examples import Document, Recipe, Vocabulary, make_examples
from cases.bert.shard import write_shard

PAD, CLS, SEP, MASK = range(4)
FIRST_NUMBER = 4
SENTENCES = 6  # sentences of a document
SENTENCE = (3, 8)  # least and most numbers of a sentence


def write_counting(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    train_documents: int,
    eval_documents: int,
    shards: int,
    vocab_size: int,
    recipe: dict[str, float],
) -> None:
    """Write the shards of training and the one of evaluation.

    Args:
        train_path, eval_path: folders below `folder`.
        train_documents: documents of each shard of training.
        vocab_size: all tokens are below it.
        recipe: arguments of cases.bert.examples.Recipe.
    """
    random, wanted = Random(0), Recipe(**recipe)  # type: ignore[arg-type]
    vocabulary = Vocabulary(vocab_size, cls=CLS, sep=SEP, mask=MASK)
    paths = {f"{train_path}/part_{shard:05d}_of_{shards:05d}.hdf5": train_documents for shard in range(shards)}
    for path, documents in {**paths, f"{eval_path}/part_eval_10k.hdf5": eval_documents}.items():
        examples = make_examples([_count(vocab_size, random) for _ in range(documents)], wanted, vocabulary, random)
        write_shard(Path(folder, path), examples, wanted.max_seq_length, wanted.max_predictions_per_seq)


def _count(vocab_size: int, random: Random) -> Document:
    numbers = vocab_size - FIRST_NUMBER
    number = random.randrange(numbers)
    document: Document = []
    for _ in range(SENTENCES):
        end = number + random.randint(*SENTENCE)
        document.append([FIRST_NUMBER + n % numbers for n in range(number, end)])
        number = end
    return document
