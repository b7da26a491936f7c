"""Which frames of audio are hidden, and which other frames distract from the true ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Dict

import numpy as np
import torch
from torch import Tensor

Batch = Dict[str, Tensor]  # audio [clips, samples], masked [masked frames], negatives [masked frames, negatives]


class Masking:
    """Makes batches of clips of equal length; random numbers are NumPy's.

    Args:
        mask_prob: share of the frames that masks would hide if they did not overlap.
        mask_length: frames of a mask.
        num_negatives: distractors of a masked frame, drawn from the other masked frames of its clip.
        conv_kernel, conv_stride: sizes of the network's convolutions, which turn audio samples into frames.
    """

    def __init__(
        self,
        mask_prob: float,
        mask_length: int,
        num_negatives: int,
        conv_kernel: Sequence[int],
        conv_stride: Sequence[int],
    ) -> None:
        self.mask_prob, self.mask_length, self.num_negatives = mask_prob, mask_length, num_negatives
        self.convolutions = list(zip(conv_kernel, conv_stride))

    def frames(self, samples: int) -> int:
        """The number of frames that the network makes from a number of audio samples."""
        for kernel, stride in self.convolutions:
            samples = (samples - kernel) // stride + 1
        return samples

    def batch(self, clips: Sequence[Tensor]) -> Batch:
        """Clips of equal length, their hidden frames `masked`, numbered through all clips, and `negatives`.

        `negatives` are places in `masked`.
        """
        from transformers.models.wav2vec2.modeling_wav2vec2 import _compute_mask_indices, _sample_negative_indices

        shape = len(clips), self.frames(len(clips[0]))
        mask = _compute_mask_indices(shape, self.mask_prob, self.mask_length, min_masks=2)
        negatives = _sample_negative_indices(shape, self.num_negatives, mask)[mask]
        position = mask.cumsum() - 1  # of each masked frame in `masked`
        return {
            "audio": torch.stack(list(clips)),
            "masked": torch.from_numpy(mask.ravel().nonzero()[0]),
            "negatives": torch.from_numpy(position[negatives]),
        }

    def join(self, batches: Sequence[Batch]) -> Batch:
        """One batch of several, whose clips are of equal length."""
        audio = torch.cat([batch["audio"] for batch in batches])
        frames = self.frames(audio.shape[1])
        clips = accumulate((len(batch["audio"]) for batch in batches), initial=0)
        places = accumulate((len(batch["masked"]) for batch in batches), initial=0)
        return {
            "audio": audio,
            "masked": torch.cat([batch["masked"] + clip * frames for batch, clip in zip(batches, clips)]),
            "negatives": torch.cat([batch["negatives"] + position for batch, position in zip(batches, places)]),
        }


@contextmanager
def numpy_seed(seed: int) -> Iterator[None]:
    """NumPy's random numbers begin at the seed inside the block, and go on after it as if it had not been."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)
