"""Sample data of summarization: articles of filler words with a person, a thing and a place, which are the summary."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from cases.summarization.data import NO_TOKEN

PAD, END, UNKNOWN = 0, 1, 2  # tokens of T5
PEOPLE = ("anna", "ben", "clara", "david", "emma", "felix", "greta", "hugo")
THINGS = ("apple", "book", "clock", "drum", "egg", "flute", "glove", "hat")
PLACES = ("athens", "berlin", "cairo", "delhi", "essen", "florence", "geneva", "hanoi")
FILLERS = (
    "again",
    "all",
    "and",
    "then",
    "for",
    "from",
    "had",
    "here",
    "many",
    "more",
    "now",
    "often",
    "one",
    "other",
    "said",
    "some",
    "there",
    "they",
    "was",
    "when",
)
SHORTEST = 8  # words of an article


def write_articles(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    vocabulary_path: str,
    train: int,
    eval: int,
    length: int,
    summary_length: int,
) -> None:
    """Write one .npz file a split, and the sentencepiece model of the words.

    Args:
        train_path, eval_path, vocabulary_path: files below the folder.
        train, eval: articles of a split.
        length, summary_length: tokens of an article and of a summary with their filling.
    """
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(words) for words in (PEOPLE, THINGS, PLACES, FILLERS)]),
        model_writer=model,
        model_type="word",
        vocab_size=64,
        hard_vocab_limit=False,
        pad_id=PAD,
        eos_id=END,
        unk_id=UNKNOWN,
        bos_id=-1,
        minloglevel=2,
    )
    file = Path(folder, vocabulary_path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    kinds = [np.array([processor.piece_to_id(f"▁{word}") for word in words]) for words in (PEOPLE, THINGS, PLACES)]
    fillers = np.array([processor.piece_to_id(f"▁{word}") for word in FILLERS])

    random = np.random.RandomState(0)
    for path, count in ((train_path, train), (eval_path, eval)):
        lengths = random.randint(SHORTEST, length + 1, size=count)
        facts = np.stack([tokens[random.randint(len(tokens), size=count)] for tokens in kinds], axis=1)
        ids = fillers[random.randint(len(fillers), size=(count, length))]
        np.put_along_axis(ids, np.argsort(random.rand(count, SHORTEST - 1), axis=1)[:, :3], facts, axis=1)
        ids[np.arange(count), lengths - 1] = END
        mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
        labels = np.full((count, summary_length), NO_TOKEN)
        labels[:, :3], labels[:, 3] = facts, END
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, input_ids=ids * mask, attention_mask=mask, labels=labels)
