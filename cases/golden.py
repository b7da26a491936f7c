"""Writes the golden curves of cases: real trainings in fp32 on this CPU, and bands from other ways to compute the same.

python -m cases.golden CASE …                    writes conf/golden/<case>.yaml; without CASE, of all cases of PyTorch
python -m cases.golden --config-dir DIR CASE …   likewise of your own cases, below DIR

Run the program again when a case changes. docs/numerics.md explains the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import flagperf
from cases.golden_bands import FACTOR, as_lists, bands, deviations, rounded, widths
from cases.golden_trainings import (
    DECIDED_OTHERWISE,
    REFERENCE,
    ROUNDED,
    ROUNDED_OTHERWISE,
    SPLIT,
    Trainings,
    forked,
    prepare,
    versions,
)
from cases.statements import write_files
from flagperf.compare.golden import ALWAYS, STEPS, clipping, identity_of
from flagperf.config.compose import compose
from flagperf.contract.golden import Curve
from flagperf.contract.leaves import leaves

WIDEST = 0.01  # share of the loss that its band in fp32 may have at the last step; wider: a lower lr
DECIDING = ("detr", "faster_rcnn", "mask_rcnn")  # cases in which a rounding decides: what is matched, or counts
DIVISORS = tuple(10**power for power in range(7))  # of the lr of the case; the first with a narrow band counts
HEADER = """\
# python -m cases.golden {case}
#
# The first steps of the tiny size of {case}, and the bands in which correct implementations stay.
# Written by this command from trainings on a CPU; docs/numerics.md explains it.
"""


@dataclass
class Recording:
    """A curve of a case: what a training sets, and the trainings."""

    overrides: Sequence[str]
    config: Mapping[str, Any]
    trainings: Trainings = field(default_factory=dict)

    @classmethod
    def of(cls, case: str, sets: Sequence[str], folders: Sequence[Path]) -> Recording:
        """The curve of a case that a training with further overrides gives."""
        words = list({word.partition("=")[0]: word for word in (*ALWAYS, *sets)}.values())  # the last of a key counts
        given = [f"model={case}", *words]
        limit = clipping(compose(given, list(folders)).config)
        return cls([*words, *limit], compose([*given, *limit], list(folders)).config)

    def train(self, *ways: Any) -> None:
        """Train in these ways, where that has not been done."""
        for way in ways:
            if way not in self.trainings:
                self.trainings[way] = forked(self.config, way, Curve.of)

    def content(self) -> dict[str, Any]:
        """The curve with its bands, as its file has them."""
        return {
            "overrides": list(self.overrides),
            "identity": identity_of(self.config),
            **as_lists(self.trainings[REFERENCE], 9),
            "bands": bands(self.trainings),
            "runs": deviations(self.trainings),
        }


def text(case: str, folders: Sequence[Path] = ()) -> str:
    """The content of a case's file."""
    prepare(Recording.of(case, [], folders).config)
    tried = calm(case, folders)
    lr, plain = tried[-1].lr, tried[-1].recording
    recordings = {"plain": plain}
    if lr and (first := first_steps(case, tried[0].recording, folders)):
        recordings["optimizer"] = first
    if dropouts := dropouts_of(case, folders):
        recordings["dropout"] = Recording.of(case, [*lr, *dropouts], folders)
    decided = DECIDED_OTHERWISE if case in DECIDING else ()
    for name, recording in recordings.items():
        divisible = recording.config["train_batch_size"] % SPLIT.micro_steps == 0
        split = [SPLIT] if divisible and name != "dropout" else []  # each micro step draws other masks
        recording.train(REFERENCE, *ROUNDED_OTHERWISE, *decided, *ROUNDED, *split)
    content = {
        "case": case,
        "revision": plain.config["revision"],
        "software": {"flagperf": flagperf.__version__, **versions()},
        "factor": FACTOR,
        "last_widths": {float(attempt.recording.config["lr"]): attempt.width for attempt in tried},
        "curves": {name: recording.content() for name, recording in recordings.items()},
    }
    return HEADER.format(case=case) + yaml.dump(content, Dumper=Dumper, sort_keys=False, width=84)


class Attempt(NamedTuple):
    """Trainings with a learning rate."""

    lr: list[str]  # the override of the learning rate; empty: that of the case
    recording: Recording
    width: float  # of the band of the loss in fp32 at the last step, as a share of the loss


def calm(case: str, folders: Sequence[Path]) -> list[Attempt]:
    """The attempts up to the largest lr with which roundings do not grow over the steps.

    Raises:
        RuntimeError: the roundings grow with each lr.
    """
    attempts: list[Attempt] = []
    for divisor in DIVISORS:
        lr_of_case = Recording.of(case, [], folders).config["lr"]
        lr = [f"lr={lr_of_case / divisor:.6g}"] if divisor > 1 else []
        recording = Recording.of(case, lr, folders)
        attempts.append(Attempt(lr, recording, rounded(max(_growing(recording)), 3)))
        if attempts[-1].width < WIDEST:
            return attempts
    tried = {attempt.recording.config["lr"]: attempt.width for attempt in attempts}
    raise RuntimeError(f"{case}: the band of fp32 is too wide with each lr: {tried}")


def _growing(recording: Recording) -> Iterator[float]:
    """The width of the band after each further training in fp32, up to the first that is too wide."""
    recording.train(REFERENCE)
    for way in ROUNDED_OTHERWISE:
        recording.train(way)
        yield widths(recording.trainings)[-1]
        if widths(recording.trainings)[-1] >= WIDEST:
            return


def first_steps(case: str, whole: Recording, folders: Sequence[Path]) -> Recording | None:
    """As many steps with the lr of the case as roundings grow little; None: not even two.

    Args:
        whole: the trainings with this lr.
    """
    steps = next((step for step, width in enumerate(widths(whole.trainings)) if width >= WIDEST), STEPS)
    for count in range(steps, 1, -1):  # another number of steps may give another schedule
        recording = Recording.of(case, [f"max_steps={count}", f"eval_interval_steps={count}"], folders)
        if max(_growing(recording)) < WIDEST:
            return recording
    return None


def dropouts_of(case: str, folders: Sequence[Path]) -> list[str]:
    """The dropout of the full size as overrides, where the tiny size trains without."""
    full, tiny = (
        leaves(compose([f"model={case}", f"size={size}", "dry_run=true"], list(folders)).config["network"])
        for size in ("full", "tiny")
    )
    return [f"network.{key}={value}" for key, value in full.items() if drops(key) and value and tiny.get(key) == 0]


def drops(key: str) -> bool:
    """Whether a key of a network says how much is dropped out."""
    name = key.rpartition(".")[2]
    return "drop" in name or "stochastic_depth" in name


class Dumper(yaml.SafeDumper):
    """Writes lists of numbers in lines rather than below each other."""

    def represent_sequence(self, tag: str, sequence: Iterable[Any], flow_style: bool | None = None) -> Any:
        """A list; in lines, unless its items are mappings, or the caller decides."""
        items = list(sequence)
        in_lines = flow_style is not False and not any(isinstance(item, dict) for item in items)
        return super().represent_sequence(tag, items, flow_style=in_lines)


if __name__ == "__main__":
    write_files(__doc__, "golden", text)
