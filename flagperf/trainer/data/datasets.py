"""What data sets hold, and whether those of training and evaluation fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    evaluated: Any  # None: there is none
    batches: EndlessBatches  # of the training
    eval_batches: list[Numbered] | None  # None: nothing is evaluated
    counts: Mapping[str, int]  # what the data sets hold, by the names of contract/extent.py


class Loaded(NamedTuple):
    """The batches of a training on their way to the device."""

    train: Iterator[Any]  # without end
    evaluation: Callable[[], Iterator[Any]]  # begins one evaluation


def open_datasets(
    config: Mapping[str, Any], settings: Settings, ranks: Ranks, batches: Callable[..., EndlessBatches]
) -> Opened:
    """Open the data sets.

    Args:
        ranks: which share of the data this rank gets, of how many.
        batches: makes those of the training.

    Raises:
        ConfigError: the training data is too small for one step, or the data sets do not fit each other, or are the
            same.
    """
    if config["data_dir"] and not settings.synthetic and ranks.local_rank == 0:
        check_disjoint(config, config["data_dir"])
    train = component(config, "train_data")
    evaluated = None if settings.synthetic else component(config, "eval_data")
    check_classes(train, evaluated)
    own = batches(train, settings.train_batch_size, settings.gradient_accumulation_steps, ranks, settings.seed)
    share = None
    if evaluated is not None and settings.evaluates:
        share = eval_batches(len(evaluated), settings.eval_batch_size, ranks)
    return Opened(train, evaluated, own, share, counts(train, evaluated))


def read_first_samples(config: Mapping[str, Any], read: Callable[[Any], object]) -> None:
    """Open the data sets as a training does, read the first sample of each, and print how many there are.

    A last line says where that is not the data of the case.

    Args:
        read: reads the first sample of a data set.
    """
    datasets = {key: component(config, key) for key in ("train_data", "eval_data")}
    for key, dataset in datasets.items():
        if dataset is not None:
            read(dataset)
            print(f"{len(dataset):>12,}  samples of {key}; the first one can be read")
    print_other_data(config, datasets["train_data"], datasets["eval_data"])


def counts(train: Any, evaluated: Any) -> dict[str, int]:
    """What the data sets hold: samples, and classes where the training data names them in `classes`."""
    found = {"train": len(train)}
    if evaluated is not None:
        found["eval"] = len(evaluated)
    if getattr(train, "classes", None) is not None:
        found["classes"] = len(train.classes)
    return found


def check_classes(train_data: Any, eval_data: Any) -> None:
    """Refuse an evaluation on other classes than the training's, where the data sets name theirs in `classes`.

    Folders are numbered in the order of their names: one that a split lacks would shift the labels of all that follow.
    """
    trained, evaluated = (getattr(data, "classes", None) for data in (train_data, eval_data))
    if trained is None or evaluated is None or list(trained) == list(evaluated):
        return
    missing = {
        "missing in the evaluation data": [str(name) for name in trained if name not in evaluated],
        "missing in the training data": [str(name) for name in evaluated if name not in trained],
    }
    found = [
        f"{len(names)} {where}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        for where, names in missing.items()
        if names
    ]
    raise ConfigError(
        "training and evaluation data have different classes",
        where=str(getattr(eval_data, "root", "config.yaml")),
        key="data_dir",
        given="; ".join(found) or "the same classes in another order",
        allowed="the same classes in both splits",
    )


def print_other_data(config: Mapping[str, Any], train: Any, evaluated: Any) -> None:
    """Print a line where these data sets are not the data of the case. Refuse them where they do not fit each other."""
    check_classes(train, evaluated)
    other = other_data(config, counts(train, evaluated))
    if other and not is_sample_data(config["data_dir"]):
        print(f"{NOT_THE_CASE}{other}; a run on it is SUSPECT and claims no target")
