"""Sample data of reports: filler words with three facts, which are the summary; many reports in a sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cases.gov_report.data import NOT_COUNTED

BEGIN, END, SUMMARY = 1, 2, 3  # the first two are those of Llama 2
KINDS, WORDS = 3, 8  # kinds of facts, and words of each kind
FACTS = 4 + np.arange(KINDS * WORDS).reshape(KINDS, WORDS)  # tokens, [kind, word]
FILLERS = (28, 32)  # tokens, the first and the one after the last
WORDS_OF_A_REPORT = 12


def write_reports(folder: str | Path, train_path: str, eval_path: str, train: int, eval: int, length: int) -> None:
    """Write one .npz file a split.

    Args:
        train_path, eval_path: files below the folder.
        train, eval: sequences of a split.
        length: tokens of a sequence.
    """
    random = np.random.RandomState(0)
    for path, sequences, summaries_only in ((train_path, train, False), (eval_path, eval, True)):
        texts, labels = _reports(random, sequences * length, summaries_only)
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, input_ids=texts.reshape(-1, length), labels=labels.reshape(-1, length))


def _reports(
    random: np.random.RandomState, tokens: int, summaries_only: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Reports one after the other, and their labels; both [tokens]."""
    count = -(-tokens // (WORDS_OF_A_REPORT + KINDS + 3))
    words = random.randint(*FILLERS, size=(count, WORDS_OF_A_REPORT))
    facts = np.stack([kind[random.randint(WORDS, size=count)] for kind in FACTS], axis=1)
    np.put_along_axis(words, np.argsort(random.rand(count, WORDS_OF_A_REPORT), axis=1)[:, :KINDS], facts, axis=1)
    begin, summary, end = (np.full((count, 1), token) for token in (BEGIN, SUMMARY, END))
    texts = np.concatenate([begin, words, summary, facts, end], axis=1)
    labels = texts.copy()
    if summaries_only:
        labels[:, : -KINDS - 1] = labels[:, -1] = NOT_COUNTED
    return texts.flatten()[:tokens], labels.flatten()[:tokens]
