"""Opens the data sets of a training, counts their samples, and checks that they fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle, islice
from typing import Any, Callable, NamedTuple

from flagperf.contract.components import component
from flagperf.contract.extent import NOT_THE_CASE, other_data
from flagperf.contract.sample_data import is_sample_data
from flagperf.contract.settings import Settings
from flagperf.contract.splits import check_disjoint
from flagperf.errors import ConfigError
from flagperf.trainer.data.batches import EndlessBatches, Numbered, eval_batches
from flagperf.trainer.ranks import Ranks


class Opened(NamedTuple):
    """The data sets of a training, and this rank's batches of them."""

    train: Any
    evaluation: Any  # None: there is none
    batches: EndlessBatches  # of the training
    eval_batches: list[Numbered] | None  # None: nothing is evaluated
    counts: Mapping[str, int]  # of the data sets, by the names of contract/extent.py


class Loaded(NamedTuple):
    """The batches of a training on their way to the device."""

    train: Iterator[Any]  # without end
    evaluation: Callable[[], Iterator[Any]]  # begins one evaluation


def open_datasets(
    config: Mapping[str, Any], settings: Settings, ranks: Ranks, batches: Callable[..., EndlessBatches]
) -> Opened:
    """Open the data sets.

    Args:
        ranks: the number of shares of the data, and the share of this rank.
        batches: makes the batches of the training.

    Raises:
        ConfigError: the training data is too small for one step, or the data sets do not fit each other, or are the
            same.
    """
    if config["data_dir"] and not settings.synthetic and ranks.local_rank == 0:
        check_disjoint(config, config["data_dir"])
    train = component(config, "train_data")
    evaluation = None if settings.synthetic else component(config, "eval_data")
    check_classes(train, evaluation)
    train_batches = batches(
        train, settings.train_batch_size, settings.gradient_accumulation_steps, ranks, settings.seed
    )
    share = None
    if evaluation is not None and settings.evaluates:
        share = eval_batches(len(evaluation), settings.eval_batch_size, ranks)
    return Opened(train, evaluation, train_batches, share, counts(train, evaluation))


def load_batches(opened: Opened, load: Callable[[Any, Iterable[Numbered]], Iterator[Any]]) -> Loaded:
    """Load the batches of training and evaluation, each by processes that go on from one evaluation to the next.

    Args:
        load: begins to load the given batches of a data set.
    """
    share = opened.eval_batches or []
    train = load(opened.train, opened.batches)
    evaluation = load(opened.evaluation, cycle(share)) if share else iter(())
    return Loaded(train, lambda: islice(evaluation, len(share)))


def read_first_samples(config: Mapping[str, Any], read: Callable[[Any], object]) -> None:
    """Open the data sets as a training does, read the first sample of each, and print how many there are.

    A last line says how the data differs from the data of the case.

    Args:
        read: reads the first sample of a data set.
    """
    datasets = {key: component(config, key) for key in ("train_data", "eval_data")}
    for key, dataset in datasets.items():
        if dataset is not None:
            read(dataset)
            print(f"{len(dataset):>12,}  samples of {key}; the first one can be read")
    _print_other_data(config, datasets["train_data"], datasets["eval_data"])


def counts(train: Any, evaluation: Any) -> dict[str, int]:
    """Samples of each data set; also classes where the training data names them in `classes`."""
    sizes = {"train": len(train)}
    if evaluation is not None:
        sizes["eval"] = len(evaluation)
    if getattr(train, "classes", None) is not None:
        sizes["classes"] = len(train.classes)
    return sizes


def check_classes(train_data: Any, eval_data: Any) -> None:
    """Refuse an evaluation on other classes than the training's, where the data sets name their classes in `classes`.

    Folders are numbered in the order of their names. A folder that one split lacks would shift all later labels.
    """
    trained, evaluated = (getattr(data, "classes", None) for data in (train_data, eval_data))
    if trained is None or evaluated is None or list(trained) == list(evaluated):
        return
    missing = {
        "missing in the evaluation data": [str(name) for name in trained if name not in evaluated],
        "missing in the training data": [str(name) for name in evaluated if name not in trained],
    }
    differences = [
        f"{len(names)} {where}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        for where, names in missing.items()
        if names
    ]
    raise ConfigError(
        "training and evaluation data have different classes",
        where=str(getattr(eval_data, "root", "config.yaml")),
        key="data_dir",
        given="; ".join(differences) or "the same classes in another order",
        allowed="the same classes in both splits",
    )


def _print_other_data(config: Mapping[str, Any], train: Any, evaluation: Any) -> None:
    """Print how the data sets differ from the data of the case. Raises ConfigError where their classes differ."""
    check_classes(train, evaluation)
    other = other_data(config, counts(train, evaluation))
    if other and not is_sample_data(config["data_dir"]):
        print(f"{NOT_THE_CASE}{other}; a run on it is SUSPECT and claims no target")
