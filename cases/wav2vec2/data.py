"""LibriSpeech: FLAC files, and a manifest for each split, which lists them with their lengths.

The first line of a manifest is the folder of its paths; each other line is a path and a number of audio samples, with a
tab between them.
"""

from __future__ import annotations

from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Generator, Tensor
from torch.utils.data import Dataset
from typing_extensions import override

from cases.wav2vec2.masking import Batch, Masking, numpy_seed
from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines


class Utterances(Dataset[Any]):
    """The utterances of a manifest.

    Args:
        manifest: path of the file.
        sample_rate: audio samples per second that the files must have.
        masking: hides frames of a batch.
        min_sample_size: shorter utterances are left out; audio samples.
    """

    def __init__(self, manifest: str, sample_rate: int, masking: Masking, min_sample_size: int = 0) -> None:
        self.manifest, self.sample_rate, self.masking = manifest, sample_rate, masking
        root, files = read_manifest(Path(manifest))
        kept = [(path, size) for path, size in files if size >= min_sample_size]
        if not kept:
            raise ConfigError(
                "no utterance in the manifest is long enough",
                where=manifest,
                key="min_sample_size",
                given=f"{len(files)} utterances of less than {min_sample_size} audio samples",
            )
        self.root = existing_root(Path(manifest), root, kept[0][0])
        self.paths = [path for path, _ in kept]
        self.sizes = torch.tensor([size for _, size in kept])

    def __len__(self) -> int:
        return len(self.paths)

    def source(self, index: int) -> str:
        """The file of a sample."""
        return self.paths[index]

    def read(self, index: int) -> Tensor:
        """The audio samples of one utterance, within [-1, 1]."""
        path = self.root / self.paths[index]
        try:
            audio, rate = soundfile.read(path, dtype="float32", always_2d=True)
        except (OSError, soundfile.LibsndfileError) as error:
            raise ConfigError("cannot read the audio file", where=str(path), key="data_dir", given=error) from None
        if rate != self.sample_rate:
            raise ConfigError(
                "the audio file has another sample rate",
                where=str(path),
                key="sample_rate",
                given=f"{rate} Hz",
                allowed=f"{self.sample_rate} Hz",
            )
        return torch.from_numpy(audio[:, 0] if audio.shape[1] == 1 else audio.mean(axis=1))


class TrainUtterances(Utterances):
    """Batches of utterances of about the same length, cut to the shortest one.

    Args:
        max_sample_size: audio samples of an utterance that count at most.
        max_tokens: audio samples of a group of utterances; a batch is several groups.
        size_multiple: a group of more utterances than this has a multiple of it.
    """

    def __init__(
        self,
        manifest: str,
        sample_rate: int,
        masking: Masking,
        min_sample_size: int,
        max_sample_size: int,
        max_tokens: int,
        size_multiple: int,
    ) -> None:
        super().__init__(manifest, sample_rate, masking, min_sample_size)
        self.max_sample_size, self.max_tokens, self.size_multiple = max_sample_size, max_tokens, size_multiple

    def __getitem__(self, index: int) -> Tensor:
        return self.read(index)

    def batches(self, batch_size: int, generator: Generator) -> list[list[int]]:
        """All batches of an epoch, each of `batch_size` groups that follow each other from long to short."""
        sizes = self.sizes.clamp(max=self.max_sample_size)
        order = torch.randperm(len(sizes), generator=generator)
        order = order[sizes[order].argsort(descending=True, stable=True)]
        groups = self.groups(order.tolist(), sizes[order].tolist())
        starts = range(0, len(groups) - batch_size + 1, batch_size)
        batches = [list(chain.from_iterable(groups[start : start + batch_size])) for start in starts]
        return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]

    def groups(self, order: list[int], sizes: list[int]) -> list[list[int]]:
        """Groups of utterances within `max_tokens`; the first of a group is its longest."""
        groups, start = [], 0
        while start < len(order):
            count = max(1, self.max_tokens // sizes[start])
            if count > self.size_multiple:
                count -= count % self.size_multiple
            groups.append(order[start : start + count])
            start += count
        return groups

    def collate_fn(self, utterances: list[Tensor]) -> Batch:
        """Random pieces of the utterances, as long as the shortest."""
        size = min(self.max_sample_size, *map(len, utterances))
        starts = [np.random.randint(0, len(utterance) - size + 1) for utterance in utterances]
        return self.masking.batch([utterance[start : start + size] for utterance, start in zip(utterances, starts)])


class EvalUtterances(Utterances):
    """Utterances from long to short, each with the same masks and negatives whenever it is evaluated.

    Args:
        eval_crop: an utterance is cut to a multiple of so many audio samples, so that many have the same length.
    """

    def __init__(self, manifest: str, sample_rate: int, masking: Masking, eval_crop: int) -> None:
        super().__init__(manifest, sample_rate, masking)
        self.eval_crop = eval_crop
        self.order = self.sizes.argsort(descending=True, stable=True).tolist()

    @override
    def source(self, index: int) -> str:
        return super().source(self.order[index])

    def __getitem__(self, index: int) -> Batch:
        audio = self.read(self.order[index])
        size = len(audio) - len(audio) % self.eval_crop or len(audio)
        with numpy_seed(index):
            return self.masking.batch([audio[:size]])

    def collate_fn(self, clips: list[Batch]) -> list[Batch]:
        """One batch for each length."""
        return [self.masking.join(list(same)) for _, same in groupby(clips, key=lambda clip: clip["audio"].shape[1])]


def read_manifest(manifest: Path) -> tuple[Path, list[tuple[str, int]]]:
    """The folder of the paths as the manifest has it, and each path with its number of audio samples."""
    root, *listed = [*lines(manifest)] or [""]
    files = []
    for number, line in enumerate(listed, 2):
        path, _, size = line.rpartition("\t")
        if not path or not size.isdecimal():
            raise ConfigError(
                "a line of the manifest cannot be read",
                where=f"{manifest}:{number}",
                given=repr(line),
                allowed="path, tab, number of audio samples",
            )
        files.append((path, int(size)))
    return Path(root), files


def existing_root(manifest: Path, root: Path, first: str) -> Path:
    """The folder of a manifest's paths: the one in its first line, or that of the manifest if the data was moved."""
    places = [manifest.parent / root, manifest.parent, manifest.parent / root.name]
    for folder in places:
        if (folder / first).is_file():
            return folder
    raise ConfigError(
        "the first audio file of the manifest is missing",
        where=str(manifest),
        key="data_dir",
        given=first,
        allowed=f"a file below {', '.join(map(str, dict.fromkeys(places)))}",
    )
