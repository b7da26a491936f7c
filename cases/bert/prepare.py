"""MLPerf's Wikipedia text → the HDF5 shards that training reads. The verb `flagperf data prepare` calls it.

The source holds MLPerf's published files: `results4/part-*` and `results4/eval.txt`, with one sentence a line and an
empty line between documents; and `vocab.txt` of bert-large-uncased. Each part makes one shard, independently of the
others.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from cases.bert.examples import Document, Recipe, Vocabulary, make_examples
from cases.bert.shard import write_shard
from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines

log = logging.getLogger(__name__)

PARTS, EVALUATION, VOCABULARY = "results4/part-*", "results4/eval.txt", "vocab.txt"
TREE = f"a folder with {PARTS}, {EVALUATION} and {VOCABULARY}"

PROGRESS = 10.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Shard:
    """One text file, and the shard that is made of it. `limit`: most examples, evenly spread; null: all."""

    text: Path
    path: Path
    limit: int | None = None


def prepare(
    source: Path,
    folder: Path,
    train_path: str,
    eval_path: str,
    eval_examples: int,
    recipe: Mapping[str, Any],
    seed: int,
    processes: int | None = None,
) -> None:
    """Write the shards into `folder`.

    Args:
        train_path, eval_path: folders below `folder`.
        eval_examples: how many of the examples of the evaluation text are kept, evenly spread.
        recipe: arguments of cases.bert.examples.Recipe.
        seed: the random numbers of each file begin with it.
        processes: files that are made at the same time, each by one core; null: one for each core. A process needs
            about 1 GiB of memory.

    Raises:
        ConfigError: the source lacks a file, or one of its files is not such text.
    """
    parts = sorted(source.glob(PARTS))
    missing = [name for name in (EVALUATION, VOCABULARY) if not (source / name).is_file()]
    if not parts or missing:
        absent = ", ".join([*([] if parts else [PARTS]), *missing])
        raise ConfigError(
            "the source lacks files", key="source", given=source, allowed=TREE, advice=f"missing: {absent}"
        )
    shards = [
        Shard(source / EVALUATION, folder / eval_path / "part_eval_10k.hdf5", eval_examples),
        *(Shard(part, folder / train_path / f"{part.name}.hdf5") for part in parts),
    ]
    log.info("making %d shards", len(shards))
    processes = min(processes or os.cpu_count() or 1, len(shards))
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        pending = {pool.submit(make_shard, shard, source / VOCABULARY, Recipe(**recipe), seed) for shard in shards}
        try:
            while pending:
                done, pending = wait(pending, timeout=PROGRESS)
                for made in done:
                    made.result()
                log.info("%d of %d shards are made", len(shards) - len(pending), len(shards))
        except BaseException:
            for future in pending:
                future.cancel()
            raise


def make_shard(shard: Shard, vocabulary: Path, recipe: Recipe, seed: int) -> None:
    """One shard of one text file."""
    tokenizer = _tokenizer(vocabulary)
    documents = read_documents(shard.text, tokenizer)
    if not documents:
        raise ConfigError("no text in this file", where=str(shard.text), key="source")
    examples = make_examples(documents, recipe, _special_tokens(tokenizer, vocabulary), Random(seed))
    if shard.limit is not None and shard.limit < len(examples):
        examples = [examples[int(i * (len(examples) / shard.limit))] for i in range(shard.limit)]
    write_shard(shard.path, examples, recipe.max_seq_length, recipe.max_predictions_per_seq)


def _tokenizer(vocabulary: Path) -> Any:
    """The tokeniser of the uncased BERT. A word such as "[MASK]" in a text is no special token."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = models.WordPiece.from_file(str(vocabulary), unk_token="[UNK]", max_input_chars_per_word=200)
    tokenizer = Tokenizer(words)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _special_tokens(tokenizer: Any, vocabulary: Path) -> Vocabulary:
    ids = {token: tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]", "[MASK]", "[UNK]")}
    if lacking := [token for token, number in ids.items() if number is None]:
        raise ConfigError(
            "not a vocabulary of BERT", where=str(vocabulary), key="source", given=f"no {', '.join(lacking)} in it"
        )
    return Vocabulary(tokenizer.get_vocab_size(), ids["[CLS]"], ids["[SEP]"], ids["[MASK]"])


def read_documents(path: Path, tokenizer: Any) -> list[Document]:
    """The documents of a text file, tokenised; those without a token are left out."""
    documents: list[Document] = [[]]
    for line in map(str.strip, lines(path, "source")):
        if not line:
            documents.append([])
        elif tokens := tokenizer.encode(line).ids:
            documents[-1].append(tokens)
    return [document for document in documents if document]
