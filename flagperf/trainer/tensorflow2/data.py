"""Data sets, and their batches by tf.data. All frameworks share the order of the samples."""

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

NODE = re.compile(r"\{\{.*?\}\}|\[Op:.*", re.DOTALL)  # in a message of TensorFlow: the node of the graph


class Dataset:
    """Base of the data sets. `read` is traced into the graph of the pipeline, which runs it in many threads.

    The trace works without AutoGraph: a decision by a tensor needs tf.cond, not `if`.
    """

    def __len__(self) -> int:
        raise NotImplementedError

    def read(self, index: tf.Tensor, seed: tf.Tensor) -> Any:
        """The sample of an index. All random numbers come from its `seed`, [2], by stateless operations."""
        raise NotImplementedError

    def unreadable(self, index: int, reason: str) -> ConfigError:
        """The error for a sample that `read` fails on. `reason`: TensorFlow's message."""
        return ConfigError("cannot read a sample of the data set", given=f"sample {index}: {reason}")


def load(opened: Opened, settings: Settings) -> Loaded:
    """Make the pipelines. The pipeline of the evaluation starts again for each evaluation."""
    training = BatchReader(opened.train, opened.batches, settings.train_batch_size, settings, full=True)
    if opened.eval_batches is None:
        return Loaded(iter(training), lambda: iter(()))
    evaluation = BatchReader(opened.evaluation, opened.eval_batches, settings.eval_batch_size, settings)
    return Loaded(iter(training), lambda: iter(evaluation))


class BatchReader:
    """Batches of a data set in a given order, read ahead by threads. The error of an unreadable sample has its index.

    Args:
        size: samples of a batch; only the last batch may have fewer.
        full: no batch has fewer.
    """

    def __init__(
        self, dataset: Dataset, batches: Iterable[Numbered], size: int, settings: Settings, *, full: bool = False
    ) -> None:
        self.dataset, self.batches = dataset, batches
        self.ahead: deque[Numbered] = deque()  # batches that the pipeline has taken and not returned
        self.pipeline = _pipeline(dataset, self._take, size, settings, full)

    def _take(self) -> Iterator[Numbered]:
        """The batches, as the pipeline takes them."""
        self.ahead.clear()
        for batch in self.batches:
            self.ahead.append(batch)
            yield batch

    def __iter__(self) -> Iterator[Any]:
        return self._read(iter(self.pipeline))

    def _read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches that the pipeline returns. Raises ConfigError for an unreadable sample."""
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
        ConfigError: for the first unreadable sample.
    """
    for position, index in enumerate(indices):
        try:
            dataset.read(tf.constant(index, tf.int64), tf.constant([seed, position], tf.int64))
        except tf.errors.OpError as error:
            raise dataset.unreadable(index, NODE.sub("", error.message).strip()) from None


def _pipeline(
    dataset: Dataset, batches: Callable[[], Iterator[Numbered]], size: int, settings: Settings, full: bool
) -> tf.data.Dataset:
    """Batches of a data set, read by `num_workers` threads.

    The batches are those of this rank, so tf.data must not shard them again. The seed of a sample is the seed of its
    batch and its position there.
    """
    signature = (tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64))
    numbered = tf.data.Dataset.from_generator(batches, output_signature=signature)

    def samples(seed: tf.Tensor, indices: tf.Tensor) -> tf.data.Dataset:
        positions = tf.range(tf.size(indices, tf.int64), dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices(
            (indices, tf.stack([tf.fill(tf.shape(positions), seed), positions], 1))
        )

    unconverted = tf.autograph.experimental.do_not_convert  # else TensorFlow generates and imports code
    read = numbered.flat_map(unconverted(samples)).map(unconverted(dataset.read), settings.num_workers or None)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.deterministic = True
    options.threading.private_threadpool_size = max(1, settings.num_workers)
    return read.batch(size, drop_remainder=full).prefetch(2).with_options(options)
