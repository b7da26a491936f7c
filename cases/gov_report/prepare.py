"""GovReport → the files of a case, with the published weights. The verb `flagperf data prepare` calls it.

The source holds train.jsonl and validation.jsonl of SCROLLS' gov_report, and tokenizer.json and *.safetensors of the
model.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Tuple

import numpy as np
from numpy.typing import NDArray

from cases.conversion import reported
from cases.gov_report.data import NOT_COUNTED
from cases.gov_report.weights import join
from cases.language_model.prepare import read_tokenizer
from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines

log = logging.getLogger(__name__)

BATCH = 1000  # reports that MLPerf's reference packs at a time; it drops the tokens at the end that fill no sequence
SHARDS = {"train": 8, "validation": 2}  # parts of the reference's data, each packed alone
PROMPT = "### Summarize the following text:\n {}\n ### Summary:\n"  # of the reference

Report = Tuple[NDArray[np.int32], NDArray[np.int32]]  # tokens and labels


def pack(
    source: Path,
    folder: Path,
    train_path: str,
    eval_path: str,
    weights: str,
    length: int,
    vocab_size: int,
    end: str,
    joined: Mapping[str, Sequence[str]] | None,
) -> None:
    """Write one .npz file a split, packed as in MLPerf's reference, and the weights as one file.

    Args:
        train_path, eval_path, weights: files below the folder.
        length: tokens of a sequence; longer reports are left out.
        end: text of the token after each summary.
        joined: end of a layer's name → ends of the names of the layers that it consists of in the published weights.

    Raises:
        ConfigError: the source lacks a file, or a file has other content.
    """
    tokenizer = read_tokenizer(source / "tokenizer.json", vocab_size)
    for split, path in (("train", train_path), ("validation", eval_path)):
        texts = source / f"{split}.jsonl"
        reports = list(_reports(texts, tokenizer, end, summaries_only=split == "validation"))
        tokens, labels = _packed([report for report in reports if len(report[0]) <= length], length, SHARDS[split])
        if not len(tokens):
            raise ConfigError("the reports fill no sequence", where=str(texts), key="source", given=len(reports))
        np.savez(folder / path, input_ids=tokens, labels=labels)
        log.info("%s: %d sequences of %d reports", path, len(tokens), len(reports))
    join(source, folder / weights, joined or {})


def _reports(path: Path, tokenizer: Any, end: str, summaries_only: bool) -> Iterator[Report]:
    """Each report with its summary; `summaries_only`: only the words of the summary have labels."""
    if not path.is_file():
        raise ConfigError("the source lacks a file", key="source", given=path.parent, allowed=path.name)
    for number, line in enumerate(reported(lines(path, "source"), log, "%s: %d reports", path.name), 1):
        try:
            document = json.loads(line)
            prompt = PROMPT.format(document["input"])
            tokens = np.array(tokenizer.encode(f"{prompt} {document['output']}{end}").ids, np.int32)
        except (ValueError, KeyError, TypeError) as error:
            problem = f"line {number} is no report with its summary"
            raise ConfigError(problem, where=str(path), key="source", given=error) from None
        labels = tokens.copy()
        if summaries_only:
            labels[: len(tokenizer.encode(prompt).ids)] = labels[-1] = NOT_COUNTED
        yield tokens, labels


def _packed(reports: Sequence[Report], length: int, shards: int) -> Report:
    """Tokens and labels, [sequences, length]: the reports of a batch one after the other, cut."""
    batches = [
        shard[begin : begin + BATCH]
        for shard in np.array_split(np.arange(len(reports)), shards)
        for begin in range(0, len(shard), BATCH)
    ]
    empty = np.zeros((0, length), np.int32)
    tokens, labels = (
        np.concatenate([empty, *(_cut([reports[index][kind] for index in batch], length) for batch in batches)])
        for kind in (0, 1)
    )
    return tokens, labels


def _cut(texts: Sequence[NDArray[np.int32]], length: int) -> NDArray[np.int32]:
    """The texts one after the other as sequences, without the tokens at the end that fill none."""
    whole = np.concatenate(texts)
    return whole[: len(whole) // length * length].reshape(-1, length)
