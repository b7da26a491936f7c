"""Sample data of transformer: lists of numbers in words, in English and in German, prepared as WMT14 is.

"seven hundred and two , forty-one" is to become "siebenhundertzwei , einundvierzig".
"""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

from cases.transformer.prepare import SOURCE, TARGET, tokenize_corpora

WORDS = {  # number → in English, in German
    0: ("zero", "null"),
    1: ("one", "eins"),
    2: ("two", "zwei"),
    3: ("three", "drei"),
    4: ("four", "vier"),
    5: ("five", "fünf"),
    6: ("six", "sechs"),
    7: ("seven", "sieben"),
    8: ("eight", "acht"),
    9: ("nine", "neun"),
    10: ("ten", "zehn"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    13: ("thirteen", "dreizehn"),
    14: ("fourteen", "vierzehn"),
    15: ("fifteen", "fünfzehn"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    18: ("eighteen", "achtzehn"),
    19: ("nineteen", "neunzehn"),
    20: ("twenty", "zwanzig"),
    30: ("thirty", "dreißig"),
    40: ("forty", "vierzig"),
    50: ("fifty", "fünfzig"),
    60: ("sixty", "sechzig"),
    70: ("seventy", "siebzig"),
    80: ("eighty", "achtzig"),
    90: ("ninety", "neunzig"),
}


def write_number_words(
    folder: str | Path, train_pairs: int, test_pairs: int, longest: int, largest: int, vocab_size: int
) -> None:
    """Write the data set.

    Args:
        longest: numbers in the longest sentence; the shortest has two.
        largest: number that occurs, at most 999.
        vocab_size: tokens of the joint vocabulary.
    """
    chance = random.Random(0)
    with TemporaryDirectory() as name:
        source = Path(name)
        for split, pairs in (("train", train_pairs), ("test", test_pairs)):
            numbers = [[chance.randint(0, largest) for _ in range(chance.randint(2, longest))] for _ in range(pairs)]
            for language, words in ((SOURCE, english), (TARGET, german)):
                text = "".join(" , ".join(map(words, sentence)) + "\n" for sentence in numbers)
                Path(source, f"{split}.{language}").write_text(text, encoding="utf-8")
        tokenize_corpora(
            source,
            Path(folder),
            corpora=["train"],
            test={SOURCE: f"test.{SOURCE}", TARGET: f"test.{TARGET}"},
            vocab_size=vocab_size,
            max_length=256,
            max_ratio=9,
        )


def english(number: int) -> str:
    """A number below 1000 in words: 742 is "seven hundred and forty-two"."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return f"{english(hundreds)} hundred" + (f" and {english(rest)}" if rest else "")
    if number in WORDS:
        return WORDS[number][0]
    ones = number % 10
    return f"{WORDS[number - ones][0]}-{english(ones)}"


def german(number: int) -> str:
    """A number below 1000 in words: 742 is "siebenhundertzweiundvierzig"."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return f"{_joined(hundreds)}hundert" + (german(rest) if rest else "")
    if number in WORDS:
        return WORDS[number][1]
    ones = number % 10
    return f"{_joined(ones)}und{WORDS[number - ones][1]}"


def _joined(digit: int) -> str:
    """A digit that another part of the word follows."""
    return "ein" if digit == 1 else german(digit)
