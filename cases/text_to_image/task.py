"""Images from texts: the network learns the velocity of latents, with rectified flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cases.diffusion.flow import Batch, Flow

PATCH = 2  # latents of a side of a patch


class TextToImage(Flow):
    """Batches of cases.text_to_image.data.Embedded, for the network of FLUX.1."""

    one_call_per_batch = True

    @override
    def images(self, batch: Batch) -> Tensor:
        return batch["latent"]

    @override
    def velocity(self, network: nn.Module, noised: Tensor, times: Tensor, batch: Batch) -> Tensor:
        patches = functional.pixel_unshuffle(noised, PATCH)
        rows, columns = patches.shape[-2:]
        (result,) = network(
            hidden_states=patches.flatten(2).transpose(1, 2),
            encoder_hidden_states=batch["text"].to(noised.dtype),
            pooled_projections=batch["pooled"].to(noised.dtype),
            timestep=times,
            img_ids=places(rows, columns, noised.device),
            txt_ids=torch.zeros(batch["text"].shape[1], 3, device=noised.device),
            return_dict=False,
        )
        return functional.pixel_shuffle(result.transpose(1, 2).unflatten(2, (rows, columns)), PATCH)

    def example(self, config: Mapping[str, Any]) -> Batch:
        """One pair."""
        latent = torch.zeros(1, config["latent_channels"], config["latent_size"], config["latent_size"])
        text = torch.zeros(1, config["text_tokens"], config["network"]["joint_attention_dim"], dtype=torch.bfloat16)
        pooled = torch.zeros(1, config["network"]["pooled_projection_dim"], dtype=torch.bfloat16)
        return {"latent": latent, "text": text, "pooled": pooled, "noise": latent, "time": torch.zeros(1)}


def places(rows: int, columns: int, device: torch.device) -> Tensor:
    """Zero, the row and the column of each patch, [patches, 3]."""
    grid = torch.cartesian_prod(torch.arange(rows, device=device), torch.arange(columns, device=device))
    return functional.pad(grid, (1, 0)).float()
