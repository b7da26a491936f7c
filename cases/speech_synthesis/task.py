"""Losses of Tacotron 2 and WaveGlow. The validation loss is the mean over all clips, each of the same weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Tuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss
from typing_extensions import override

from flagperf.trainer.pytorch.by_version import keep_nan
from flagperf.trainer.pytorch.task import Task

Batch = Tuple[Tensor, ...]  # tensors of the case's data set, in the order of the network's arguments


class SpeechSynthesis(Task):
    """The common part of both cases. They differ in the loss of a clip and in the unit of the throughput."""

    metrics = ("val_loss",)

    def clip_losses(self, network: nn.Module, batch: Batch) -> Tensor:
        """Loss of each clip, [n]."""
        raise NotImplementedError

    @override
    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        return self.clip_losses(network, batch).mean()

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch[0])

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`val_loss`: the mean over the clips of all ranks."""
        from torchmetrics import MeanMetric  # takes seconds, for which the first step need not wait

        mean = MeanMetric(nan_strategy=keep_nan(), process_group=self.group).to(device)
        for batch in batches:
            mean.update(self.clip_losses(network, batch))
        return {"val_loss": round(float(mean.compute()), 6)}  # the digits of float32


class TextToMel(SpeechSynthesis):
    """Tacotron 2: squared error of the spectrogram before and after the post-net, cross-entropy of "it ends here".

    Args:
        mask_padding: leave out the network's output beyond the end of a clip; the mean is still over all frames of
            the padded batch. (The network's own mask_padding changes its output in place, which backward refuses.)
    """

    values_decide = True  # the lengths of clips, by which an LSTM packs them
    operations_within = 0.05  # its LSTM is counted or not: that depends on the kernel which computes it
    full_length = 861  # mel frames of ten seconds, the longest clips of LJ Speech

    def __init__(self, mask_padding: bool) -> None:
        self.mask_padding = mask_padding

    def example(self, config: Mapping[str, Any]) -> Batch:
        """A short clip: 50 letters that are spoken in 100 mel frames. Each frame costs the same."""
        letters, frames = 50, 100
        mel = torch.zeros(1, config["n_mel_channels"], frames)
        return torch.zeros(1, letters, dtype=torch.long), torch.tensor([letters]), mel, torch.tensor([frames])

    @override
    def full_batch(self, config: Mapping[str, Any], samples: int) -> Batch:
        """Clips of full length."""
        return self.batch_of_length(config, samples, self.full_length)

    @override
    def batch_of_length(self, config: Mapping[str, Any], samples: int, length: int) -> Batch:
        """Clips of so many mel frames, with the 150 letters of the longest clips."""
        letters = 150
        mel = torch.zeros(samples, config["n_mel_channels"], length)
        sizes = (torch.full((samples,), size) for size in (letters, length))
        return torch.zeros(samples, letters, dtype=torch.long), next(sizes), mel, next(sizes)

    @override
    def clip_losses(self, network: nn.Module, batch: Batch) -> Tensor:
        _, _, mel, lengths = batch
        before, after, gate, _ = network(*batch)
        frames = torch.arange(mel.shape[-1], device=mel.device)
        ended = (frames >= lengths[:, None] - 1).float()
        errors = [mse_loss(output.float(), mel, reduction="none").mean(dim=1) for output in (before, after)]
        losses = sum(errors, binary_cross_entropy_with_logits(gate.float(), ended, reduction="none"))
        if self.mask_padding:
            losses = losses * (frames < lengths[:, None])
        return losses.mean(dim=1)

    def weight(self, batch: Batch) -> Tensor:
        """Mel frames, with padding."""
        mel = batch[2]
        return torch.full((), float(mel.shape[0] * mel.shape[-1]), device=mel.device)

    def units(self, batch: Batch) -> int:
        """Mel frames, without padding."""
        return int(batch[3].sum())


class MelToAudio(SpeechSynthesis):
    """WaveGlow: negative log-likelihood of the audio per sample, less the constant log(2 pi) / 2."""

    @override
    def example(self, config: Mapping[str, Any]) -> Batch:
        samples = config["segment_length"]
        return torch.zeros(1, config["n_mel_channels"], samples // config["hop_length"] + 1), torch.zeros(1, samples)

    @override
    def clip_losses(self, network: nn.Module, batch: Batch) -> Tensor:
        mel, audio = batch
        noise, stretch = network(mel, audio)
        return (noise.float().square().sum(dim=(1, 2)) / 2 - stretch) / audio.shape[1]

    def units(self, batch: Batch) -> int:
        """Audio samples."""
        return batch[1].numel()
