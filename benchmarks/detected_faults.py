"""How many faults of an implementation the golden curves detect, and how many correct trainings they blame.

    python benchmarks/detected_faults.py [SEEDS [CORRECT_SEEDS]]

For each seed, a fork of this process trains the tiny glm correctly: this is the reference of the seed. The bands come
from conf/golden/glm.yaml. Then the program trains with each fault, and correctly in other ways. A training that leaves
the band is an alarm. As in `flagperf align`, a fault trains for each curve of the case: for the second one where the
first did not show the fault. Two runs of the same computation are held together by their checksums instead: another
checksum is an alarm. The seeds after SEEDS, up to CORRECT_SEEDS, train correctly only, in one way each. A seed takes
about 45 s of a core, one with a correct training about 4 s. Ctrl-C ends the program with the seeds that are done. Exit
code 1: a fault was detected in less than 95 % of the seeds, or more than 1 % of the correct trainings were blamed.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from cases.golden_trainings import REFERENCE, REORDERED, SPLIT, Way, forked, prepare
from flagperf.compare.golden import golden_file
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.golden import Check, Curve, Golden, read
from flagperf.contract.perflog import Event
from flagperf.trainer.pytorch.engine import TorchEngine
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.precision import Precision

CASE = "glm"
LEAST, MOST = 0.95, 0.01  # shares of detected faults, and of blamed correct trainings
FLIPPED_AFTER = 10  # steps
DATA = Path(__file__).parents[1] / "tests/data"
CHIP = ("vendor=acme", "hardware=A1", "runtime=process", f"code_dir={DATA}/acme_chip/code")
CHIP_FOLDERS = (DATA / "acme_chip", DATA / "acme")


@dataclass(frozen=True)
class Fault:
    """A training that differs from the reference."""

    title: str
    overrides: Sequence[str] = ()
    way: Way = REFERENCE
    change: Callable[[int], None] | None = None  # of the process that trains; gets the seed
    folders: Sequence[Path] = ()
    curves: Sequence[str] = ("plain", "dropout")  # that may show it
    repeats: bool = False  # whether the checksums of two runs show the fault, and not the curve


class Trained(NamedTuple):
    """What a training logged."""

    curve: Curve
    checksums: Sequence[Mapping[str, Any]]  # of each step

    @classmethod
    def of(cls, events: Sequence[Event]) -> Trained:
        """The training whose rank logged these events."""
        return cls(Curve.of(events), [event.value for event in events if event.event == "CHECKSUMS"])


# ---------------------------------------------------------------- what the faults change


def after_building(change: Callable[[Parts], None]) -> None:
    """Change the parts of the training after all are built."""
    build = Parts.__post_init__

    def built(parts: Parts) -> None:
        build(parts)
        change(parts)

    Parts.__post_init__ = built  # type: ignore[method-assign]


def decay_all(_: int) -> None:
    """Weight decay also on norms and biases."""

    def decay(parts: Parts) -> None:
        largest = max(group["weight_decay"] for group in parts.optimizer.param_groups)
        for group in parts.optimizer.param_groups:
            group["weight_decay"] = largest

    after_building(decay)


def other_norm_eps(_: int) -> None:
    """Ten times the eps of each layer norm."""

    def change(parts: Parts) -> None:
        for module in parts.network.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps *= 10

    after_building(change)


def backward_of(change: Callable[[Any], Any]) -> None:
    """Change the loss of the backward pass, and not the logged loss."""
    backward = Precision.backward

    def changed(precision: Precision, loss: Any, micro_steps: int) -> None:
        backward(precision, change(loss), micro_steps)

    Precision.backward = changed  # type: ignore[method-assign]


def undivided_gradient(_: int) -> None:
    """The sum over two ranks in place of their mean."""
    backward_of(lambda loss: 2 * loss)


def missing_all_reduce(_: int) -> None:
    """The gradient of the first of two ranks alone: of the first half of the batch."""
    from cases.glm.task import MultipleChoice

    whole = MultipleChoice.loss

    def loss(task: MultipleChoice, network: nn.Module, batch: Mapping[str, Any]) -> Any:
        half = {name: values[: len(values) // 2] for name, values in batch.items()}
        share = whole(task, network, half)
        with torch.no_grad():
            logged = whole(task, network, dict(batch))
        return logged + share - share.detach()

    MultipleChoice.loss = loss  # type: ignore[assignment,method-assign]


def other_softmax_scale(_: int) -> None:
    """Scores of attention that are 1 % too large."""
    attention = nn.functional.scaled_dot_product_attention

    def scaled(query: Any, *arguments: Any, **options: Any) -> Any:
        return attention(1.01 * query, *arguments, **options)

    nn.functional.scaled_dot_product_attention = scaled


def flipped_bit(seed: int) -> None:
    """Another value of a random bit of a random parameter, once."""
    step = TorchEngine.step

    def stepped(engine: TorchEngine, number: int) -> None:
        step(engine, number)
        if number == FLIPPED_AFTER:
            drawn = random.Random(seed)
            parameter = drawn.choice(list(engine.parts.network.parameters()))
            bits = parameter.detach().view(-1).view(torch.int32)
            bit = drawn.randrange(32)
            bits[drawn.randrange(len(bits))] ^= -(2**31) if bit == 31 else 2**bit

    TorchEngine.step = stepped  # type: ignore[method-assign]


def wrong_chip(_: int) -> None:
    """Let the process find the chip made of Python."""
    sys.path.insert(0, f"{DATA}/acme_chip/code")


FAULTS = (
    Fault("learning rate + 1 %", ("lr=0.00303",)),
    Fault("eps of the optimizer x 10", ("adam_eps=1.0e-7",)),
    Fault("eps of layer norm x 10", change=other_norm_eps),
    Fault("weight decay on norms and biases", change=decay_all),
    Fault("bf16 where fp32 is asked", way=Way("amp_bf16")),
    Fault("missing all-reduce", change=missing_all_reduce),
    Fault("gradient that is not divided", change=undivided_gradient),
    Fault("disabled dropout", ("network.hidden_dropout=0", "network.attention_dropout=0")),
    Fault("softmax scale + 1 %", change=other_softmax_scale),
    Fault(
        "wrong operator: tanh + 0.1 %", (*CHIP, "vendor.plugin=torch_acme_wrong"), REFERENCE, wrong_chip, CHIP_FOLDERS
    ),
    Fault("a flipped bit of a parameter (checksums of two runs)", change=flipped_bit, repeats=True),
)
PLAIN, DROPOUT = ("plain",), ("dropout",)
CORRECT = (
    *(Fault(f"correct: {way.title}", way=way, curves=PLAIN) for way in (*REORDERED, SPLIT)),
    *(Fault(f"correct: {way.title}, dropout", way=way, curves=DROPOUT) for way in REORDERED),
    Fault("correct: another device", (*CHIP, "vendor.plugin=torch_acme"), REFERENCE, wrong_chip, CHIP_FOLDERS, PLAIN),
    Fault("correct: once more (checksums of two runs)", curves=PLAIN, repeats=True),
)


# ---------------------------------------------------------------- trainings


def config_of(golden: Golden, fault: Fault, seed: int) -> dict[str, Any]:
    """The configuration of a training. Overrides of the fault replace those of the curve."""
    replaced = {word.partition("=")[0] for word in fault.overrides}
    kept = [word for word in golden.overrides if word.partition("=")[0] not in replaced]
    config = compose([f"model={CASE}", *kept, *fault.overrides], list(fault.folders)).config
    return {**config, "seed": seed, "checksum_freq": 1}


def train(golden: Golden, fault: Fault, seed: int) -> Trained:
    """Train with a fault. Raises RuntimeError where the training failed."""
    change = partial(fault.change, seed) if fault.change else None
    return forked(config_of(golden, fault, seed), fault.way, Trained.of, change)


def distances(curves: Mapping[str, Golden], seed: int, faults: Sequence[Fault]) -> dict[Fault, float]:
    """The largest distance of the trainings of each fault from the references of the seed, in widths of the band."""
    used = {name: curves[name] for fault in faults for name in fault.curves}
    references = {name: train(golden, Fault("reference"), seed) for name, golden in used.items()}

    def largest(fault: Fault) -> float:
        ratio = 0.0
        for name in fault.curves:
            ratio = max(ratio, distance(curves[name], references[name], train(curves[name], fault, seed), fault))
            if ratio > 1:
                break
        return ratio

    return {fault: largest(fault) for fault in faults}


def distance(golden: Golden, reference: Trained, trained: Trained, fault: Fault) -> float:
    """The distance in widths of the band. Of checksums: 0 where all are equal, else infinite."""
    if fault.repeats:
        return 0.0 if trained.checksums == reference.checksums else math.inf
    return Check(replace(golden, curve=reference.curve), "fp32", trained.curve).largest.ratio


def measured(curves: Mapping[str, Golden], seeds: int, correct_seeds: int) -> dict[Fault, list[float]]:
    """The distances of the trainings of all seeds, up to Ctrl-C."""
    done: dict[Fault, list[float]] = {}
    try:
        for seed in range(1, max(seeds, correct_seeds) + 1):
            faults = (*FAULTS, *CORRECT) if seed <= seeds else (CORRECT[seed % len(CORRECT)],)
            of_seed = distances(curves, seed, faults)
            print(f"seed {seed}:", *(f"{ratio:.3g}" for ratio in of_seed.values()), file=sys.stderr, flush=True)
            for fault, ratio in of_seed.items():
                done.setdefault(fault, []).append(ratio)
    except KeyboardInterrupt:
        print("stopped before the last seed", file=sys.stderr)
    return done


def main() -> int:
    """Print the table, and return the exit code."""
    curves = {golden.name: golden for golden in read(golden_file(CASE, [CONF]))}
    prepare(config_of(curves["plain"], CORRECT[0], 0))
    seeds, correct_seeds = [*map(int, sys.argv[1:]), *(3, 0)[len(sys.argv) - 1 :]]
    done = measured(curves, seeds, correct_seeds)
    alarms = {fault: sum(ratio > 1 for ratio in ratios) for fault, ratios in done.items()}
    print("| training | alarms | distance in bands, least to most |\n|---|---|---|")
    for fault, ratios in done.items():
        print(f"| {fault.title} | {alarms[fault]} of {len(ratios)} | {min(ratios):.3g} to {max(ratios):.3g} |")
    missed = [fault for fault in FAULTS if alarms.get(fault, 0) < LEAST * len(done.get(fault, [0]))]
    blamed = sum(alarms.get(fault, 0) for fault in CORRECT)
    correct = sum(len(done.get(fault, ())) for fault in CORRECT)
    print(f"\nFalse alarms: {blamed} of {correct} correct trainings")
    return int(bool(missed) or blamed > MOST * correct)


if __name__ == "__main__":
    sys.exit(main())
