"""Methods that look inside a transformer, written out token by token from the papers, for one text and a BERT.

Rollout, Chefer's attribution and transition attention also for one picture and a vision transformer, whose classifier
reads the first token or the first two: the scores are then the mean of those of the two. Attention weights
are those that transformers returns with eager attention, hidden states those that it returns itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn


def eager_pass(module: nn.Module, encoding: Any) -> SimpleNamespace:
    """A copy of the module with eager attention, and what it returns: attentions, hidden_states, logits."""
    plain = copy.deepcopy(module).eval()
    plain.config._attn_implementation = "eager"
    output = plain(**encoding, output_attentions=True, output_hidden_states=True)
    return SimpleNamespace(
        module=plain,
        attentions=list(output.attentions),
        states=list(output.hidden_states),
        logits=output.logits,
        layers=[_named_as_in_bert(layer) for layer in _layers(plain.base_model)],
    )


def _layers(encoder: Any) -> list[Any]:
    if hasattr(encoder, "layers"):  # a vision transformer
        return list(encoder.layers)
    return list(encoder.transformer.layer if hasattr(encoder, "transformer") else encoder.encoder.layer)


def _named_as_in_bert(layer: Any) -> Any:
    """A layer of DistilBERT under BERT's names; layers of other encoders have them."""
    if not hasattr(layer, "sa_layer_norm"):
        return layer
    attention = SimpleNamespace(
        self=SimpleNamespace(value=layer.attention.v_lin),
        output=SimpleNamespace(dense=layer.attention.out_lin, LayerNorm=layer.sa_layer_norm),
    )
    return SimpleNamespace(
        attention=attention,
        intermediate=lambda states: layer.ffn.activation(layer.ffn.lin1(states)),
        output=SimpleNamespace(dense=layer.ffn.lin2, LayerNorm=layer.output_layer_norm),
    )


def rollout(module: nn.Module, encoding: Any, read_tokens: int = 1) -> Tensor:
    """(T,): Abnar and Zuidema 2020: the product of 0.5 A + 0.5 I, rows normalised."""
    run = eager_pass(module, encoding)
    tokens = run.attentions[0].shape[-1]
    joint = torch.eye(tokens)
    for attention in run.attentions:
        mixed = 0.5 * attention[0].mean(0) + 0.5 * torch.eye(tokens)
        joint = (mixed / mixed.sum(1, keepdim=True)) @ joint
    return joint[:read_tokens].mean(0)


def chefer(module: nn.Module, encoding: Any, target: int, read_tokens: int = 1) -> Tensor:
    """(T,): Chefer et al. 2021 (Generic Attention), with autograd's gradient at the attention itself."""
    run = eager_pass(module, encoding)
    gradients = torch.autograd.grad(run.logits[0, target], run.attentions)
    relevance = torch.eye(run.attentions[0].shape[-1])
    for attention, gradient in zip(run.attentions, gradients, strict=True):
        weighted = (gradient[0] * attention[0]).clamp(min=0).mean(0)
        relevance = relevance + weighted @ relevance
    return relevance[:read_tokens].mean(0)


def transition_attention(
    module: nn.Module, encoding: Any, target: int, steps: int, start_layer: int, read_tokens: int = 1
) -> Tensor:
    """(T,): Yuan et al. 2021: a Markov chain over attention times integrated gradients at the last attention."""
    parts = [_transitions(module, encoding, target, steps, start_layer, token) for token in range(read_tokens)]
    return torch.stack(parts).mean(0)


def _transitions(
    module: nn.Module, encoding: Any, target: int, steps: int, start_layer: int, read_token: int
) -> Tensor:
    """(T,): for one of the tokens that are read."""
    run = eager_pass(module, encoding)
    mean_attention = [attention[0].mean(0).detach() for attention in run.attentions]
    tokens = len(mean_attention[0])
    state = mean_attention[-1][read_token]
    for number in range(len(mean_attention) - 2, start_layer - 1, -1):
        state = torch.tensor(
            [float(state[j]) + sum(float(state[i] * mean_attention[number][i, j]) for i in range(tokens))
             for j in range(tokens)]
        )  # fmt: skip
    total = torch.zeros_like(run.attentions[-1][0]).detach()
    for step in range(steps):
        output = run.module(**_scaled(run.module, encoding, step / (steps - 1)), output_attentions=True)
        total += torch.autograd.grad(output.logits[0, target], output.attentions[-1])[0][0]
    weights = (total / steps).clamp(min=0).mean(0)[read_token]
    return state * weights


def _scaled(module: nn.Module, encoding: Any, share: float) -> dict[str, Tensor]:
    """The input, multiplied by `share`: pixels, or the embeddings of words."""
    if "pixel_values" in encoding:
        return {"pixel_values": share * encoding["pixel_values"]}
    words: Any = module.get_input_embeddings()
    scaled = share * words(encoding["input_ids"]).detach()
    return {"inputs_embeds": scaled, "attention_mask": encoding["attention_mask"]}


def _norm(norm: nn.LayerNorm, vector: Tensor, of: Tensor) -> Tensor:
    """The linear part of a layer norm, with the standard deviation of the vector `of`."""
    return (vector - vector.mean()) / torch.sqrt(of.var(unbiased=False) + norm.eps) * norm.weight


def _attended(layer: Any, attention: Tensor, i: int, j: int, state: Tensor, bias: bool) -> Tensor:
    """What attention brings from token j to token i: sum over heads of A_ij W_O^h W_V^h x_j."""
    value, dense, heads = layer.attention.self.value, layer.attention.output.dense, attention.shape[0]
    size = value.out_features // heads
    total = torch.zeros(dense.out_features)
    for head in range(heads):
        span = slice(head * size, (head + 1) * size)
        vector = value.weight[span] @ state + (value.bias[span] if bias else 0)
        total = total + attention[head, i, j] * (dense.weight[:, span] @ vector)
    return total


def _block(layer: Any, attention: Tensor, states: Tensor) -> Tensor:
    """(T, d): the input of the attention block's layer norm."""
    dense = layer.attention.output.dense
    rows = []
    for i in range(len(states)):
        parts = [_attended(layer, attention, i, j, states[j], bias=True) for j in range(len(states))]
        rows.append(torch.stack(parts).sum(0) + dense.bias + states[i])
    return torch.stack(rows)


def alti(module: nn.Module, encoding: Any) -> Tensor:
    """(T,): Ferrando et al. 2022, layer by layer."""
    run = eager_pass(module, encoding)
    joint = torch.eye(run.states[0].shape[1])
    for layer, attention, states in zip(run.layers, run.attentions, run.states[:-1], strict=True):
        tokens, norm = states.shape[1], layer.attention.output.LayerNorm
        before = _block(layer, attention[0], states[0])
        shares = torch.zeros(tokens, tokens)
        for i in range(tokens):
            output = norm(before[i])
            for j in range(tokens):
                vector = _attended(layer, attention[0], i, j, states[0, j], bias=False)
                if i == j:
                    vector = vector + states[0, i]
                distance = (output - _norm(norm, vector, before[i])).abs().sum()
                shares[i, j] = max(0.0, float(output.abs().sum() - distance))
            shares[i] /= shares[i].sum()
        joint = shares @ joint
    return joint[0]


def globenc(module: nn.Module, encoding: Any) -> Tensor:
    """(T,): Modarressi et al. 2022: vectors through both norms, their lengths multiplied through layers."""
    run = eager_pass(module, encoding)
    joint = torch.eye(run.states[0].shape[1])
    for layer, attention, states in zip(run.layers, run.attentions, run.states[:-1], strict=True):
        tokens, norm = states.shape[1], layer.attention.output.LayerNorm
        before = _block(layer, attention[0], states[0])
        shares = torch.zeros(tokens, tokens)
        for i in range(tokens):
            attended = norm(before[i])
            inner = layer.output.dense(layer.intermediate(attended[None, None]))[0, 0]
            for j in range(tokens):
                vector = _attended(layer, attention[0], i, j, states[0, j], bias=True)
                if i == j:
                    vector = vector + states[0, i]
                vector = _norm(norm, vector, before[i])
                shares[i, j] = _norm(layer.output.LayerNorm, vector, attended + inner).norm()
            shares[i] /= shares[i].sum()
        joint = shares @ joint
    return joint[0]


def decompx(module: nn.Module, encoding: Any) -> Tensor:
    """(T, classes): Modarressi et al. 2023, vector by vector; biases by absolute dot products."""
    run = eager_pass(module, encoding)
    tokens = run.states[0].shape[1]

    def add_bias(vectors: list[Tensor], bias: Tensor) -> list[Tensor]:
        weights = [(bias @ vector).abs() for vector in vectors]
        total = sum(weights)
        shares = [weight / total if total > 0 else 1 / len(vectors) for weight in weights]
        return [vector + share * bias for vector, share in zip(vectors, shares, strict=True)]

    def linear(vectors: list[Tensor], layer: nn.Linear) -> list[Tensor]:
        return add_bias([layer.weight @ vector for vector in vectors], layer.bias)

    def norm(vectors: list[Tensor], layer: nn.LayerNorm) -> list[Tensor]:
        total = torch.stack(vectors).sum(0)
        return add_bias([_norm(layer, vector, total) for vector in vectors], layer.bias)

    def activated(vectors: list[Tensor], activation: Any) -> list[Tensor]:
        total = torch.stack(vectors).sum(0)
        return [activation(total) / total * vector for vector in vectors]

    def added(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
        return [left + right for left, right in zip(first, second, strict=True)]

    states = run.states[0][0]
    decomposed = [[states[i] if i == k else torch.zeros_like(states[i]) for k in range(tokens)] for i in range(tokens)]
    for layer, attention in zip(run.layers, run.attentions, strict=True):
        values = [linear(vectors, layer.attention.self.value) for vectors in decomposed]
        heads, width = attention.shape[1], states.shape[-1]
        result = []
        for i in range(tokens):
            context = []
            for k in range(tokens):
                vector = torch.zeros(width)
                for j in range(tokens):
                    weight = attention[0, :, i, j].repeat_interleave(width // heads)
                    vector = vector + weight * values[j][k]
                context.append(vector)
            attended = linear(context, layer.attention.output.dense)
            attended = norm(added(attended, decomposed[i]), layer.attention.output.LayerNorm)
            inner = activated(linear(attended, layer.intermediate.dense), layer.intermediate.intermediate_act_fn)
            result.append(norm(added(linear(inner, layer.output.dense), attended), layer.output.LayerNorm))
        decomposed = result
    pooled = activated(linear(decomposed[0], run.module.bert.pooler.dense), torch.tanh)
    return torch.stack(linear(pooled, run.module.classifier))


def sequential_ig(score: Callable[[Tensor], Tensor], full: Tensor, empty: Tensor, word: Tensor, steps: int) -> Tensor:
    """(words,): Enguehard 2023: for each word a path of its own, from the baseline to the text.

    `score`: (T, hidden) -> a number; `full`, `empty`: the embeddings of the text and of the baseline; `word` (T,): the
    word of each token, -1 for special tokens. The integral is a sum over the midpoints of `steps` intervals.
    """
    attributions = []
    for number in range(int(word.max()) + 1):
        total = torch.zeros_like(full)
        for step in range(steps):
            point = full.clone()
            for token in range(len(full)):
                if word[token] == number:
                    point[token] = empty[token] + (step + 0.5) / steps * (full[token] - empty[token])
            point.requires_grad_()
            total += torch.autograd.grad(score(point), point)[0] / steps
        moved = (word == number)[:, None]
        attributions.append((moved * (full - empty) * total).sum())
    return torch.stack(attributions)
