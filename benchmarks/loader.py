"""What one core of a host loads: the training data of cases at full size, against a plain loop over the same files.

    python benchmarks/loader.py [SECONDS [CASE …]]

A pipeline is the case's data set, read by the trainer's loader with one process: decoding, augmentation, masks,
spectrograms, batches, and their way to the training process. The plain loop does what its name says, file by file.
Both are measured in CPU time of the process that does it, so that a busy machine tells the same. One JSON line each;
`ratio` is pipeline over plain loop.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import soundfile
import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision.datasets import CocoDetection, ImageFolder, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.loading import Loader
from flagperf.trainer.pytorch.ranks import World

Config = dict[str, Any]

WARMUP = 4  # batches: the process of the loader imports what it needs with the first
FLIP = v2.RandomHorizontalFlip()


@dataclass(frozen=True)
class Pipeline:
    """A case, its files, and the plain loop that it is compared with."""

    case: str
    files: str
    write: Callable[[Config, Path], None]
    baseline: str
    plain: Callable[[Config], Any]  # a sequence whose items are the samples
    overrides: tuple[str, ...] = ()  # beside those of every pipeline


def write_photos(config: Config, folder: Path) -> None:
    """128 JPEG files of 500 x 375 pixels, as detailed as photos: colours that change slowly, and noise."""
    random = np.random.default_rng(0)
    for number in range(128):
        slow = Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize((500, 375))
        pixels = np.asarray(slow) + random.normal(0, 10, (375, 500, 3))
        path = folder / config["train_path"] / f"class{number % 2}" / f"{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def write_sample(config: Config, folder: Path) -> None:
    """The case's own sample data."""
    component(config["data"], "sample", str(folder))


def photos(config: Config) -> ImageFolder:
    return ImageFolder(
        config["train_data"]["root"], v2.Compose([v2.RandomResizedCrop(config["image_size"]), FLIP, v2.PILToTensor()])
    )


def coco(config: Config) -> Dataset[Any]:
    data = config["train_data"]
    keys = ["boxes", "labels", *(["masks"] if data["masks"] else [])]
    with redirect_stdout(io.StringIO()):  # pycocotools tells what it does
        plain = CocoDetection(data["images"], data["annotations"], transforms=v2.Compose([v2.PILToTensor(), FLIP]))
    return wrap_dataset_for_transforms_v2(plain, target_keys=keys)


class Audio:
    """The samples of audio files."""

    def __init__(self, folder: str, suffix: str) -> None:
        self.paths = sorted(Path(folder).rglob(f"*{suffix}"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return soundfile.read(self.paths[index], dtype="float32")


def speech(config: Config) -> Audio:
    return Audio(str(Path(config["data_dir"], Path(config["train_path"]).stem)), ".flac")


def clips(config: Config) -> Audio:
    return Audio(config["data_dir"], ".wav")


SHAPES = ("sample_images.train=96", "sample_images.eval=1", "sample_size=640")
PIPELINES = (
    Pipeline("resnet50", "JPEG of 500 x 375", write_photos, "PIL and v2", photos),
    Pipeline("faster_rcnn", "JPEG of 640 x 480 and 640 x 640", write_sample, "CocoDetection and v2", coco, SHAPES),
    Pipeline("mask_rcnn", "JPEG of 640 x 480 and 640 x 640", write_sample, "CocoDetection and v2", coco, SHAPES),
    Pipeline(
        "wav2vec2",
        "FLAC of 8 to 16 s, 16 kHz",
        write_sample,
        "soundfile.read",
        speech,
        ("sample_utterances.train=128", "sample_utterances.eval=1"),
    ),
    Pipeline(
        "tacotron2",
        "WAV of 2 to 10 s, 22 kHz",
        write_sample,
        "soundfile.read",
        clips,
        ("sample_clips.train=256", "sample_clips.eval=1"),
    ),
    Pipeline(
        "waveglow",
        "WAV of 2 to 10 s, 22 kHz",
        write_sample,
        "soundfile.read",
        clips,
        ("sample_clips.train=256", "sample_clips.eval=1", "sample_text_length=[30,150]"),
    ),
)


def loaded(config: Config, seconds: float) -> tuple[float, float]:
    """Batches and samples per second of CPU time in one process of the loader, over whole epochs."""
    data = component(config, "train_data")
    batches = TrainBatches(data, config["train_batch_size"], 1, World(), seed=0)
    epoch = batches.steps(1)
    stream = iter(Loader(data, batches, 1, torch.device("cpu")))
    (process,) = psutil.Process().children()
    for _ in range(WARMUP):
        next(stream)
    used, epochs = 0.0, 0
    began = cpu_time(process)
    while used < seconds:
        for _ in epoch:
            next(stream)
        used, epochs = cpu_time(process) - began, epochs + 1
    return epochs * len(epoch) / used, epochs * sum(epoch) / used


def cpu_time(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def plainly(samples: Any, seconds: float) -> float:
    """Samples per second of CPU time in this process, over whole passes."""
    samples[0]
    began, done = time.process_time(), 0
    while time.process_time() - began < seconds:
        for index in range(len(samples)):
            samples[index]
        done += len(samples)
    return done / (time.process_time() - began)


def measure(pipeline: Pipeline, seconds: float) -> dict[str, Any]:
    """The figures of one line."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = [f"model={pipeline.case}", "size=full", "division=open", f"data_dir={folder}", *pipeline.overrides]
        config = dict(compose(overrides).config)
        pipeline.write(config, Path(folder))
        batches, samples = loaded(config, seconds)
        plain = plainly(pipeline.plain(config), seconds)
    return {
        "case": pipeline.case,
        "files": pipeline.files,
        "train_batch_size": config["train_batch_size"],
        "batches_per_core_second": round(batches, 2),
        "samples_per_core_second": round(samples, 1),
        "baseline": pipeline.baseline,
        "baseline_samples_per_core_second": round(plain, 1),
        "ratio": round(samples / plain, 3),
    }


def main(seconds: float, cases: list[str]) -> None:
    torch.set_num_threads(1)
    for pipeline in PIPELINES:
        if not cases or pipeline.case in cases:
            print(json.dumps(measure(pipeline, seconds)), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0, sys.argv[2:])
