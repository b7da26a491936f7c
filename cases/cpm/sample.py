"""Sample data of cpm: generated conversations about Chinese numerals and weekdays, in CPM's files.

`对话上文:七百零二后面是几？ 回复:七百零三。` (what comes after 702? 703.)
`对话上文:今天星期三，明天呢？ 回复:星期四。` (today is Wednesday, and tomorrow? Thursday.)
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from cases.cpm.data import conversation
from cases.cpm.tokens import END, PAD, segmented

DIGITS = "零一二三四五六七八九"
WEEKDAYS = "一二三四五六日"
DAYS = ("明天", "后天", "大后天")  # in one, two and three days


def write_conversations(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    tokenizer_path: str,
    train_lines: int,
    eval_lines: int,
    vocab_size: int,
) -> None:
    """Write a text file a split, and the sentencepiece model of their tokens.

    Args:
        train_path, eval_path, tokenizer_path: files below the folder.
        vocab_size: most tokens of the model.
    """
    choose = random.Random(0)
    texts = {}
    for path, count in ((train_path, train_lines), (eval_path, eval_lines)):
        texts[path] = [_weekdays(choose) if number % 3 == 0 else _numerals(choose) for number in range(count)]
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(texts[path]), encoding="utf-8")
    write_tokenizer(Path(folder, tokenizer_path), texts[train_path], vocab_size)


def _numerals(choose: random.Random) -> str:
    number = choose.randrange(100, 999)
    return conversation(f"{numeral(number)}后面是几？", f"{numeral(number + 1)}。")


def numeral(number: int) -> str:
    """A number of three digits in Chinese."""
    hundreds, tens, ones = map(int, str(number))
    middle = f"{DIGITS[tens]}十" if tens else "零" if ones else ""
    return f"{DIGITS[hundreds]}百{middle}" + (DIGITS[ones] if ones else "")


def _weekdays(choose: random.Random) -> str:
    today, days = choose.randrange(7), choose.randrange(3)
    then = WEEKDAYS[(today + days + 1) % 7]
    return conversation(f"今天星期{WEEKDAYS[today]}，{DAYS[days]}呢？", f"星期{then}。")


def write_tokenizer(path: Path, texts: Iterable[str], vocab_size: int) -> None:
    """Train a sentencepiece model with the settings of CPM's; one thread, so that it is the same each time."""
    from sentencepiece import SentencePieceTrainer

    model = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=map(segmented, texts),
        model_writer=model,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        control_symbols=["<cls>", "<sep>", PAD, "<mask>", END],
        num_threads=1,
        minloglevel=2,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.getvalue())
