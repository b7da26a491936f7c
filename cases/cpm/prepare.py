"""CPM's text files from the published STC data set, as preprocess_stc_finetune.py of CPM-1-Finetune makes them."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Tuple

from cases.cpm.data import conversation
from flagperf.errors import ConfigError

log = logging.getLogger(__name__)

Pair = Tuple[str, str]  # a post and its reply

PAIRS = "STC.json"
LAYOUT = 'STC.json with {"train": [[post, reply], …], "valid": [[post, reply], …]}'
LOG_PAIRS = 1_000_000  # pairs between two log lines, some seconds


def convert(
    source: Path, folder: Path, train_path: str, eval_path: str, tokenizer_path: str, train_share: float
) -> None:
    """Write the text files, and put the sentencepiece model beside them.

    Args:
        source: holds STC.json, which is read as a whole, and the sentencepiece model as `tokenizer_path`.
        folder: where the files go.
        train_path, eval_path, tokenizer_path: files below the folder.
        train_share: share of the training pairs that are used, the first ones.

    Raises:
        ConfigError: the source lacks a file, or STC.json is not as described.
    """
    model = source / tokenizer_path
    if not model.is_file():
        raise ConfigError(
            "the source has no sentencepiece model",
            key="source",
            given=source,
            allowed=f"{tokenizer_path}, as in github.com/TsinghuaAI/CPM-1-Finetune",
        )
    splits = _read(source / PAIRS)
    train = splits["train"]
    _write(folder / train_path, train[: int(train_share * len(train))])
    _write(folder / eval_path, splits["valid"])
    (folder / tokenizer_path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(model, folder / tokenizer_path)


def _read(path: Path) -> dict[str, list[Pair]]:
    try:
        log.info("reading %s, %d MB", path, path.stat().st_size // 1_000_000)
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"the source has no {PAIRS}", key="source", given=path.parent, allowed=LAYOUT) from None
    except ValueError as error:
        raise ConfigError("not a JSON file", where=str(path), key="source", given=error, allowed=LAYOUT) from None
    if not (isinstance(content, dict) and all(_are_pairs(content.get(split)) for split in ("train", "valid"))):
        raise ConfigError("no lists of pairs in the JSON file", where=str(path), key="source", allowed=LAYOUT)
    return content


def _are_pairs(pairs: Any) -> bool:
    return isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in pairs
    )


def _write(path: Path, pairs: Iterable[Pair]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, (post, reply) in enumerate(pairs, 1):
            file.write(conversation(_without_spaces(post), _without_spaces(reply)))
            if number % LOG_PAIRS == 0:
                log.info("%s: %d conversations", path.name, number)


def _without_spaces(text: str) -> str:
    """STC's texts have spaces between words, which are not part of Chinese."""
    return "".join(text.split())
