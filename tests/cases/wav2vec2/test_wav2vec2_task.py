"""wav2vec2: network, loss and metric against transformers and PyTorch, also over ranks with unequal shares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradients import gradient_norm
from sklearn.metrics import accuracy_score
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode
from toy import fork_ranks
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining
from transformers.modeling_outputs import BaseModelOutput

from cases.wav2vec2.masking import Batch
from cases.wav2vec2.network import Wav2Vec2
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.step_loss import StepLoss

Config = dict[str, Any]
Tiny = Callable[[str], Config]

TEMPERATURE = 2.0 * 0.99  # in the first update


def network_of(config: Config, **words: Any) -> Wav2Vec2:
    torch.manual_seed(1)
    network: Wav2Vec2 = component({"network": {**config["network"], **words}}, "network")
    return network


class PlainHourglass(nn.Module):
    """The encoder again, of PyTorch's own layers and pooling, with the weights of transformers' encoder."""

    def __init__(self, encoder: nn.Module, config: Config) -> None:
        super().__init__()
        self.before, self.between, _ = config["hourglass"]
        self.factor = config["shorten_factor"]
        self.positions, self.norm, self.dropout = encoder.pos_conv_embed, encoder.layer_norm, encoder.dropout
        self.layers = nn.ModuleList(plain_layer(layer, config) for layer in encoder.layers)

    def forward(self, hidden: Tensor, **_: Any) -> BaseModelOutput:
        hidden = self.dropout(self.norm(hidden + self.positions(hidden)))
        for layer in self.layers[: self.before]:
            hidden = layer(hidden)
        frames = hidden.shape[1]
        missing = torch.zeros(len(hidden), -frames % self.factor, hidden.shape[2], dtype=hidden.dtype)
        short = functional.avg_pool1d(torch.cat([hidden, missing], dim=1).mT, self.factor).mT
        for layer in self.layers[self.before : self.before + self.between]:
            short = layer(short)
        hidden = hidden + torch.stack([short[:, frame // self.factor] for frame in range(frames)], dim=1)
        for layer in self.layers[self.before + self.between :]:
            hidden = layer(hidden)
        return BaseModelOutput(last_hidden_state=hidden)


def plain_layer(layer: nn.Module, config: Config) -> nn.TransformerEncoderLayer:
    """PyTorch's layer with the weights of transformers' one."""
    plain = nn.TransformerEncoderLayer(
        config["hidden_size"],
        config["num_attention_heads"],
        config["intermediate_size"],
        dropout=0.0,
        activation="gelu",
        batch_first=True,
    )
    attention, forward = layer.attention, layer.feed_forward
    parts = [attention.q_proj, attention.k_proj, attention.v_proj]
    with torch.no_grad():
        plain.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        plain.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    plain.self_attn.out_proj.load_state_dict(attention.out_proj.state_dict())
    plain.linear1.load_state_dict(forward.intermediate_dense.state_dict())
    plain.linear2.load_state_dict(forward.output_dense.state_dict())
    plain.norm1.load_state_dict(layer.layer_norm.state_dict())
    plain.norm2.load_state_dict(layer.final_layer_norm.state_dict())
    return plain


def original(network: Wav2Vec2, config: Config) -> Wav2Vec2ForPreTraining:
    """transformers' own network with the same weights, but for the plain hourglass in it."""
    ours = ("_target_", "latent_temp", "feature_grad_mult", "micro_steps", "hourglass", "shorten_factor")
    arguments = {name: value for name, value in config["network"].items() if name not in ours}
    layers = sum(config["network"]["hourglass"])
    direct = Wav2Vec2ForPreTraining(
        Wav2Vec2Config(num_hidden_layers=layers, **arguments, mask_time_prob=0.65, mask_time_length=10)
    )
    direct.load_state_dict({name: value for name, value in network.state_dict().items() if name != "forwards"})
    direct.wav2vec2.encoder = PlainHourglass(direct.wav2vec2.encoder, config["network"])
    return direct


def first_batch(config: Config, clips: int) -> Batch:
    data = component(config, "train_data")
    batch: Batch = data.collate_fn([data[index] for index in range(clips)])
    return batch | {"audio": batch["audio"].double()}


def mask_of(batch: Batch) -> Tensor:
    """True where a frame is masked, [clips, frames]; 320 audio samples a frame, 400 the first."""
    clips, samples = batch["audio"].shape
    mask = torch.zeros(clips, (samples - 400) // 320 + 1, dtype=torch.bool)
    mask.view(-1)[batch["masked"]] = True
    return mask


@pytest.mark.parametrize(
    ("hourglass", "shorten_factor"),
    [pytest.param([1, 1, 1], 4, id="tiny"), pytest.param([2, 3, 1], 3, id="other"), pytest.param([0, 2, 1], 1, id="1")],
)
def test_one_step_equals_transformers(tiny: Tiny, hourglass: list[int], shorten_factor: int) -> None:
    """In double precision; the library computes hidden states and codes, the losses are written out."""
    config = tiny("wav2vec2")
    words = {"hourglass": hourglass, "shorten_factor": shorten_factor}
    config = {**config, "network": {**config["network"], **words}}
    network, task = network_of(config, feature_grad_mult=0.1).double(), component(config, "task")
    batch = first_batch(config, 3)
    torch.manual_seed(2)  # of the Gumbel noise
    loss = task.loss(network, batch)
    loss.backward()

    direct, mask = original(network, config).double(), mask_of(batch)
    features = direct.wav2vec2.feature_extractor(batch["audio"])
    hidden = direct.wav2vec2(batch["audio"], mask_time_indices=mask)
    direct.set_gumbel_temperature(TEMPERATURE)
    torch.manual_seed(2)
    quantized, perplexity = direct.quantizer(hidden.extract_features[mask][None])
    predicted, target = direct.project_hid(hidden.last_hidden_state[mask]), direct.project_q(quantized[0])
    losses = []
    for frame, negatives in enumerate(batch["negatives"].tolist()):
        others = [target[other] for other in negatives if not torch.equal(target[other], target[frame])]
        similarities = functional.cosine_similarity(predicted[frame][None], torch.stack([target[frame], *others]))
        losses.append(-(similarities / 0.1).log_softmax(dim=0)[0])
    expected = torch.stack(losses).mean() + 0.1 * (32 - perplexity) / 32 + 0.1 * features.pow(2).mean()
    expected.backward()
    for parameter in direct.wav2vec2.feature_extractor.parameters():
        parameter.grad *= 0.1
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert gradient_norm(network) == pytest.approx(gradient_norm(direct), rel=1e-6)
    assert (task.samples(batch), task.units(batch)) == (3, int(mask.sum()))


def test_operations_are_those_of_flagperf() -> None:
    """For 250,000 audio samples. Fused attention was not counted there, so that its products are left out here."""
    network = component(compose(["model=wav2vec2", "size=full", "data_dir=/data"]).config, "network").to("meta")
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        network(torch.empty(1, 250_000, device="meta"), torch.arange(380, device="meta"))
    products = counter.get_flop_counts()["Global"][torch.ops.aten.bmm]
    assert (counter.get_total_flops() - products) / 1e9 == pytest.approx(151.6, abs=0.05)


def test_evaluation_equals_the_library_as_a_whole(tiny: Tiny) -> None:
    np.random.seed(0)  # of the parts that are cut from the clips
    config = tiny("wav2vec2")
    network, task = network_of(config).double().eval(), component(config, "task")
    batch = first_batch(config, 3)
    mask = mask_of(batch)
    negatives = torch.zeros(*mask.shape, 20, dtype=torch.long)
    negatives[mask] = batch["masked"][batch["negatives"]]
    with torch.no_grad():
        whole = (
            original(network, config)
            .double()
            .eval()(batch["audio"], mask_time_indices=mask, sampled_negative_indices=negatives)
        )
        found = network(batch["audio"], batch["masked"])
        logits = task.logits(found.predicted, found.target, batch["negatives"])
    contrastive = functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long), reduction="sum")
    # A distractor of the target's code does not count, unless the products that made the two were rounded differently.
    assert contrastive.item() == pytest.approx(whole.contrastive_loss.item(), rel=3e-3)
    assert found.perplexity.item() == pytest.approx(whole.codevector_perplexity.item(), rel=1e-6)


def test_distractors_with_the_same_code_do_not_count(tiny: Tiny) -> None:
    task = component(tiny("wav2vec2"), "task")
    target = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    logits = task.logits(target.clone(), target, torch.tensor([[1, 2], [0, 2], [0, 1]]))
    assert logits.tolist() == [[10, float("-inf"), 0], [10, float("-inf"), 0], [10, 0, 0]]


def test_the_temperature_falls_with_each_update_and_survives_a_checkpoint(tiny: Tiny) -> None:
    config = tiny("wav2vec2")
    network = network_of(config, latent_temp=[2.0, 0.5, 0.7], micro_steps=2)
    audio, masked = torch.zeros(1, 4000), torch.tensor([3, 4])
    seen = []
    for _ in range(10):
        network(audio, masked)
        seen.append(float(network.quantizer.temperature))
    updates = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert seen == pytest.approx([max(2 * 0.7**update, 0.5) for update in updates], rel=1e-6)

    again = network_of(config, latent_temp=[2.0, 0.5, 0.7], micro_steps=2)
    again.load_state_dict(network.state_dict())
    again.eval()(audio, masked)
    assert int(again.forwards) == 10
    again.train()(audio, masked)
    assert float(again.quantizer.temperature) == pytest.approx(0.5)


def test_the_temperature_is_exact_after_many_updates(tiny: Tiny) -> None:
    network = network_of(tiny("wav2vec2"), latent_temp=[2.0, 0.5, 0.999995])
    network.forwards.fill_(200_000)
    assert float(network.temperature()) == pytest.approx(2 * 0.999995**200_000, rel=1e-6)


def shares(config: Config, folder: Path) -> list[float]:  # noqa: ARG001
    world = World.of()
    world.connect(torch.device("cpu"), "gloo", 60)
    batches = [{"audio": torch.zeros(1, 1), "masked": torch.arange(count)} for count in ((3, 1), (5, 7))[world.rank]]
    given = StepLoss(component(config, "task"), world, micro_steps=2).given(batches)
    return [share.item() for _, share in given]


def test_a_masked_frame_weighs_the_same_on_every_rank_and_in_every_micro_step(tiny: Tiny, tmp_path: Path) -> None:
    assert fork_ranks(partial(shares, tiny("wav2vec2")), tmp_path) == [[0.75, 0.25], [1.25, 1.75]]


def dropped_layers(config: Config, folder: Path) -> list[float]:  # noqa: ARG001
    """Gradients of each layer, summed, after one step in which the ranks drop different layers."""
    world = World.of()
    world.connect(torch.device("cpu"), "gloo", 60)
    network = network_of(config, layerdrop=0.5)
    task, batch = component(config, "task"), first_batch(config, 2)
    model = DistributedDataParallel(network.double(), find_unused_parameters=True)
    torch.manual_seed(world.rank)
    for _ in range(4):
        task.loss(model, batch).backward()
    distributed.barrier()
    return [sum(float(p.grad.sum()) for p in layer.parameters()) for layer in network.wav2vec2.encoder.layers]


def test_ranks_may_drop_different_layers(tiny: Tiny, tmp_path: Path) -> None:
    first, second = fork_ranks(partial(dropped_layers, tiny("wav2vec2")), tmp_path)
    assert first == second
    assert all(first)


def evaluated(config: Config, samples: int, folder: Path) -> dict[str, float]:  # noqa: ARG001
    world = World.of()
    world.connect(torch.device("cpu"), "gloo", 60)
    network, task, data = network_of(config).eval(), component(config, "task"), component(config, "eval_data")
    share = eval_batches(samples, 2, world)
    batches = [data.collate_fn([data[index] for index in indices]) for _, indices in share]
    with torch.no_grad():
        metrics: dict[str, float] = task.evaluate(network, batches, torch.device("cpu"))
    return metrics


@pytest.mark.parametrize("samples", [11, 1], ids=["uneven", "none on one rank"])
def test_the_metric_over_two_ranks_equals_one(tiny: Tiny, tmp_path: Path, samples: int) -> None:
    config = tiny("wav2vec2")
    first, second = fork_ranks(partial(evaluated, config, samples), tmp_path)
    assert first == second

    network, data = network_of(config).eval(), component(config, "eval_data")
    best, losses = [], []
    with torch.no_grad():
        for clip in (data[index] for index in range(samples)):
            found = network(clip["audio"], clip["masked"])
            logits = component(config, "task").logits(found.predicted, found.target, clip["negatives"])
            best += logits.argmax(dim=1).tolist()
            losses += (-logits.log_softmax(dim=1)[:, 0]).tolist()
    assert first == {
        "accuracy": pytest.approx(accuracy_score([0] * len(best), best), abs=1e-6),
        "eval_loss": pytest.approx(sum(losses) / len(losses), rel=1e-5),
    }


def test_all_equal_is_not_found(tiny: Tiny) -> None:
    """As in the original: a network that gives the same for all frames has found nothing."""

    class Same(nn.Module):
        def forward(self, audio: Tensor, masked: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            target = torch.eye(len(masked), len(masked) + 1) + 1e-6  # differ, and are equally far from the prediction
            predicted = functional.one_hot(torch.full((len(masked),), len(masked)), len(masked) + 1).float()
            return predicted, target, torch.zeros(()), audio.mean()

    config = tiny("wav2vec2")
    batch = component(config, "eval_data")[0]
    metrics = component(config, "task").evaluate(Same(), [[batch]], torch.device("cpu"))
    assert metrics["accuracy"] == 0


def lr_of_the_original(step: int, lr: float = 5e-4, warmup: int = 32000, steps: int = 400000) -> float:
    """lr after `step` optimizer steps."""
    if step <= warmup:
        return lr * step / warmup
    return lr * (1 - (step - warmup) / (steps - warmup)) if step <= steps else 0.0


def test_the_schedule_is_that_of_the_original() -> None:
    config = compose(["model=wav2vec2", "size=full", "data_dir=/data"]).config
    optimizer = component(config, "optimizer", [nn.Parameter(torch.zeros(1))])
    (factor,) = component(config, "lr_scheduler", optimizer).lr_lambdas
    steps = [0, 1, 31999, 32000, 32001, 200000, 399999, 400000, 500000]
    assert [5e-4 * factor(step) for step in steps] == pytest.approx([lr_of_the_original(step) for step in steps])
    assert config["max_steps"] == 400000
