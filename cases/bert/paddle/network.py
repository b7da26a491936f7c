"""BERT (arXiv:1810.04805) for pre-training, of Paddle's layers, with predictions of the masked words only."""

from __future__ import annotations

from dataclasses import dataclass

import paddle
from paddle import ParamAttr, Tensor, nn
from paddle.nn import functional
from paddle.nn.initializer import Normal

PAD = 0  # token of the padding; its row of the embedding learns from the scores of the words only
EPSILON = 1e-12  # of the layer norms
BLOCKED = -1e4  # added to the score of a padded place: its exponential is 0 in fp16, too


@dataclass(frozen=True)
class Config:
    """Sizes of the network, by the names of BERT's bert_config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float
    initializer_range: float  # standard deviation of the first weights
    type_vocab_size: int = 2


class BertForMaskedPlaces(nn.Layer):  # type: ignore[misc]
    """Embeddings, encoder, and the scores of words and of the next sentence."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        random = ParamAttr(initializer=Normal(0.0, config.initializer_range))
        hidden = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, hidden, weight_attr=random)
        self.places = nn.Embedding(config.max_position_embeddings, hidden, weight_attr=random)
        self.segments = nn.Embedding(config.type_vocab_size, hidden, weight_attr=random)
        self.embedding_norm = nn.LayerNorm(hidden, EPSILON)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        layer = nn.TransformerEncoderLayer(
            hidden,
            config.num_attention_heads,
            config.intermediate_size,
            dropout=config.hidden_dropout_prob,
            activation="gelu",
            attn_dropout=config.attention_probs_dropout_prob,
            act_dropout=0.0,
            weight_attr=random,
            layer_norm_eps=EPSILON,
        )
        self.encoder = nn.TransformerEncoder(layer, config.num_hidden_layers)
        self.pooler = nn.Linear(hidden, hidden, weight_attr=random)
        self.transform = nn.Linear(hidden, hidden, weight_attr=random)
        self.transform_norm = nn.LayerNorm(hidden, EPSILON)
        self.words_bias = self.create_parameter([config.vocab_size], is_bias=True)
        self.follows = nn.Linear(hidden, 2, weight_attr=random)

    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, input_mask: Tensor, masked_places: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Scores of the words [texts * predictions, vocabulary], and of "follows" and "does not" [texts, 2].

        Args:
            input_ids: tokens, [texts, length], as are segment_ids and input_mask.
            segment_ids: 1 in the second sentence.
            input_mask: 1 where a token is, 0 in the padding.
            masked_places: places to predict, [texts, predictions].
        """
        texts, length = input_ids.shape
        summed = self._embedded(input_ids) + self.segments(segment_ids) + self.places.weight[:length]
        blocked = (1.0 - input_mask.astype("float32")) * BLOCKED
        hidden = self.encoder(self.dropout(self.embedding_norm(summed)), blocked.reshape([texts, 1, 1, length]))
        rows = masked_places + paddle.arange(texts).unsqueeze(-1) * length
        masked = paddle.gather(hidden.reshape([texts * length, -1]), rows.flatten())
        transformed = self.transform_norm(functional.gelu(self.transform(masked)))
        words = paddle.matmul(transformed, self.words.weight, transpose_y=True) + self.words_bias
        return words, self.follows(functional.tanh(self.pooler(hidden[:, 0])))

    def _embedded(self, tokens: Tensor) -> Tensor:
        """The rows of the words. As in PyTorch's network, the row of the padding gets no gradient from here."""
        rows = functional.embedding(tokens, self.words.weight, padding_idx=PAD)  # zeros where the padding is
        padding = (tokens == PAD).astype(rows.dtype).unsqueeze(-1)
        return rows + padding * self.words.weight[PAD].detach()
