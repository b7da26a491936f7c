"""LJ Speech: a wav file for each sentence, named together with its text by the file lists of the original recipe.

A line of a file list is `LJSpeech-1.1/wavs/LJ001-0001.wav|text`, the path counted from the data folder. The text is
the normalised one: numbers are spelled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Tuple

import soundfile
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from cases.speech_synthesis.text import symbols
from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines

Sentence = Tuple[Tensor, Tensor]  # symbols [symbols], log-mel spectrogram [mels, frames]
Segment = Tuple[Tensor, Tensor]  # log-mel spectrogram [mels, frames], audio [samples]

FLOOR = 1e-5  # least value of a mel spectrogram; smaller values are noise


class Clips:
    """The clips of one file list, in its order.

    Args:
        root: the data folder.
        file_list: path of the list.
        spectrogram: torchaudio's MelSpectrogram; its sample rate must be that of the files.
    """

    def __init__(self, root: str, file_list: str, spectrogram: Any) -> None:
        self.spectrogram = spectrogram
        self.paths: list[Path] = []
        self.texts: list[str] = []
        for number, line in enumerate(lines(file_list), 1):
            path, found, text = line.partition("|")
            if found:
                self.paths.append(Path(root, path))
                self.texts.append(text)
            elif line:
                raise _no_list(f"{file_list}:{number}", line)
        if not self.paths:
            raise _no_list(file_list, "no lines")

    def __len__(self) -> int:
        return len(self.paths)

    def source(self, index: int) -> str:
        """The file of a clip."""
        return str(self.paths[index])

    def open(self, index: int) -> soundfile.SoundFile:
        """The file of one clip, at its beginning."""
        path = self.paths[index]
        try:
            file = soundfile.SoundFile(path)
        except soundfile.LibsndfileError as error:
            raise ConfigError(
                "cannot read a clip of the data set",
                where=str(path),
                key="data_dir",
                given=error.error_string if path.is_file() else "no such file",
                advice="unpack the archive of the data set again",
            ) from None
        if (file.samplerate, file.channels) != (self.spectrogram.sample_rate, 1):
            raise ConfigError(
                "a clip of another kind",
                where=str(path),
                key="data_dir",
                given=f"{file.samplerate} Hz, {file.channels} channels",
                allowed=f"{self.spectrogram.sample_rate} Hz, 1 channel",
            )
        return file

    def log_mel(self, audio: Tensor) -> Tensor:
        """Logarithm of the mel spectrogram, [mels, frames]."""
        mel: Tensor = self.spectrogram(audio)
        return mel.clamp(min=FLOOR).log()


class Sentences(Clips, Dataset[Sentence]):
    """Texts with the spectrograms of whole clips, to train Tacotron 2."""

    def __getitem__(self, index: int) -> Sentence:
        with self.open(index) as file:
            audio = torch.from_numpy(file.read(dtype="float32"))
        return torch.tensor(symbols(self.texts[index])), self.log_mel(audio)

    def collate_fn(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Symbols [n, longest], how many, spectrograms [n, mels, longest], how many frames.

        Longest texts first, as cuDNN requires; padded with zeros.
        """
        ordered = sorted(sentences, key=lambda sentence: len(sentence[0]), reverse=True)
        texts, mels = zip(*ordered)
        return (
            pad_sequence(texts, batch_first=True),
            torch.tensor([len(text) for text in texts]),
            pad_sequence([mel.T for mel in mels], batch_first=True).mT.contiguous(),
            torch.tensor([mel.shape[1] for mel in mels]),
        )


class EvalSentences(Sentences):
    """The same, each padded to the longest of the whole list.

    The network sees the padding next to the end of a sentence, and the loss counts it. So a sentence's loss would
    depend on the others in its batch; this way it does not, and equals that of all sentences in one batch.
    """

    def __init__(self, root: str, file_list: str, spectrogram: Any) -> None:
        super().__init__(root, file_list, spectrogram)
        self.most_symbols = max(len(symbols(text)) for text in self.texts)
        self.most_frames = max(self._frames(index) for index in range(len(self)))

    def _frames(self, index: int) -> int:
        with self.open(index) as file:
            return int(file.frames) // int(self.spectrogram.hop_length) + 1

    def collate_fn(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A batch, padded to the longest text and the longest spectrogram of all sentences."""
        texts, text_lengths, mels, mel_lengths = super().collate_fn(sentences)
        texts = pad(texts, (0, self.most_symbols - texts.shape[-1]))
        return texts, text_lengths, pad(mels, (0, self.most_frames - mels.shape[-1])), mel_lengths


class Segments(Clips, Dataset[Segment]):
    """A segment of each clip with its spectrogram, for WaveGlow.

    Args:
        segment_length: audio samples; shorter clips are filled up with silence.
        fixed: the same segments each time, so that evaluations compare, not random ones.
    """

    def __init__(self, root: str, file_list: str, spectrogram: Any, segment_length: int, fixed: bool) -> None:
        super().__init__(root, file_list, spectrogram)
        self.segment_length, self.fixed = segment_length, fixed

    def __getitem__(self, index: int) -> Segment:
        generator = torch.Generator().manual_seed(index) if self.fixed else None
        with self.open(index) as file:
            last = max(0, file.frames - self.segment_length)
            file.seek(int(torch.randint(last + 1, (), generator=generator)))
            audio = torch.from_numpy(file.read(self.segment_length, dtype="float32", fill_value=0))
        return self.log_mel(audio), audio


def _no_list(where: str, given: str) -> ConfigError:
    allowed = "<path of a wav file below data_dir>|<text> in each line"
    return ConfigError("this is no list of clips", where=where, key="data_dir", given=given, allowed=allowed)
