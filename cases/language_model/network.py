"""Decoder-only networks of transformers, whose forward pass gives the loss of each token.

The configuration class of transformers chooses attention, norm, MLP, experts and positions; its values are those of a
published config.json. So a further network is YAML only:

    network:
      _target_: cases.language_model.network.decoder
      config: {_target_: transformers.Qwen3Config, vocab_size: 151936, …}
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, GPT2LMHeadModel, LlamaForCausalLM, PretrainedConfig

from flagperf.trainer.pytorch.parallel.stages import Passed

if TYPE_CHECKING:
    from flagperf.trainer.pytorch.parallel.context import Context

SLIDING = "sliding_attention"  # transformers' word for layers that see `sliding_window` places only


def decoder(config: PretrainedConfig, loss_chunk: int | None = None, **arguments: Any) -> nn.Module:
    """The network of a configuration of transformers, with its own loss.

    Args:
        config: of a network of transformers for causal language modelling.
        loss_chunk: as in Decoder.
        arguments: of `cases.language_model.experts.Experts`, where the network has experts.
    """
    library: type[nn.Module] = AutoModelForCausalLM._model_mapping[type(config)]
    made: nn.Module = _class_of(library, _has_experts(config))(config, loss_chunk=loss_chunk, **arguments)
    return made


class Decoder(nn.Module):
    """The first base of a network of transformers: its own loss, and each layer called directly.

    The forward pass of transformers would check on the device whether the batch holds packed sequences, and the host
    would wait for this check. It would also make the logits of all tokens at once; with a large vocabulary these need
    more memory than all else.

    Args:
        config: of the network.
        loss_chunk: tokens whose logits are there at the same time; they are computed once more in the backward pass.
            None: those of all tokens, once.
    """

    config: Any
    lm_head: nn.Module
    context: Any = None  # a Context: the part of each sequence that this rank computes; None: all

    def __init__(self, config: PretrainedConfig, loss_chunk: int | None = None) -> None:
        super().__init__(config)  # type: ignore[arg-type]  # of the network of transformers
        self.loss_chunk = loss_chunk

    def divide_sequences(self, context: Context) -> None:
        """Compute this rank's part of each sequence only."""
        from cases.language_model.context import attend_to_all_ranks

        self.context = context
        attend_to_all_ranks(self.config, context)

    def forward(
        self, tokens: Tensor, labels: Tensor, received: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Cross-entropy of each label in nat, float32, [samples x length]; tokens and labels are [samples, length].

        Args:
            received: output of the stage before, in a pipeline. All stages but the last give their own output.
            documents: number of each token's document, [samples, length]. A token sees those of its document only, and
                positions count from the begin of the document. None: a sequence is one document.
        """
        output = self.hidden(tokens, received, documents)
        if isinstance(self.lm_head, Passed):
            return output
        if self.context is None:
            return self._all_losses(output, labels)
        losses: Any = self._all_losses(output, self.context.part(labels))
        losses = losses.to_local() if hasattr(losses, "to_local") else losses  # of loss parallelism
        return self.context.gather(losses.unflatten(0, (len(labels), -1))).flatten()

    def _all_losses(self, output: Tensor, labels: Tensor) -> Tensor:
        hidden, wanted = output.flatten(0, 1), labels.flatten()
        if self.loss_chunk is None:
            return self.losses(hidden, wanted)
        parts = zip(hidden.split(self.loss_chunk), wanted.split(self.loss_chunk))
        return torch.cat([self._in_less_memory(*part) for part in parts])

    def hidden(self, tokens: Tensor, received: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """The output of the last layer, [samples, places, width]. Each token attends to those before it."""
        model: Any = self.model
        tokens, places = self._with_places(tokens)
        positions = self.positions(places, documents)
        hidden = model.embed_tokens(tokens) if received is None else received
        rotation = self.rotation(hidden, positions)
        kinds = getattr(self.config, "layer_types", None) or [None] * len(model.layers)
        masks = {kind: self.mask(hidden, places, kind, documents) for kind in dict.fromkeys(kinds)}
        for layer, kind in zip(model.layers, kinds):
            made = layer(hidden, attention_mask=masks[kind], position_ids=positions, position_embeddings=rotation)
            hidden = made[0] if isinstance(made, tuple) else made  # transformers 4 gives a tuple
        return model.norm(hidden)  # type: ignore[no-any-return]

    def _with_places(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """This rank's part of the tokens, and the places of this part in a sequence, [1, places]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)[None]
        return (tokens, places) if self.context is None else (self.context.part(tokens), self.context.part(places))

    def positions(self, places: Tensor, documents: Tensor | None) -> Tensor:
        """The positions of this rank's places in their sequence or document, [1 or samples, places].

        Args:
            documents: of the whole sequences.
        """
        if documents is None:
            return places
        whole = torch.arange(documents.shape[1], device=places.device)[None]
        begins = functional.pad(documents[:, 1:] != documents[:, :-1], (1, 0))
        positions = whole - torch.where(begins, whole, torch.zeros_like(whole)).cummax(1).values
        return positions if self.context is None else self.context.part(positions)

    def rotation(self, hidden: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of the rotary positions, [1 or samples, places, rotated width of a head]."""
        return self.model.rotary_emb(hidden, places)  # type: ignore[no-any-return, operator, union-attr]

    def mask(
        self, hidden: Tensor, places: Tensor, kind: str | None = None, documents: Tensor | None = None
    ) -> Tensor | None:
        """The numbers to add to the attention scores, [1 or samples, 1, places, length].

        None: the kernel is causal by itself.

        transformers computes attention in plain operations where torch is older than 2.1.1.

        Args:
            places: of the tokens, [1, places].
            kind: of a layer; a layer of SLIDING sees itself and the `sliding_window` - 1 places before.
            documents: of the whole sequences; a place sees those of its document.
        """
        window = self.config.sliding_window if kind == SLIDING else None
        causal = self.config._attn_implementation.endswith("sdpa")  # also that of context.py
        if window is None and documents is None and causal:
            return None
        unseen = self.unseen(places, window, documents)
        zeros = torch.zeros(unseen.shape, dtype=hidden.dtype, device=hidden.device)
        return zeros.masked_fill(unseen, torch.finfo(hidden.dtype).min)[:, None]

    def unseen(self, places: Tensor, window: int | None = None, documents: Tensor | None = None) -> Tensor:
        """Which places of the whole sequence a place does not see, [1 or samples, places, length]."""
        distance = self.distances(places)
        unseen = distance < 0 if window is None else (distance < 0) | (distance >= window)
        if documents is None:
            return unseen
        own = documents if self.context is None else self.context.part(documents)
        return unseen | (own[..., None] != documents[:, None])

    def distances(self, places: Tensor) -> Tensor:
        """How far each place of the whole sequence lies before each of some places, [1, places, length]."""
        length = places.shape[1] * (1 if self.context is None else self.context.ranks)
        return places[..., None] - torch.arange(length, device=places.device)

    def losses(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of each label, [tokens], from the output of the last layer, [tokens, width]."""
        return functional.cross_entropy(self.lm_head(hidden).float(), labels, reduction="none")

    def _in_less_memory(self, hidden: Tensor, labels: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self.losses(hidden, labels)
        return checkpoint(self.losses, hidden, labels, use_reentrant=False)  # type: ignore[no-any-return]


class LearnedPositions(Decoder):
    """The same for GPT-2 of transformers, which has a learned vector for each position, and dropout."""

    def hidden(self, tokens: Tensor, received: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """The output of the last layer, [samples, places, width]."""
        model: Any = self.transformer
        tokens, places = self._with_places(tokens)
        if received is None:
            hidden = model.drop(model.wte(tokens) + model.wpe(self.positions(places, documents)))
        else:
            hidden = received
        mask = self.mask(hidden, places, documents=documents)
        for layer in model.h:
            made = layer(hidden, attention_mask=mask)
            hidden = made[0] if isinstance(made, tuple) else made
        return model.ln_f(hidden)  # type: ignore[no-any-return]


def _has_experts(config: PretrainedConfig) -> bool:
    return getattr(config, "num_experts_per_tok", None) is not None


@lru_cache(maxsize=None)
def _class_of(library: type[nn.Module], experts: bool = False) -> Any:
    """A class of this module whose second base is a network of transformers: MixtralForCausalLM → Mixtral."""
    first: type[nn.Module] = LearnedPositions if issubclass(library, GPT2LMHeadModel) else Decoder
    if experts:
        from cases.language_model.experts import Experts

        first = Experts
    name = library.__name__.replace("ForCausalLM", "").replace("LMHeadModel", "")
    return type(name, (first, library), {"__module__": __name__})


Llama: Any = _class_of(LlamaForCausalLM)
