"""The baseline: resnet50 (tiny) on TensorFlow 2 as somebody would write it by hand, with the network of the case.

    python benchmarks/bare/resnet50_tensorflow2.py DATA_DIR BATCH_SIZE STEPS WARMUP_STEPS

Starts itself once for each of two ranks. Prints one JSON line: wall clock at the end of the first step, images per
second of the whole job after the warm-up steps, and the resident memory of rank 0 at the peak.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

WORLD = 2
SIDE, CLASSES = 32, 10
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LR, L2 = 0.01, 1e-4


def main(data_dir: str, batch_size: int, steps: int, warmup_steps: int) -> None:
    import keras
    import tensorflow as tf

    from cases.image_classification.tensorflow2.network import resnet

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = strategy.cluster_resolver.task_id
    keras.utils.set_random_seed(0)
    with strategy.scope():
        network = resnet([1, 1, 1, 1], CLASSES, SIDE, width_per_group=32)
        optimizer = keras.optimizers.SGD(LR, momentum=0.9)
        optimizer.build(network.trainable_variables)

    classes = sorted(path.name for path in Path(data_dir, "train").iterdir())
    files = [(str(path), classes.index(path.parent.name)) for path in sorted(Path(data_dir, "train").glob("*/*"))]
    paths, labels = (list(column) for column in zip(*files, strict=True))

    def read(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
        image.set_shape([None, None, 3])
        begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.shape(image),
            tf.zeros([1, 0, 4]),
            tf.random.uniform([2], maxval=2**30, dtype=tf.int32, seed=0),
            min_object_covered=0.0,
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.6, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.image.resize(tf.slice(image, begin, size), [SIDE, SIDE], antialias=True), label

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.threading.private_threadpool_size = 1
    numbered = tf.data.Dataset.from_tensor_slices((paths, labels)).repeat().shuffle(len(paths), seed=0)
    rank_data = numbered.shard(WORLD, rank).map(read, 1).batch(batch_size, drop_remainder=True)
    batches = iter(rank_data.prefetch(2).with_options(options))

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            scores = network((images / 255 - MEAN) / STD, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            weights = [weight for weight in network.trainable_weights if weight.name in ("kernel", "bias")]
            penalty = L2 * tf.add_n([2 * tf.nn.l2_loss(tf.convert_to_tensor(weight)) for weight in weights])
            loss = tf.reduce_mean(losses) + penalty
            scaled = loss / WORLD  # Keras's optimizer sums the gradients over the ranks
        optimizer.apply(tape.gradient(scaled, network.trainable_variables), network.trainable_variables)
        return loss

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return strategy.run(replica_step, args=(images, labels))

    first_step, started = 0.0, 0.0
    for step in range(1, steps + 1):
        loss = train_step(*next(batches))
        if step % 10 == 0 and rank == 0:
            print(step, float(loss), flush=True)
        if step == 1:
            float(loss)
            first_step = time.time()
        if step == warmup_steps:
            started = time.perf_counter()
    float(loss)
    seconds = time.perf_counter() - started
    if rank == 0:
        rate = (steps - warmup_steps) * batch_size * WORLD / seconds
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"first_step": first_step, "units_per_second": rate, "memory_gib": memory}), flush=True)


def start() -> None:
    """Start this script once for each rank, as TensorFlow's own guide does."""
    workers = [f"127.0.0.1:{29521 + rank}" for rank in range(WORLD)]
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env={
                **os.environ,
                "TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}),
                "TF_NUM_INTRAOP_THREADS": str(max(1, (os.cpu_count() or 1) // WORLD)),
                "TF_CPP_MIN_LOG_LEVEL": "2",
            },
        )
        for rank in range(WORLD)
    ]
    sys.exit(max(process.wait() for process in ranks))


if __name__ == "__main__":
    if "TF_CONFIG" not in os.environ:
        start()
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
