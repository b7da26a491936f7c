"""Clips of LJ Speech's layout: spectrograms, segments and padding by value, and what is said of files that are bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray
from torchaudio.functional import melscale_fbanks
from torchaudio.transforms import MelSpectrogram

from cases.speech_synthesis.data import EvalSentences, Segments, Sentences
from cases.speech_synthesis.text import symbols
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.errors import ConfigError

RATE = 22050
TEXTS = {"LJ001-0001": "abc", "LJ001-0002": "a longer text", "LJ001-0003": "ab"}
LENGTHS = {"LJ001-0001": 3000, "LJ001-0002": 9000, "LJ001-0003": 1600}  # audio samples


@pytest.fixture(scope="module")
def spectrogram() -> MelSpectrogram:
    """As the full-size cases have it."""
    return component(compose(["model=waveglow", "size=full", "data_dir=/data"]).config, "spectrogram")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three clips whose samples count up, so that each tells its place."""
    wavs = tmp_path / "LJSpeech-1.1" / "wavs"
    wavs.mkdir(parents=True)
    for name, length in LENGTHS.items():
        soundfile.write(wavs / f"{name}.wav", np.arange(length, dtype=np.int16), RATE)
    lines = [f"LJSpeech-1.1/wavs/{name}.wav|{text}" for name, text in TEXTS.items()]
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def arguments(folder: Path, spectrogram: Any) -> dict[str, Any]:
    return {"root": str(folder), "file_list": str(folder / "list.txt"), "spectrogram": spectrogram}


def log_mel(audio: NDArray[np.float64]) -> NDArray[np.float64]:
    """As the paper describes it: frames of 1024 samples 256 apart, Hann window, 80 mel bands up to 8000 Hz."""
    padded = np.pad(audio, 512, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 1024)[::256]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    amplitudes = np.abs(np.fft.rfft(frames * window))
    bands = melscale_fbanks(513, 0.0, 8000.0, 80, RATE, norm="slaney", mel_scale="slaney").double().numpy()
    return np.log(np.maximum(amplitudes @ bands, 1e-5)).T


def test_spectrogram(folder: Path, spectrogram: MelSpectrogram) -> None:
    text, mel = Sentences(**arguments(folder, spectrogram))[1]
    assert text.tolist() == symbols("a longer text")
    assert mel.shape == (80, 36)
    np.testing.assert_allclose(mel, log_mel(np.arange(9000) / 32768), rtol=0, atol=0.01)


def test_sentences_are_sorted_and_padded(folder: Path, spectrogram: MelSpectrogram) -> None:
    data = Sentences(**arguments(folder, spectrogram))
    texts, text_lengths, mels, mel_lengths = data.collate_fn([data[0], data[1], data[2]])
    assert text_lengths.tolist() == [13, 3, 2]
    assert texts[1:].tolist() == [[38, 39, 40, *[0] * 10], [38, 39, *[0] * 11]]
    assert (mels.shape, mel_lengths.tolist()) == ((3, 80, 36), [36, 12, 7])
    assert torch.equal(mels[1, :, :12], data[0][1])
    assert not mels[1, :, 12:].any()


def test_evaluated_sentences_are_padded_alike(folder: Path, spectrogram: MelSpectrogram) -> None:
    data = EvalSentences(**arguments(folder, spectrogram))
    texts, text_lengths, mels, mel_lengths = data.collate_fn([data[2]])
    assert (texts.shape, text_lengths.tolist()) == ((1, 13), [2])
    assert (mels.shape, mel_lengths.tolist()) == ((1, 80, 36), [7])
    assert not texts[:, 2:].any()
    assert not mels[:, :, 7:].any()


def test_segments(folder: Path, spectrogram: MelSpectrogram) -> None:
    """Random ones of the whole clip, each with its own spectrogram."""
    data = Segments(**arguments(folder, spectrogram), segment_length=2000, fixed=False)
    torch.manual_seed(0)
    starts = []
    for _ in range(200):
        _, audio = data[1]
        starts.append(round(audio[0].item() * 32768))
        assert torch.equal(audio * 32768, torch.arange(starts[-1], starts[-1] + 2000))
    assert 0 <= min(starts) < 500 < 6500 < max(starts) <= 7000
    mel, audio = data[1]
    np.testing.assert_allclose(mel, log_mel(audio.double().numpy()), rtol=0, atol=0.01)


def test_fixed_segments(folder: Path, spectrogram: MelSpectrogram) -> None:
    data = Segments(**arguments(folder, spectrogram), segment_length=2000, fixed=True)
    first, again = [[data[index][1] for index in range(3)] for _ in range(2)]
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert first[0][0] != first[1][0]
    assert torch.equal(first[2] * 32768, torch.cat([torch.arange(1600), torch.zeros(400)]))


def test_no_list(folder: Path, spectrogram: MelSpectrogram) -> None:
    (folder / "list.txt").unlink()
    with pytest.raises(ConfigError) as caught:
        Sentences(**arguments(folder, spectrogram))
    assert str(caught.value).startswith("no such file in the data set")


@pytest.mark.parametrize(
    ("content", "given"),
    [
        pytest.param("", "no lines", id="empty"),
        pytest.param("a.wav|one\nb.wav\n", "b.wav", id="no text"),
    ],
)
def test_not_a_list(folder: Path, spectrogram: MelSpectrogram, content: str, given: str) -> None:
    (folder / "list.txt").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        Sentences(**arguments(folder, spectrogram))
    assert (caught.value.problem, caught.value.given) == ("this is no list of clips", given)


def test_bad_clips(folder: Path, spectrogram: MelSpectrogram) -> None:
    data = Segments(**arguments(folder, spectrogram), segment_length=2000, fixed=True)
    data.paths[0].write_bytes(b"RIFF and nothing more")
    soundfile.write(data.paths[1], np.zeros((8000, 2)), 16000)
    data.paths[2].unlink()
    problems = []
    for index in range(3):
        with pytest.raises(ConfigError) as caught:
            data[index]
        problems.append((caught.value.problem, caught.value.given))
    assert problems == [
        ("cannot read a clip of the data set", "Format not recognised."),
        ("a clip of another kind", "16000 Hz, 2 channels"),
        ("cannot read a clip of the data set", "no such file"),
    ]
