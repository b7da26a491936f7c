"""Data sets, and their batches by tf.data. Which sample is when on which rank is what all frameworks share."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.data.batches import Numbered
from flagperf.trainer.data.datasets import Loaded, Opened

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


def load(opened: Opened, settings: Settings) -> Loaded:
    """Make the pipelines; that of an evaluation begins anew each time."""
    training = Reading(opened.train, opened.batches, settings.train_batch_size, settings, full=True)
    if opened.eval_batches is None:
        return Loaded(iter(training), lambda: iter(()))
    evaluation = Reading(opened.evaluated, opened.eval_batches, settings.eval_batch_size, settings)
    return Loaded(iter(training), lambda: iter(evaluation))


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
