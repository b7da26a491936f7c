"""Llama: one step is what transformers computes, whatever the share of the logits that is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from toy import fork_ranks
from transformers import LlamaForCausalLM

from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.build import compile_each, modules_of, recompute
from flagperf.trainer.pytorch.by_version import choose_attention
from flagperf.trainer.pytorch.fingerprint import fingerprint
from flagperf.trainer.pytorch.float8 import multiply_in_float8

Config = dict[str, Any]


def first(config: Config, count: int) -> Tensor:
    data = component(config, "train_data")
    return torch.stack([data[number] for number in range(count)])


def step(config: Config, batch: Tensor, change: Callable[[Any], object] = lambda _: None) -> tuple[float, Tensor]:
    """Loss and all gradients of one step from the weights of one seed."""
    torch.manual_seed(1)
    network, task = component(config, "network"), component(config, "task")
    change(network)
    loss = task.loss(network, batch)
    loss.backward()
    return loss.item(), torch.cat([parameter.grad.flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("case", ["llama3_8b", "llama3_1b"])
def test_one_step_equals_transformers(tiny: Callable[[str], Config], case: str) -> None:
    """With its own forward pass, its own loss, and attention that is written out."""
    config = tiny(case)
    batch = first(config, 3)
    loss, gradients = step(config, batch)

    torch.manual_seed(1)
    network = LlamaForCausalLM(component(config, "network").config)
    network.load_state_dict(weights(config))
    network.set_attn_implementation("eager")
    expected = network(input_ids=batch[:, :-1], labels=batch[:, :-1], shift_labels=batch[:, 1:].contiguous()).loss
    expected.backward()
    norm = nn.utils.get_total_norm([parameter.grad for parameter in network.parameters()])
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert gradients.norm().item() == pytest.approx(norm.item(), rel=1e-4)


def test_attention_in_plain_operations(tiny: Callable[[str], Config]) -> None:
    """As an older torch has it: no place sees a later one there either."""
    config = tiny("llama3_8b")
    batch = first(config, 2)
    expected = step(config, batch)
    found = step(config, batch, lambda network: network.set_attn_implementation("eager"))
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    assert torch.allclose(found[1], expected[1], atol=1e-6)


def weights(config: Config) -> dict[str, Tensor]:
    torch.manual_seed(1)
    return component(config, "network").state_dict()  # type: ignore[no-any-return]


@pytest.mark.parametrize("chunk", [1000, 384, 100, 1])
def test_a_share_of_the_logits_at_a_time(tiny: Callable[[str], Config], chunk: int) -> None:
    config = tiny("llama3_8b")
    batch = first(config, 3 if chunk > 1 else 1)
    loss, gradients = step(config, batch)
    in_parts = config | {"network": {**config["network"], "loss_chunk": chunk}}
    assert step(in_parts, batch)[0] == pytest.approx(loss, abs=1e-6)
    assert torch.allclose(step(in_parts, batch)[1], gradients, atol=1e-6)


def test_no_logits_of_all_tokens(tiny: Callable[[str], Config]) -> None:
    """The largest tensor that a step in parts makes has the logits of one part."""
    config = tiny("llama3_8b")
    batch = first(config, 8)
    largest = {}
    for chunk in (None, 64):
        sizes: list[int] = []

        def watch(network: Any, sizes: list[int] = sizes) -> None:
            network.lm_head.register_forward_hook(lambda *given: sizes.append(given[-1].numel()))

        step(config | {"network": {**config["network"], "loss_chunk": chunk}}, batch, watch)
        largest[chunk] = max(sizes)
    assert largest == {None: 8 * 128 * 256, 64: 64 * 256}


def test_recomputed_blocks_give_the_same_gradients(tiny: Callable[[str], Config]) -> None:
    config = tiny("llama3_8b")
    batch = first(config, 2)
    again = step(config, batch, lambda network: recompute(network, config["checkpoint_modules"]))
    assert torch.equal(again[1], step(config, batch)[1])


def test_weight_decay_spares_the_norms(tiny: Callable[[str], Config]) -> None:
    config = tiny("llama3_8b")
    network, task = component(config, "network"), component(config, "task")
    decayed, others = task.parameters(network)
    assert (len(decayed["params"]), len(others["params"]), others["weight_decay"]) == (2 + 2 * 7, 1 + 2 * 2, 0.0)
    assert all(parameter.dim() == 1 for parameter in others["params"])
    assert task.units(first(config, 2)) == 2 * 128


def test_the_formula_is_torchtitans() -> None:
    """6 x parameters but the embedding, and attention over all pairs of places: of all tokens of a sequence."""
    found = {}
    for case in ("llama3_8b", "llama3_1b"):
        config = dict(compose([f"model={case}", "size=full", "dry_run=true"]).config)
        with torch.device("meta"):
            network = component(config, "network")
        found[case] = component(config, "task").formula(network, config)
    assert found == {
        "llama3_8b": {
            "formula_flops": 57_914_449_920,
            "formula_flops_causal": 51_472_785_408,
            "formula_flops_6n": 48_181_567_488,
        },
        "llama3_1b": {
            "formula_flops": 10_636_111_872,
            "formula_flops_causal": 9_025_695_744,
            "formula_flops_6n": 7_414_886_400,
        },
    }


@pytest.mark.parametrize("keeps", ["nothing", "products"])
def test_what_is_computed_again(tiny: Callable[[str], Config], keeps: str) -> None:
    """All but the products of matrices, where these are kept; gradients stay the same."""
    config = tiny("llama3_8b")
    batch = first(config, 2)
    plain, again = FlopCounterMode(display=False), FlopCounterMode(display=False)
    with plain:
        expected = step(config, batch)
    with again:
        found = step(config, batch, lambda network: recompute(network, config["checkpoint_modules"], keeps))
    assert torch.equal(found[1], expected[1])
    more = again.get_total_flops() / plain.get_total_flops()
    assert more == pytest.approx(1.0 if keeps == "products" else 1.25, abs=0.1)


def test_kernels_of_attention(tiny: Callable[[str], Config]) -> None:
    config = tiny("llama3_8b")
    batch = first(config, 2)
    choices = ("enable_flash_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp", "enable_math_sdp")
    try:
        choose_attention(["math"])
        by_math = step(config, batch)
        choose_attention(["flash", "efficient"])
        by_flash = step(config, batch)
    finally:
        for choice in choices:
            getattr(torch.backends.cuda, choice)(True)
    assert by_math[0] == pytest.approx(by_flash[0], rel=1e-6)
    assert torch.allclose(by_math[1], by_flash[1], atol=1e-6)
    assert not torch.equal(by_math[1], by_flash[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of the compiler's own
def test_each_block_compiled(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    config = tiny("llama3_8b")
    batch = first(config, 2)
    loss, gradients = step(config, batch)

    def change(network: Any) -> None:
        recompute(network, config["checkpoint_modules"], "products")
        compile_each(network, config["checkpoint_modules"])

    def one_step(_: Path) -> tuple[float, Any]:
        compiled = step(config, batch, change)
        return compiled[0], compiled[1].numpy()

    ((compiled_loss, compiled_gradients),) = fork_ranks(one_step, tmp_path, ranks=1)
    assert compiled_loss == pytest.approx(loss, rel=1e-5)
    assert compiled_gradients == pytest.approx(gradients.numpy(), abs=1e-5)


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_float8(tiny: Callable[[str], Config], recipe: str) -> None:
    """The loss differs by rounding, and the network stays the case's; without torchao the error says what to do."""
    config = tiny("llama3_8b")
    batch = first(config, 2)

    def change(network: Any) -> None:
        blocks = modules_of(network, config["checkpoint_modules"], "float8_modules")
        multiply_in_float8(blocks, recipe, torch.device("cpu"))

    try:
        import torchao  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match="float8 needs the package torchao"):
            step(config, batch, change)
        return
    plain, rounded = (step(config, batch, made) for made in (lambda _: None, change))
    assert rounded[0] == pytest.approx(plain[0], rel=0.01)
    assert rounded[0] != plain[0]
    cosine = torch.nn.functional.cosine_similarity(rounded[1], plain[1], dim=0)
    assert cosine > 0.98
    network, other = component(config, "network"), component(config, "network")
    change(other)
    assert fingerprint(other) == fingerprint(network)
