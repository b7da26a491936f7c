"""Sample data of glm: generated cloze questions about one fact, in the files and the sparse HDF5 layout of ReCoRD.

"a3 likes b7 ." is the passage, "a3 likes [MASK]" the question, b7 and others are the choices. Some names have two
tokens.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cases.glm.writer import QuestionWriter, Special

SPECIAL = Special(begin=1, blank=2, start=3)
STOP, FIRST_WORD = 4, 5
TWO_TOKENS = 4  # every fourth name has two tokens


def write_cloze(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    train_questions: int,
    eval_questions: int,
    choices: int,
    vocab_size: int,
    length: int,
) -> None:
    """Write one file a split.

    Args:
        train_path, eval_path: files below the folder.
        choices: choices of a question; in training, the first is right.
        vocab_size: all tokens are below it.
        length: tokens of a sequence, padded.
    """
    random = np.random.default_rng(0)
    verb = [vocab_size - 1]
    for path, questions, shuffled in ((train_path, train_questions, False), (eval_path, eval_questions, True)):
        with QuestionWriter(Path(folder, path), length, SPECIAL) as writer:
            for _ in range(questions):
                names = random.choice(vocab_size - FIRST_WORD - 1, size=choices + 1, replace=False) + FIRST_WORD
                subject, *objects = (_tokens(int(name)) for name in names)
                right = int(random.integers(choices)) if shuffled else 0
                question = subject + verb + objects[right] + [STOP] + subject + verb + [SPECIAL.blank]
                writer.add([(question, name) for name in objects], [right])


def _tokens(name: int) -> list[int]:
    return [name, FIRST_WORD] if name % TWO_TOKENS == 0 else [name]
