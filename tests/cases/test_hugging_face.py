"""Weights in the form of Hugging Face: read as transformers writes them, and written as transformers reads them.

The networks are those of the tiny cases, with random numbers in all tensors.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
import transformers
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load

from cases.language_model.experts import GROUPS, modules_with_experts
from cases.language_model.network import Decoder
from flagperf.contract import made_here
from flagperf.contract.components import component, targets
from flagperf.contract.settings import Adapter
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.adapter import adapted, load_saved_state, merged
from flagperf.trainer.pytorch.build import load_weights
from flagperf.trainer.pytorch.hugging_face.files import stored_tensors
from flagperf.trainer.pytorch.hugging_face.sources import Held
from flagperf.trainer.pytorch.hugging_face.write import write_folder
from flagperf.trainer.pytorch.published import main

Config = dict[str, Any]
Tensors = dict[str, Tensor]

DECODERS = (
    *("llama3_8b", "llama3_1b", "gpt2", "chatglm3_6b", "qwen3_8b"),
    *("mixtral_8x7b", "qwen1_5_moe", "deepseek_v3", "gpt_oss_20b"),
)
TEXTS = ("bert", "bert_hf", "distilbert", "longformer", "t5_small", "cpm")
DDP = {"_target_": None, "mesh": {"dp_replicate": -1}}
SMALL = 60_000  # bytes of a file


def filled(network: nn.Module) -> Any:
    """The network in evaluation mode, with random numbers in each tensor: none of them can be taken for another."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.2)
    return network.eval()


def library(network: Any) -> Any:
    """The network's class in transformers, with the same configuration and other weights."""
    kind = next(kind for kind in type(network).__mro__ if kind.__module__.startswith("transformers."))
    return filled(kind(copy.deepcopy(network.config)))


def logits(network: Any, tokens: Tensor) -> Tensor:
    """The scores that a network of transformers gives, or a Decoder."""
    with torch.no_grad():
        if isinstance(network, Decoder):
            return network.lm_head(network.hidden(tokens))  # type: ignore[no-any-return]
        if isinstance(network, transformers.T5ForConditionalGeneration):
            return network(input_ids=tokens, decoder_input_ids=tokens).logits  # type: ignore[no-any-return]
        if isinstance(network, transformers.BertForPreTraining):
            ones = torch.ones_like(tokens)
            output = network.bert(tokens, attention_mask=ones, token_type_ids=0 * ones)
            words, follows = network.cls(output.last_hidden_state, output.pooler_output)
            return torch.cat([words.flatten(), follows.flatten()])
        output = network(input_ids=tokens)
        return output.logits if hasattr(output, "logits") else output.last_hidden_state  # type: ignore[no-any-return]


def sum_alike(network: Any) -> None:
    """Let the experts of a network of transformers add up in the order of ours."""
    if list(modules_with_experts(network)):
        network.config._experts_implementation = GROUPS
    for experts in modules_with_experts(network):
        experts.capacity, experts.loads, experts.exchange = None, [], None


def tensors_of(folder: Path) -> Tensors:
    return {name: source.complete() for name, source in stored_tensors(folder).items()}


def equal(first: Tensors, second: Tensors) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("case", [*DECODERS, *TEXTS])
def test_logits_and_files_equal_those_of_transformers(tiny: Callable[[str], Config], case: str, tmp_path: Path) -> None:
    config = tiny(case)
    network, task = component(config, "network").eval(), component(config, "task")
    published = library(task.pretrained(network))
    sum_alike(published)
    published.save_pretrained(tmp_path / "published", max_shard_size=SMALL)
    assert len(list((tmp_path / "published").glob("*.safetensors"))) > 1
    load_weights(task.pretrained(network), task, str(tmp_path / "published"))
    network = task.pretrained(network)
    tokens = torch.arange(24).view(2, 12) % 20 + 1
    expected = logits(published, tokens)
    assert torch.equal(logits(network, tokens), expected)

    write_folder(tmp_path / "written", network, {name: Held(one) for name, one in network.state_dict().items()}, SMALL)
    assert equal(tensors_of(tmp_path / "written"), tensors_of(tmp_path / "published"))
    read = type(published).from_pretrained(tmp_path / "written").eval()
    sum_alike(read)
    assert torch.equal(logits(read, tokens), expected)


def test_vit(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    """torchvision has one matrix for queries, keys and values: its products are rounded otherwise."""
    config = tiny("vit")
    network, task = filled(component(config, "network")), component(config, "task")
    images = torch.rand(2, 3, network.image_size, network.image_size)
    held = {name: Held(tensor) for name, tensor in network.state_dict().items()}
    write_folder(tmp_path / "written", network, held, SMALL)
    published = transformers.ViTForImageClassification.from_pretrained(tmp_path / "written").eval()
    published.save_pretrained(tmp_path / "published", max_shard_size=SMALL)
    assert equal(tensors_of(tmp_path / "written"), tensors_of(tmp_path / "published"))
    other = component(config, "network").eval()
    load_weights(other, task, str(tmp_path / "published"))
    with torch.no_grad():
        assert torch.equal(other(images), network(images))
        assert torch.allclose(other(images), published(images).logits, atol=1e-5)


# ---------------------------------------------------------------- forms that other publishers use


def renamed(tensors: Tensors, change: Callable[[str], str]) -> Tensors:
    return {change(name): tensor for name, tensor in tensors.items()}


def llama_of_phi3(tensors: Tensors) -> Tensors:
    """Llama 2 as Meta publishes it: 4 heads, of these 2 of keys and values; gate and up are equally wide."""
    made: Tensors = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    for name, tensor in tensors.items():
        if "qkv_proj" in name:
            width = tensor.shape[1]
            sizes = [width, (len(tensor) - width) // 2, (len(tensor) - width) // 2]
            made.update(
                (name.replace("qkv", kind), part.contiguous())
                for kind, part in zip("qkv", tensor.split(sizes), strict=True)
            )
        elif "gate_up_proj" in name:
            kinds = zip(("gate", "up"), tensor.chunk(2), strict=True)
            made.update((name.replace("gate_up", kind), part.contiguous()) for kind, part in kinds)
        else:
            made[name] = tensor
    return made


def packed_baichuan(tensors: Tensors) -> Tensors:
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if not name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))
    }
    for name in tensors:
        if name.endswith("q_proj.weight"):
            parts = [tensors[name.replace("q_proj", kind)] for kind in ("q_proj", "k_proj", "v_proj")]
            kept[name.replace("q_proj", "W_pack")] = torch.cat(parts)
    return kept


def original_chatglm(tensors: Tensors) -> Tensors:
    """The names of chatglm3_6b's own code."""
    names = {
        "model.embed_tokens": "transformer.embedding.word_embeddings",
        "lm_head": "transformer.output_layer",
        "model.norm": "transformer.encoder.final_layernorm",
        "model.layers": "transformer.encoder.layers",
        "self_attn.o_proj": "self_attention.dense",
        "mlp.gate_up_proj": "mlp.dense_h_to_4h",
        "mlp.down_proj": "mlp.dense_4h_to_h",
    }
    made: Tensors = {"transformer.rotary_pos_emb.inv_freq": torch.ones(4)}
    for name, tensor in tensors.items():
        if ".q_proj." in name:
            tensor = torch.cat([tensors[name.replace("q_proj", kind)] for kind in ("q_proj", "k_proj", "v_proj")])
            name = name.replace("self_attn.q_proj", "self_attention.query_key_value")
        elif ".k_proj." in name or ".v_proj." in name:
            continue
        for new, old in names.items():
            name = name.replace(new, old)
        made[name] = tensor
    return made


def original_bert(tensors: Tensors) -> Tensors:
    """google-bert/bert-base-uncased: TensorFlow's names of norms, and heads that the case does not have."""
    more = {"cls.seq_relationship.weight": torch.ones(2), "bert.pooler.dense.bias": torch.ones(2)}
    decoder = "cls.predictions.decoder.bias"
    kept = {name: tensor for name, tensor in tensors.items() if name != decoder}
    names = ("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")
    for new, old in names:
        kept = renamed(kept, lambda name, new=new, old=old: name.replace(new, old))  # type: ignore[misc]
    return kept | more


def without_prefix(tensors: Tensors) -> Tensors:
    """openai-community/gpt2: names of the base alone, the embedding once, and masks."""
    kept = {name.replace("transformer.", ""): tensor for name, tensor in tensors.items() if name != "lm_head.weight"}
    return kept | {"h.0.attn.bias": torch.ones(1, 1, 4, 4)}


@pytest.mark.parametrize(
    ("case", "form"),
    [
        ("llama2_70b_lora", llama_of_phi3),
        ("baichuan2_13b", packed_baichuan),
        ("chatglm3_6b", original_chatglm),
        ("bert_hf", original_bert),
        ("gpt2", without_prefix),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_other_forms(
    tiny: Callable[[str], Config], case: str, form: Callable[[Tensors], Tensors], tmp_path: Path
) -> None:
    config = tiny(case)
    network, task = filled(component({"network": config["network"]}, "network")), component(config, "task")
    published = dict(network.state_dict())
    save_file({name: tensor.clone() for name, tensor in form(published).items()}, tmp_path / "model.safetensors")
    other = component(config, "network")
    load_weights(other, task, str(tmp_path))
    assert equal(dict(other.state_dict()), published)


def test_baichuan_is_written_in_its_own_form(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    """Without config.json: the network is code beside the published weights."""
    network = filled(component(tiny("baichuan2_13b"), "network"))
    held = {name: Held(tensor) for name, tensor in network.state_dict().items()}
    write_folder(tmp_path / "written", network, held)
    (path,) = (tmp_path / "written").iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == (
        "model.safetensors",
        (tmp_path / "written").stat().st_mode & 0o666,
    )
    assert equal(load_file(tmp_path / "written/model.safetensors"), packed_baichuan(network.state_dict()))


# ---------------------------------------------------------------- checkpoints


def trained(config: Config, folder: Path, **settings: Any) -> Path:
    """The checkpoint of a training of two steps on one rank, beside the configuration of its round."""
    config = {**config, **settings, "max_steps": 2, "checkpoint_freq": 2, "target": None, "nproc": 1}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def train(logs: Path) -> None:
        os.environ["FLAGPERF_CHECKPOINT_DIR"] = str(folder / "checkpoint")
        toy.train(config, logs)

    toy.fork_ranks(train, folder / "log", ranks=1)
    (path,) = (path for path in (folder / "checkpoint").iterdir() if path.suffix != ".sha256")
    return path


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # this test reads a checkpoint itself
@pytest.mark.parametrize("strategy", ["DDP", "Sharded"])
def test_a_checkpoint_becomes_a_folder(
    tiny: Callable[[str], Config], strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """transformers reads the trained weights, and so does init_checkpoint. What others configured is not imported."""
    config = tiny("llama3_8b")
    parallel = config["parallel"] if strategy == "Sharded" else DDP
    checkpoint = trained(config, tmp_path, parallel=parallel)
    assert checkpoint.suffix == {"DDP": ".pt", "Sharded": ".dcp"}[strategy]
    assert main([str(checkpoint), str(tmp_path / "written")]) == 2
    names = ", ".join(dict.fromkeys(targets(yaml.safe_load((tmp_path / "config.yaml").read_text()))))
    assert capsys.readouterr().err == (
        "ConfigError: your flagperf did not write this configuration on this machine: "
        f"its author decides what is imported\n  where:   {tmp_path}/config.yaml\n  given:   {names}\n"
        "  allowed: that of a run of your own, unchanged\n  do:      if you trust its author: --trust\n"
    )
    assert main([str(checkpoint), str(tmp_path / "written"), "--trust"]) == 0
    read = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "written").state_dict()
    network = component(config, "network")
    load_weights(network, component(config, "task"), str(tmp_path / "written"))
    assert equal(dict(network.state_dict()), read)
    if strategy == "DDP":
        assert equal(torch.load(checkpoint)["network"], read)
    else:
        found = {name: torch.empty_like(tensor) for name, tensor in read.items()}
        load({"network": found}, storage_reader=FileSystemReader(checkpoint), no_dist=True)
        assert equal(found, read)


def test_adapters_are_added(tiny: Callable[[str], Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny("llama2_70b_lora")
    base = filled(component(config, "network"))
    held = {name: Held(tensor) for name, tensor in base.state_dict().items()}
    write_folder(tmp_path / "base", base, held)
    checkpoint = trained(config, tmp_path, init_checkpoint=str(tmp_path / "base"), parallel=DDP)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config_file = tmp_path / "config.yaml"
    made_here.write(tmp_path.parent, config_file, config_file.read_bytes())  # as a run does
    assert main([str(checkpoint), str(tmp_path / "written")]) == 0
    network = adapted(base, Adapter(**config["adapter"]))
    load_saved_state(network, torch.load(checkpoint)["network"])
    expected, found = merged(network).state_dict(), tensors_of(tmp_path / "written")
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[name], tensor, atol=1e-6) for name, tensor in expected.items())
    start = tensors_of(tmp_path / "base")
    changed = {name for name in held if not torch.equal(found[name], start[name])}
    assert changed == {name.replace("adapter.up.", "") for name in torch.load(checkpoint)["network"] if ".up." in name}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["step1.pt", "new"], "no such checkpoint"),
        (
            ["checkpoint/step000000002.pt", "new", "--config", "other.yaml"],
            "no configuration lies beside the checkpoint",
        ),
        (["checkpoint/step000000002.pt", "new", "--trust"], "its training began with random weights"),
    ],
    ids=["checkpoint", "configuration", "adapters without weights"],
)
def test_no_folder_is_written(
    tiny: Callable[[str], Config],
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    torch.save({"network": {"layer.adapter.up.weight": torch.ones(1)}}, "checkpoint/step000000002.pt")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(tiny("llama2_70b_lora")), encoding="utf-8")
    assert main(arguments) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


# ---------------------------------------------------------------- refusals


def no_weights(folder: Path) -> None:
    (folder / "model-00001-of-00002.safetensors").unlink()
    (folder / "model.safetensors.index.json").unlink()


def no_file(folder: Path) -> None:
    (folder / "model-00001-of-00002.safetensors").unlink()


def no_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../a.safetensors"}}')


def torn(folder: Path) -> None:
    path = folder / "model-00001-of-00002.safetensors"
    path.write_bytes(path.read_bytes()[:100])


def quantized(folder: Path) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    save_file({name: tensor.to(torch.float8_e4m3fn) for name, tensor in load_file(path).items()}, path)


def another_network(folder: Path) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    save_file({**load_file(path), "adapter": torch.ones(1)}, path)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (no_weights, "the folder holds no weights of Hugging Face"),
        (no_file, "a file of the weights is missing"),
        (no_index, "this is no index of weights"),
        (torn, "cannot read the weights"),
        (quantized, "the weights are quantized"),
        (another_network, "the weights do not fit the network"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.__name__,
)
def test_refused(tiny: Callable[[str], Config], damage: Callable[[Path], None], problem: str, tmp_path: Path) -> None:
    config = tiny("llama3_8b")
    network, task = component(config, "network"), component(config, "task")
    held = {name: Held(tensor) for name, tensor in network.state_dict().items()}
    size = sum(tensor.nbytes for tensor in held.values())
    write_folder(tmp_path / "start", network, held, size * 6 // 10)
    index = json.loads((tmp_path / "start/model.safetensors.index.json").read_text())
    assert (index["metadata"], len(set(index["weight_map"].values()))) == ({"total_size": size}, 2)
    damage(tmp_path / "start")
    with pytest.raises(ConfigError) as refused:
        load_weights(network, task, str(tmp_path / "start"))
    assert (refused.value.problem, refused.value.key) == (problem, "init_checkpoint")


def test_an_existing_folder_stays(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the folder exists"):
        write_folder(tmp_path, component(tiny("llama3_8b"), "network"), {})
