"""Texts become the symbols that the published networks know."""

from __future__ import annotations

import pytest

from cases.speech_synthesis.text import CHARACTERS, clean, symbols


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        pytest.param("Mr. and Mrs. Kennedy", "mister and misess kennedy", id="abbreviations"),
        pytest.param("Dr. Smith, of Co. C; St. James", "doctor smith, of company c; saint james", id="more of them"),
        pytest.param("a mister. the first.", "a mister. the first.", id="ends of words are not abbreviations"),
        pytest.param("two\t blanks\n", "two blanks ", id="white space"),
        pytest.param("Müller’s café à la carte", "mueller's cafe a la carte", id="accents"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_symbols() -> None:
    """Numbers as in the original's list of 148, of which the last 84 are phonemes."""
    assert [CHARACTERS.index(character) for character in "_-! AZaz"] == [0, 1, 2, 11, 12, 37, 38, 63]
    assert symbols("Ab, c!") == [38, 39, 6, 11, 40, 2]
    assert symbols('"_[a]_"') == [38]
