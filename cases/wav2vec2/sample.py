"""Sample data of wav2vec2: words of tones, spoken over and over, as FLAC files in the layout of LibriSpeech.

A phone is two tones, a word is a few phones. An utterance repeats one word, with phones of varying length and some
noise, so a hidden part differs from other parts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from cases.wav2vec2.prepare import write_manifest

Audio = NDArray[np.float64]

PHONES = 12
WORDS = 16
PHONES_OF_WORD = 4


def write_tones(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    train_utterances: int,
    eval_utterances: int,
    seconds: tuple[float, float],
    sample_rate: int,
) -> None:
    """Write the FLAC files and one manifest a split.

    Args:
        train_path, eval_path: the manifests, below the folder.
        seconds: length of the shortest and the longest utterance.
        sample_rate: audio samples per second.
    """
    folder, random = Path(folder), np.random.default_rng(0)
    words = random.permuted(np.tile(np.arange(PHONES), (WORDS, 1)), axis=1)[:, :PHONES_OF_WORD]
    for path, utterances, speakers in ((train_path, train_utterances, 8), (eval_path, eval_utterances, 2)):
        files = []
        for number in range(utterances):
            speaker = 100 + number % speakers
            file = Path(Path(path).stem, f"{speaker}/1/{speaker}-1-{number:04d}.flac")
            files.append(file)
            Path(folder, file).parent.mkdir(parents=True, exist_ok=True)
            length = int(random.uniform(*seconds) * sample_rate)
            audio = utterance(random, words[number % WORDS], length, sample_rate)
            soundfile.write(folder / file, audio, sample_rate, subtype="PCM_16")
        write_manifest(folder, path, files)


def utterance(
    random: np.random.Generator, word: NDArray[np.int64], length: int, sample_rate: int
) -> NDArray[np.float64]:
    """`length` audio samples of a word, repeated, which begins with one of its phones at random."""
    parts: list[Audio] = []
    first = int(random.integers(len(word)))
    while sum(map(len, parts)) < length:
        phone = word[(first + len(parts)) % len(word)]
        time = np.arange(int(random.uniform(0.15, 0.25) * sample_rate)) / sample_rate
        low, high = 200 * 1.2**phone, 3000 - 150 * phone  # Hz
        parts.append(0.3 * np.sin(2 * np.pi * low * time) + 0.15 * np.sin(2 * np.pi * high * time))
    audio = np.concatenate(parts)[:length]
    return audio + 0.01 * random.standard_normal(length)
