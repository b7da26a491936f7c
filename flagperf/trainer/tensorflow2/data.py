"""Data sets, and their batches by tf.data. Which sample is when on which rank is what all frameworks share."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.splits import check_disjoint
from flagperf.errors import ConfigError
from flagperf.trainer.data.batches import Numbered, eval_batches
from flagperf.trainer.data.datasets import check_classes, counts, print_other_data
from flagperf.trainer.data.numpy_batches import TrainBatches
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.ranks import Ranks

NODE = re.compile(r"\{\{.*?\}\}|\[Op:.*", re.DOTALL)  # of a message of TensorFlow: where in the graph it happened


class Dataset:
    """Base of the data sets. `read` is traced into the graph of the pipeline, which runs it in many threads.

    It is traced as it is written, without AutoGraph: tf.cond decides by a tensor, `if` does not.
    """

    def __len__(self) -> int:
        raise NotImplementedError

    def read(self, index: tf.Tensor, seed: tf.Tensor) -> Any:
        """The sample of an index; `seed`, [2], is of its own: all that is random must come from it, statelessly."""
        raise NotImplementedError

    def unreadable(self, index: int, reason: str) -> ConfigError:
        """What is said of a sample that `read` fails on; `reason`: what TensorFlow says."""
        return ConfigError("cannot read a sample of the data set", given=f"sample {index}: {reason}")


@dataclass(frozen=True)
class Data:
    """What this rank trains and evaluates on."""

    train_batches: TrainBatches
    train: Iterator[Any]  # without end
    eval: Reading | None
    counts: Mapping[str, int]  # what the data sets hold, by the names of contract/extent.py


def open_data(config: Mapping[str, Any], settings: Settings, ranks: Ranks, position: Position) -> Data:
    """Open the data sets; the pipeline of the training begins at a position.

    Raises:
        ConfigError: the training data is too small for one step, or the data sets do not fit each other.
    """
    if config["data_dir"] and ranks.local_rank == 0:
        check_disjoint(config, config["data_dir"])
    train, evaluated = component(config, "train_data"), component(config, "eval_data")
    check_classes(train, evaluated)
    batches = TrainBatches(train, settings.train_batch_size, settings.gradient_accumulation_steps, ranks, settings.seed)
    batches.start_at(position.epoch, position.step_in_epoch)
    evaluation = None
    if evaluated is not None and settings.evaluates:
        share = eval_batches(len(evaluated), settings.eval_batch_size, ranks)
        evaluation = Reading(evaluated, share, settings.eval_batch_size, settings)
    training = Reading(train, batches, settings.train_batch_size, settings, full=True)
    return Data(batches, iter(training), evaluation, counts(train, evaluated))


class Reading:
    """These batches of a data set, in their order, read ahead by threads. A sample that cannot be read is named.

    Args:
        size: samples of a batch; only the last may have fewer.
        full: none has fewer.
    """

    def __init__(
        self, dataset: Dataset, batches: Iterable[Numbered], size: int, settings: Settings, *, full: bool = False
    ) -> None:
        self.dataset, self.batches = dataset, batches
        self.ahead: deque[Numbered] = deque()  # batches that are being read
        self.pipeline = pipeline(dataset, self.taken, size, settings, full)

    def taken(self) -> Iterator[Numbered]:
        """The batches, as the pipeline takes them."""
        self.ahead.clear()
        for batch in self.batches:
            self.ahead.append(batch)
            yield batch

    def __iter__(self) -> Iterator[Any]:
        return self.read(iter(self.pipeline))

    def read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """What the pipeline gives."""
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except tf.errors.OpError:
                if self.ahead:
                    check_readable(self.dataset, *self.ahead[0])
                raise
            self.ahead.popleft()
            yield batch


def check_readable(dataset: Dataset, seed: int, indices: Sequence[int]) -> None:
    """Read the samples of a batch, one after the other.

    Raises:
        ConfigError: the first one that cannot be read.
    """
    for place, index in enumerate(indices):
        try:
            dataset.read(tf.constant(index, tf.int64), tf.constant([seed, place], tf.int64))
        except tf.errors.OpError as error:
            raise dataset.unreadable(index, NODE.sub("", error.message).strip()) from None


def pipeline(
    dataset: Dataset, batches: Callable[[], Iterator[Numbered]], size: int, settings: Settings, full: bool
) -> tf.data.Dataset:
    """Batches of a data set, read by `num_workers` threads.

    They are this rank's already, so tf.data must not shard them again. Each sample has a seed of its batch and place.
    """
    signature = (tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64))
    numbered = tf.data.Dataset.from_generator(batches, output_signature=signature)

    def samples(seed: tf.Tensor, indices: tf.Tensor) -> tf.data.Dataset:
        places = tf.range(tf.size(indices, tf.int64), dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices((indices, tf.stack([tf.fill(tf.shape(places), seed), places], 1)))

    as_written = tf.autograph.experimental.do_not_convert  # else TensorFlow writes and imports code of its own
    read = numbered.flat_map(as_written(samples)).map(as_written(dataset.read), settings.num_workers or None)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.deterministic = True
    options.threading.private_threadpool_size = max(1, settings.num_workers)
    return read.batch(size, drop_remainder=full).prefetch(2).with_options(options)


def read_first_samples(config: Mapping[str, Any]) -> None:
    """Open the data sets as a training does, read the first sample of each, and print how many there are.

    A last line says where that is not the data of the case.
    """
    datasets = {key: component(config, key) for key in ("train_data", "eval_data")}
    for key, dataset in datasets.items():
        if dataset is not None:
            check_readable(dataset, 0, [0])
            print(f"{len(dataset):>12,}  samples of {key}; the first one can be read")
    print_other_data(config, datasets["train_data"], datasets["eval_data"])
