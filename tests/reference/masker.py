"""A masker's prediction for one row, word by word and token by token, from its weights."""

from __future__ import annotations

import math

import torch


def predict(network, internals, owner, target, context, limits):
    """Lists of w and sigma, one for each word of a row without padding.

    internals: embeddings and hidden states of this row (R = 1); owner: word of each token, None for special tokens;
    context: the model's probabilities and log(1 + words) - 4; limits: smallest and largest sigma.
    """
    weights = {name: value.detach() for name, value in network.named_parameters()}
    shape = network.shape
    tokens = []
    share = [math.exp(logit) for logit in weights["layer_mix"].tolist()]
    for position in range(internals.words.shape[1]):
        value = _linear(weights, "embedding_projection", _normal(internals.words[0, position]))
        if shape.state_size:
            layers = zip(share, internals.states, strict=True)
            mixed = sum(weight / sum(share) * _normal(state[0, position]) for weight, state in layers)
            value = value + weights["state_projection.weight"] @ mixed
        tokens.append(
            value + weights["target_embedding.weight"][target] + _linear(weights, "context_projection", context)
        )
    for layer in range(shape.layers):
        tokens = _layer(weights, f"layers.{layer}.", tokens, shape)
    tokens = [_normal(token) * weights["final_norm.weight"] + weights["final_norm.bias"] for token in tokens]
    outputs = []
    for token in tokens:
        shift, wide = _linear(weights, "output_head", token).tolist()
        outputs.append((float(weights["class_query.weight"][target] @ token) + shift, wide))
    w, sigma = [], []
    for word in range(max(word for word in owner if word is not None) + 1):
        word_outputs = [outputs[position] for position in range(len(outputs)) if owner[position] == word]
        w.append(sum(output[0] for output in word_outputs) / len(word_outputs))
        height = 1 / (1 + math.exp(-sum(output[1] for output in word_outputs) / len(word_outputs)))
        sigma.append(limits[0] * (limits[1] / limits[0]) ** height)
    return w, sigma


def _layer(weights, name, tokens, shape):
    size = shape.width // shape.heads
    norms = [(weights[f"{name}norms.{number}.weight"], weights[f"{name}norms.{number}.bias"]) for number in range(3)]
    projections = [
        _linear(weights, f"{name}query_key_value", _normal(token) * norms[0][0] + norms[0][1]).split(shape.width)
        for token in tokens
    ]
    mixed = []
    for query, _, _ in projections:
        answer = []
        for head in range(shape.heads):
            head_slice = slice(head * size, (head + 1) * size)
            score = torch.stack(
                [query[head_slice] @ key[head_slice] / math.sqrt(size) for _, key, _ in projections]
            ).softmax(0)
            answer.append(
                sum(token * value[head_slice] for token, (_, _, value) in zip(score, projections, strict=True))
            )
        mixed.append(_linear(weights, f"{name}attention_output", torch.cat(answer)))
    tokens = [token + addition for token, addition in zip(tokens, mixed, strict=True)]
    normed = [_normal(token) * norms[1][0] + norms[1][1] for token in tokens]
    near = []
    for position in range(len(tokens)):
        value = weights[f"{name}convolution.bias"].clone()
        for step in range(-shape.convolution_reach, shape.convolution_reach + 1):
            if 0 <= position + step < len(tokens):
                value = (
                    value
                    + weights[f"{name}convolution.weight"][:, 0, step + shape.convolution_reach]
                    * normed[position + step]
                )
        near.append(_gelu(value))
    tokens = [token + addition for token, addition in zip(tokens, near, strict=True)]
    inner = [
        _gelu(_linear(weights, f"{name}feed_forward_in", _normal(token) * norms[2][0] + norms[2][1]))
        for token in tokens
    ]
    return [
        token + _linear(weights, f"{name}feed_forward_out", addition)
        for token, addition in zip(tokens, inner, strict=True)
    ]


def _linear(weights, name, value):
    return weights[f"{name}.weight"] @ value + weights[f"{name}.bias"]


def _normal(value):
    return (value - value.mean()) / (value.var(unbiased=False) + 1e-5).sqrt()


def _gelu(value):
    return value * 0.5 * (1 + torch.erf(value / math.sqrt(2)))
