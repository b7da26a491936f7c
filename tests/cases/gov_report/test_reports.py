"""Fine-tuning on GovReport: its sequences, the published weights with joined layers, loss and evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.utils.data import default_collate
from transformers import LlamaConfig, LlamaForCausalLM

from cases.gov_report.data import NOT_COUNTED, Reports
from cases.gov_report.prepare import pack
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.build import load_weights

Config = dict[str, Any]
WORDS = ("[UNK]", "</s>", "###", "Summarize", "the", "following", "text:", "Summary:", "a", "b", "c", "d")
A, B, C, D = (WORDS.index(word) for word in "abcd")
END, PROMPT, ANSWER = 1, [2, 3, 4, 5, 6], [2, 7]  # "### Summarize the following text:", "### Summary:"
LENGTH = 12


@pytest.fixture
def llama(tiny: Callable[[str], Config]) -> Any:
    """Llama of transformers with the sizes of the tiny case."""
    sizes = {key: value for key, value in tiny("llama2_70b_lora")["network"]["config"].items() if key != "_target_"}
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(**sizes)).eval()


@pytest.fixture
def source(tmp_path: Path, llama: Any) -> Path:
    """What users download: texts, a tokenizer, and weights in two files."""
    folder = tmp_path / "source"
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    reports = [{"input": "a b", "output": "c d"}, {"input": "b b", "output": "d"}, {"input": "a " * 9, "output": "b"}]
    for split in ("train", "validation"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(report) + "\n" for report in reports))
    weights = {name: tensor.bfloat16() for name, tensor in llama.state_dict().items()}
    llama.load_state_dict(weights)
    for number in (0, 1):
        save_file(dict(list(weights.items())[number::2]), folder / f"model-{number}.safetensors")
    return folder


def packed(config: Mapping[str, Any], source: Path, length: int) -> Path:
    folder = source.parent / "made"
    folder.mkdir()
    arguments = {**config["data"]["prepare"], "length": length}
    del arguments["_target_"]
    pack(source, folder, **arguments)
    return folder


def test_reports_are_packed_as_in_the_reference(tiny: Callable[[str], Config], source: Path) -> None:
    """Two reports are short enough; each lies in a shard of its own, and the second fills no sequence."""
    folder = packed(tiny("llama2_70b_lora"), source, LENGTH)
    prompt, answer = [*PROMPT, A, B, *ANSWER], [C, D, END]
    train, validation = (np.load(folder / f"{split}.npz") for split in ("train", "validation"))
    assert train["input_ids"].tolist() == train["labels"].tolist() == [prompt + answer]
    assert validation["input_ids"].tolist() == [prompt + answer]
    assert validation["labels"].tolist() == [[NOT_COUNTED] * len(prompt) + [C, D, NOT_COUNTED]]


def test_a_step_equals_llama_with_separate_layers(tiny: Callable[[str], Config], llama: Any, source: Path) -> None:
    """With the published weights as `pack` joins them."""
    config = tiny("llama2_70b_lora")
    task, network = component(config, "task"), component(config, "network").eval()
    load_weights(network, task, str(packed(config, source, LENGTH) / "model.safetensors"))
    batch = default_collate([component(config, "eval_data")[index] for index in range(2)])
    assert task.loss(network, batch).item() == pytest.approx(llama(**batch).loss.item(), rel=1e-5)


def test_the_evaluation_is_the_mean_over_sequences(tiny: Callable[[str], Config]) -> None:
    task = component(tiny("llama2_70b_lora"), "task")
    tokens = torch.arange(8).reshape(2, 4)
    labels = torch.tensor([[0, 1, 2, 3], [NOT_COUNTED, NOT_COUNTED, NOT_COUNTED, 7]])

    def losses(_: Tensor, wanted: Tensor) -> Tensor:
        return torch.where(wanted == NOT_COUNTED, 0, wanted).float().flatten()

    batch = {"input_ids": tokens, "labels": labels}
    assert task.evaluate(losses, [batch], torch.device("cpu")) == {"eval_loss": (2 + 7) / 2}
    assert task.loss(losses, batch).item() == (1 + 2 + 3 + 7) / 4
    assert (task.samples(batch), task.units(batch)) == (2, 8)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("train.jsonl", None, "the source lacks a file", id="no texts"),
        pytest.param("train.jsonl", '{"input": "a"}\n', "line 1 is no report with its summary", id="no summary"),
        pytest.param("train.jsonl", "", "the reports fill no sequence", id="empty"),
        pytest.param("model-0.safetensors", None, "the weights lack a tensor", id="a file of the weights is missing"),
    ],
)
def test_refusals(tiny: Callable[[str], Config], source: Path, name: str, content: str | None, problem: str) -> None:
    (source / name).unlink() if content is None else (source / name).write_text(content)
    with pytest.raises(ConfigError, match=problem):
        packed(tiny("llama2_70b_lora"), source, LENGTH)


def test_reports_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "train.npz", input_ids=np.array([[40]]), labels=np.array([[40]]))
    with pytest.raises(ConfigError, match="the values of input_ids in this file are not the case's"):
        Reports(str(tmp_path / "train.npz"), vocab_size=32)
