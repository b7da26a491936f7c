"""Networks of full size are those of the original implementations: parameters equal, operations within 1 %."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from flagperf.config.compose import compose
from flagperf.contract.components import component


def image() -> Any:
    return torch.rand(1, 3, 224, 224), torch.zeros(1, dtype=torch.long)


def choice() -> Any:
    row = torch.zeros(1, 1, 512, dtype=torch.long)
    return {
        "text": row,
        "position": torch.stack([row, row], dim=2),
        "context": row[..., 0],
        "target": row,
        "target_mask": row,
        "is_choice": torch.ones(1, 1, dtype=torch.bool),
    }


def conversation() -> Any:
    row = torch.zeros(1, 200, dtype=torch.long)
    return row, row


def audio() -> Any:
    masked = torch.arange(380)  # of 781 frames
    return {"audio": torch.rand(1, 250_000), "masked": masked, "negatives": masked[:, None].expand(-1, 100)}


def segment() -> Any:
    return torch.rand(1, 80, 32), torch.rand(1, 8000)


def sentences() -> Any:
    rows = torch.full((4, 32), 5)
    return {"source": rows, "target": rows, "tokens": 128}


def sequence() -> Any:
    return torch.zeros(1, 8192 + 1, dtype=torch.long)


def noised() -> Any:
    pixels = torch.zeros(1, 3, 64, 64)
    return {"image": pixels, "label": torch.zeros(1, dtype=torch.long), "noise": pixels, "time": torch.zeros(1)}


def embedded() -> Any:
    latent, text = torch.zeros(1, 16, 32, 32), torch.zeros(1, 256, 4096)
    return {"latent": latent, "text": text, "pooled": text[:, 0, :768], "noise": latent, "time": torch.zeros(1)}


def masked_text(predictions: int) -> Any:
    row = torch.zeros(1, 512, dtype=torch.long)
    places = torch.zeros(1, predictions, dtype=torch.long)
    texts = {"input_ids": row, "segment_ids": row, "input_mask": row, "not_next": row[:, 0]}
    return texts | {"masked_places": places, "masked_words": places}


@pytest.mark.parametrize(
    ("case", "parameters", "gflop", "batch"),
    [
        pytest.param("resnet50", 25_557_032, 8.18, image, id="resnet50: one image of 224 pixels"),
        pytest.param("glm", 334_688_256, 367, choice, id="glm: one choice of 512 tokens"),
        pytest.param("cpm", 334_080_000, 137, conversation, id="cpm: one conversation of 200 tokens"),
        pytest.param(
            "bert",
            336_232_258,
            368,
            partial(masked_text, 512),
            id="bert: 512 tokens, all predicted",
            marks=pytest.mark.slow,
        ),
        pytest.param("bert", 336_232_258, 340, partial(masked_text, 76), id="bert: 512 tokens, 76 predicted"),
        pytest.param("wav2vec2", 95_044_608, 160, audio, id="wav2vec2: 250,000 audio samples"),
        pytest.param("waveglow", 268_294_760, 523, segment, id="waveglow: 8000 audio samples", marks=pytest.mark.slow),
        pytest.param("transformer", 210_882_560, 54, sentences, id="transformer: four sentences of 32 tokens"),
        pytest.param("llama3_8b", 8_030_261_248, 158_141, sequence, id="llama3_8b: a sequence of 8192 tokens"),
        pytest.param("dit", 32_883_120, 2 * 6.06, noised, id="dit: an image of 64 pixels, as many patches as DiT-S/2"),
        # 12 x 3072² weights in each of 57 blocks for 512 tokens, and attention
        pytest.param(
            "flux1", 11_891_178_560, 6_807, embedded, id="flux1: an image of 256 pixels, a text of 256 tokens"
        ),
        pytest.param("llama3_1b", 1_235_814_400, 29_043, sequence, id="llama3_1b: a sequence of 8192 tokens"),
    ],
)
def test_full_size(case: str, parameters: int, gflop: float, batch: Callable[[], Any]) -> None:
    config = compose([f"model={case}", "size=full", "data_dir=/data"]).config
    counter = FlopCounterMode(display=False)
    with torch.device("meta"):  # shapes only
        network, task = component(config, "network").to("meta"), component(config, "task")  # some insist on the CPU
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
            task.loss(network, batch())
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
    assert counter.get_total_flops() / 1e9 == pytest.approx(gflop, rel=0.01)
