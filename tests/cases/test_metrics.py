"""Metrics over two ranks with uneven shares equal what scikit-learn says of all samples at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from evaluate import CHOICES, SAMPLES, evaluated, predictions
from sklearn.metrics import accuracy_score, top_k_accuracy_score
from toy import fork_ranks


def test_two_ranks_equal_one(tmp_path: Path) -> None:
    lines = fork_ranks(evaluated, tmp_path)
    by_rank = {line["rank"]: line["metrics"] for line in lines}
    assert set(by_rank) == {0, 1}
    assert by_rank[0] == by_rank[1]
    assert by_rank[0].pop("detections") == {"images": 2}
    for line in lines:  # where both compute on all samples, each counts them alone
        assert line["together"].pop("detections") == {"images": 1}
        assert line["together"] == {name: pytest.approx(metrics, abs=1e-6) for name, metrics in by_rank[0].items()}

    scores, labels, answers = (torch.stack(parts) for parts in zip(*map(predictions, range(SAMPLES)), strict=True))
    best = scores.argmax(dim=1)
    assert by_rank[0]["images"] == {
        "acc1": pytest.approx(100 * accuracy_score(labels, best), abs=1e-4),
        "acc5": pytest.approx(100 * top_k_accuracy_score(labels, scores, k=5, labels=range(CHOICES)), abs=1e-4),
    }
    right = [bool(answers[i, best[i]]) for i in range(SAMPLES)]
    assert by_rank[0]["glm"] == {"accuracy": pytest.approx(accuracy_score([True] * SAMPLES, right), abs=1e-6)}
    assert by_rank[0]["tokens"] == {"eval_loss": pytest.approx(scores[:, :-1].mean().item(), abs=1e-6)}
