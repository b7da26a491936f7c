"""Seeds, determinism, and the state of every random generator of this process."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.by_version import choose_attention, fill_no_memory, module_of


def seed_all(seed: int) -> None:
    """Seed Python, NumPy and PyTorch, devices included."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_host(seed: int) -> None:
    """Seed the generators that data sets draw from. It takes microseconds, so it can precede each batch."""
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


def choose_algorithms(settings: Settings) -> None:
    """Choose deterministic algorithms, kernels of attention and cuDNN's search as the settings say.

    PyTorch's switch covers all operations, also cuDNN's. A warning names an operation without a deterministic
    algorithm.
    """
    choose_attention(settings.attention_kernels)
    torch.backends.cudnn.benchmark = settings.cudnn_benchmark
    torch.backends.cudnn.deterministic = settings.deterministic
    if settings.deterministic:
        fill_no_memory()
        if settings.compile:
            torch.use_deterministic_algorithms(True, warn_only=True)
        else:
            torch.set_deterministic_debug_mode("warn")  # the same, but does not import the compiler, 0.9 s of CPU


def random_state(device: torch.device) -> dict[str, Any]:
    """State of all generators, as plain values and tensors."""
    name, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),  # type: ignore[union-attr]
        "torch": torch.get_rng_state(),
        "device": None if device.type == "cpu" else module_of(device).get_rng_state(device),
    }


def set_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    """Restore all generators from a `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["device"] is not None:
        module_of(device).set_rng_state(state["device"], device)
