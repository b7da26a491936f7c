"""document_mask: documents that share a sequence are computed as if each had a sequence of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import fork_ranks, losses, train

from cases.language_model.data import PackedTokens
from cases.language_model.indexed import ShardWriter
from flagperf.config.compose import compose
from flagperf.contract.components import component

Config = dict[str, Any]
LENGTHS = ([5, 1, 3], [4, 6])  # tokens of the documents of two files


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Two files whose tokens count up from 0."""
    first = 0
    for number, lengths in enumerate(LENGTHS):
        with ShardWriter(tmp_path / f"text/{number}.bin", 100) as writer:
            for length in lengths:
                writer.add([np.arange(first, first + length)])
                first += length
    return tmp_path / "text"


def test_samples_have_the_documents_of_their_tokens(text: Path) -> None:
    data = PackedTokens(str(text), 6, 100, documents=True)
    samples = [data[number] for number in range(len(data))]
    assert [sample[0].tolist() for sample in samples] == [list(range(first, first + 7)) for first in (0, 6, 12)]
    begins = [(sample[1].diff() != 0).nonzero().flatten().tolist() for sample in samples]
    assert begins == [[4, 5], [2], [0]]
    assert samples[1][1][0] == samples[0][1][-1] != samples[0][1][0]


def test_a_document_of_several_sequences(text: Path) -> None:
    """Megatron's index may count several sequences as one document."""
    index = text / "0.idx"
    content = bytearray(index.read_bytes())
    content[-32:] = np.array([0, 2, 3], "<i8").tobytes()  # the first two sequences are one document
    content[26:34] = np.array([3], "<u8").tobytes()
    index.write_bytes(content)
    (text / "1.bin").unlink()
    sample = PackedTokens(str(text), 8, 100, documents=True)[0]
    assert sample[1].tolist() == [0] * 6 + [1] * 3


@pytest.mark.parametrize("chunk", [None, 7])
@pytest.mark.parametrize("case", ["llama3_8b", "gpt2", "baichuan2_13b", "gpt_oss_20b", "deepseek_v3", "chatglm3_6b"])
def test_losses_equal_those_of_separate_documents(tiny: Callable[[str], Config], case: str, chunk: int | None) -> None:
    """gpt_oss_20b has windows. The last token of a document predicts the first of the next, as without the mask."""
    config = tiny(case)
    torch.manual_seed(1)
    network = component({"network": {**config["network"], "loss_chunk": chunk}}, "network").eval()
    tokens, labels = torch.randint(256, (2, 2, 24)).unbind()
    lengths = ([10, 1, 13], [3, 21])
    documents = torch.stack([torch.arange(len(row)).repeat_interleave(torch.tensor(row)) for row in lengths]) + 4
    with torch.no_grad():
        together = network(tokens, labels, documents=documents)
        separate = [
            network(*(part[None] for part in parts))
            for row, sizes in enumerate(lengths)
            for parts in zip(tokens[row].split(sizes), labels[row].split(sizes), strict=True)
        ]
        assert torch.allclose(together, torch.cat(separate), atol=1e-5)
        assert not torch.allclose(together, network(tokens, labels), atol=1e-2)


@pytest.mark.slow
def test_a_training_with_the_mask(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    """The first loss is that of the separated documents; an evaluation separates them, too."""
    sample_dir = Path(tiny("llama3_8b")["data_dir"]).parent
    chosen = ["model=llama3_8b", "size=tiny", f"sample_dir={sample_dir}", "document_mask=true", "division=open"]
    config = dict(compose([*chosen, "nproc=1", "max_steps=2", "eval_interval_samples=null", "log_freq=1"]).config)

    def both(folder: Path) -> list[float]:
        return losses(train(config, folder))

    (masked,) = fork_ranks(both, tmp_path, ranks=1)
    assert len(masked) == 2
    task, data = component(config, "task"), component(config, "train_data")
    assert data[0].shape == (2, 129)
    assert task.samples(data[0][None]) == 1
    assert task.units(data[0][None]) == 128
    assert task.example(config).shape == (1, 2, 129)
