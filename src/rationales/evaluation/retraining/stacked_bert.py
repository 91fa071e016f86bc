"""BERT classifiers with stacked weights: the forward pass of many classifiers, each on texts of its own, as one.

The same function as `torch.func.vmap` over the module, with half of its cost on the host: products of stacked matrices,
and fused attention, which has no weights, over the texts of all classifiers. A test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import dropout, embedding, layer_norm, one_hot, scaled_dot_product_attention

WORDS = "bert.embeddings.word_embeddings.weight"  # the only weights whose rows are looked up by tokens
# with a mask; others are prepared anew for every length of the texts, which takes longer than a step
ATTENTION_KERNELS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_SUPPORTED = "transformers.models.bert.modeling_bert.BertForSequenceClassification"


def can_stack(module: nn.Module) -> bool:
    """Whether `StackedBert` computes what this module does: transformers' own BERT classifier, an encoder."""
    kind, config = type(module), getattr(module, "config", None)
    known = f"{kind.__module__}.{kind.__qualname__}" == _SUPPORTED and not getattr(config, "is_decoder", False)
    absolute = getattr(config, "position_embedding_type", None) in (None, "absolute")
    hooks = any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())  # noqa: SLF001
    return known and absolute and not hooks and WORDS in dict(module.named_parameters())


@dataclass(frozen=True, eq=False)
class StackedBert:
    """The forward pass in training mode; the module gives the sizes, the activation and the shares of dropout."""

    module: Any

    def logits(self, weights: Mapping[str, Tensor], arguments: Mapping[str, Tensor]) -> Tensor:
        """(M, R, outputs): logits of M classifiers for R texts each; weights by name, (M, ...), arguments (M, R, T).

        `input_ids` are rows of the stacked word embeddings.
        """
        bert, ids, attended = self.module.bert, arguments["input_ids"], arguments["attention_mask"]
        models, texts, tokens = ids.shape
        heads = bert.config.num_attention_heads
        mask = attended.view(models * texts, 1, 1, tokens).bool()

        def product(x: Tensor, name: str) -> Tensor:
            return torch.baddbmm(weights[f"{name}.bias"][:, None], x, weights[f"{name}.weight"].transpose(1, 2))

        def norm(x: Tensor, name: str, layer: nn.LayerNorm) -> Tensor:
            gain, shift = weights[f"{name}.weight"][:, None], weights[f"{name}.bias"][:, None]
            return torch.addcmul(shift, layer_norm(x, layer.normalized_shape, eps=layer.eps), gain)

        def by_head(x: Tensor) -> Tensor:
            return x.view(models * texts, tokens, heads, -1).transpose(1, 2)

        x = self._embeddings(weights, ids, arguments.get("token_type_ids"))
        x = norm(x, "bert.embeddings.LayerNorm", bert.embeddings.LayerNorm)
        x = dropout(x, bert.embeddings.dropout.p)
        for number, layer in enumerate(bert.encoder.layer):
            name = f"bert.encoder.layer.{number}"
            query, key, value = (
                by_head(product(x, f"{name}.attention.self.{role}")) for role in ("query", "key", "value")
            )
            probability_dropout = layer.attention.self.dropout.p
            with sdpa_kernel(ATTENTION_KERNELS):
                mixed = scaled_dot_product_attention(query, key, value, mask, probability_dropout)
            mixed = mixed.transpose(1, 2).reshape(models, texts * tokens, -1)
            attention = dropout(product(mixed, f"{name}.attention.output.dense"), layer.attention.output.dropout.p)
            x = norm(x + attention, f"{name}.attention.output.LayerNorm", layer.attention.output.LayerNorm)
            inner = layer.intermediate.intermediate_act_fn(product(x, f"{name}.intermediate.dense"))
            inner = dropout(product(inner, f"{name}.output.dense"), layer.output.dropout.p)
            x = norm(x + inner, f"{name}.output.LayerNorm", layer.output.LayerNorm)
        first = x.view(models, texts, tokens, -1)[:, :, 0]
        pooled = bert.pooler.activation(product(first, "bert.pooler.dense"))
        return product(dropout(pooled, self.module.dropout.p), "classifier")

    def _embeddings(self, weights: Mapping[str, Tensor], ids: Tensor, types: Tensor | None) -> Tensor:
        """(M, R * T, hidden): the sum of word, position and type embeddings."""
        models, texts, tokens = ids.shape
        words = weights[WORDS]
        first_rows = torch.arange(models, device=ids.device)[:, None, None] * words.shape[1]
        word_vectors = embedding(ids + first_rows, words.flatten(0, 1))
        positions = weights["bert.embeddings.position_embeddings.weight"][:, None, :tokens]
        kinds = weights["bert.embeddings.token_type_embeddings.weight"]
        if types is None:
            type_vectors = kinds[:, :1]
        else:
            type_vectors = torch.bmm(one_hot(types.flatten(1), kinds.shape[1]).to(kinds.dtype), kinds)
        vectors = (word_vectors + positions).view(models, texts * tokens, -1)
        return vectors + type_vectors
