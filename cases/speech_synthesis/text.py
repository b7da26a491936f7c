"""English text as the symbols that Tacotron 2 reads: the cleaners and the alphabet of its original."""

from __future__ import annotations

import re
import unicodedata

PAD = "_"
CHARACTERS = f"{PAD}-!'(),.:;? ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# The network's 148 symbols are these 64 and 84 phonemes, which the texts of LJ Speech do not use.
NUMBER = {character: number for number, character in enumerate(CHARACTERS)}

ABBREVIATIONS = {
    "capt": "captain",
    "co": "company",
    "col": "colonel",
    "dr": "doctor",
    "drs": "doctors",
    "esq": "esquire",
    "ft": "fort",
    "gen": "general",
    "hon": "honorable",
    "jr": "junior",
    "lt": "lieutenant",
    "ltd": "limited",
    "maj": "major",
    "mr": "mister",
    "mrs": "misess",
    "rev": "reverend",
    "sgt": "sergeant",
    "st": "saint",
}
LOOKALIKES = str.maketrans({"’": "'", "ü": "ue"})
ABBREVIATION = re.compile(rf"\b({'|'.join(ABBREVIATIONS)})\.")


def symbols(text: str) -> list[int]:
    """Numbers of the symbols of a text, after cleaning; characters that the network does not know are left out.

    Numbers in digits are not spelled out: the file lists of LJ Speech have none.
    """
    return [NUMBER[character] for character in clean(text) if character in NUMBER and character != PAD]


def clean(text: str) -> str:
    """Lower-case ASCII, abbreviations such as "dr." spelled out, any white space as one blank."""
    ascii_text = unicodedata.normalize("NFKD", text.translate(LOOKALIKES)).encode("ascii", "ignore").decode()
    spelled = ABBREVIATION.sub(lambda match: ABBREVIATIONS[match[1]], ascii_text.lower())
    return re.sub(r"\s+", " ", spelled)
