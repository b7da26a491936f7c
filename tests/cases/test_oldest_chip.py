"""The chip made of Python on the oldest PyTorch (`make oldest`): how a vendor's plug-in is reached there."""

from __future__ import annotations

from typing import Any

import accelerator
import pytest
import toy
from test_older_stacks import python_of

TWO_RANKS = {"ranks": 2, "max_epochs": 3, "gradient_accumulation_steps": 2, "clip_grad": 1.0, "num_workers": 1}
NAN = {"max_epochs": 9, "log_freq": 1, "train_data": toy.node("Points", count=64, nan_at=20)}
TRAININGS: dict[str, dict[str, Any]] = {
    "two ranks": TWO_RANKS,
    "loaded batches": {"max_epochs": 3, "num_workers": 1, "clip_grad": 1.0},
    "held batches": {"max_epochs": 3, "synthetic": True},
    "average of the weights": {"max_epochs": 3, "ema": {"decay": 0.9, "every": 2}},
    "not a number": NAN,
}

pytestmark = [pytest.mark.oldest, pytest.mark.torch]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, accelerator.Answer]]:
    """All trainings on the oldest, by device; the chip must be there before the first backward of a process."""
    python, folder = python_of("oldest"), tmp_path_factory.mktemp("oldest")
    cpu = {name: toy.config(**settings) for name, settings in TRAININGS.items()}
    chip = {name: {**config, "vendor": accelerator.ACME} for name, config in cpu.items()}
    runs = {"cpu": cpu, "chip": chip}
    return {device: accelerator.train_each(trainings, folder / device, python) for device, trainings in runs.items()}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TRAININGS)
def test_it_trains_as_a_cpu_does(answers: dict[str, dict[str, accelerator.Answer]], name: str) -> None:
    cpu, chip = (accelerator.events_of(answers[device][name]) for device in ("cpu", "chip"))
    expected_losses = toy.losses(cpu)
    found_losses = toy.losses(chip)[: len(expected_losses)]  # that one is not a number is seen a step later
    assert found_losses == pytest.approx(expected_losses, rel=1e-4, nan_ok=True)
    finished, expected = chip[-1].value, cpu[-1].value
    assert (finished["stop_reason"], finished["final_accuracy"]) == (
        expected["stop_reason"],
        expected["final_accuracy"],
    )
    found = tuple(finished[key] for key in ("clock", "peak_memory_kind", "device_name"))
    assert found == ("device events", "device", "Acme A1")
    assert finished["versions"]["torch"].startswith("2.0.")
