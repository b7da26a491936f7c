"""Sample data of the speech cases: texts spoken by a machine that has one tone for each letter."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

LETTERS = string.ascii_lowercase
LOUDNESS = 0.3  # amplitude of a tone; full scale is 1
NOISE = 0.001  # standard deviation of the noise between words, as in LJ Speech
LETTER_SECONDS = 0.066  # as in LJ Speech, about 15 characters a second


def write_tones(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    train_clips: int,
    eval_clips: int,
    text_length: Sequence[int],
    sampling_rate: int,
) -> None:
    """Write wav files, and file lists with their texts.

    Args:
        train_path, eval_path: file lists below the folder.
        text_length: least and greatest number of characters of a text.
    """
    random = np.random.default_rng(0)
    wavs = Path(folder, "LJSpeech-1.1", "wavs")
    wavs.mkdir(parents=True)
    for number, (path, clips) in enumerate(((train_path, train_clips), (eval_path, eval_clips)), start=1):
        lines = []
        for clip in range(clips):
            text = _text(random, int(random.integers(text_length[0], text_length[1] + 1)))
            wav = wavs / f"LJ{number:03d}-{clip:04d}.wav"
            soundfile.write(wav, _speech(random, text, sampling_rate), sampling_rate, subtype="PCM_16")
            lines.append(f"{wav.relative_to(folder)}|{text}\n")
        file_list = Path(folder, path)
        file_list.parent.mkdir(parents=True, exist_ok=True)
        file_list.write_text("".join(lines), encoding="utf-8")


def _text(random: np.random.Generator, length: int) -> str:
    """Random letters, each as likely as another, and blanks, four times as likely as a letter."""
    return "".join(random.choice(list(LETTERS) + [" "] * 4, size=length))


def _speech(random: np.random.Generator, text: str, sampling_rate: int) -> NDArray[np.float64]:
    """From 200 Hz for an a, six letters an octave; a blank is silence."""
    samples = round(LETTER_SECONDS * sampling_rate)
    hertz = np.repeat([200 * 2 ** (LETTERS.find(letter) / 6) for letter in text], samples)
    spoken = np.repeat([letter in LETTERS for letter in text], samples)
    tones = np.sin(2 * np.pi * np.cumsum(hertz) / sampling_rate)
    return LOUDNESS * tones * spoken + random.normal(scale=NOISE, size=len(tones))
