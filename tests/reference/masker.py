"""A masker's prediction for one row, word by word and token by token, from its weights."""

from __future__ import annotations

import math

import torch


def predict(network, seen, owner, target, said, limits):
    """Lists of w and sigma, one for each word of a row without padding.

    seen: what the explained model shows of this row (R = 1); owner: per token its word, or None for special tokens;
    said: the model's probabilities and log(1 + words) - 4; limits: smallest and largest sigma.
    """
    weights = {name: value.detach() for name, value in network.named_parameters()}
    shape = network.shape
    tokens = []
    share = [math.exp(one) for one in weights["mix"].tolist()]
    for place in range(seen.words.shape[1]):
        value = _linear(weights, "words", _normal(seen.words[0, place]))
        if shape.states:
            parts = zip(share, seen.states, strict=True)
            mixed = sum(one / sum(share) * _normal(state[0, place]) for one, state in parts)
            value = value + weights["states.weight"] @ mixed
        tokens.append(value + weights["target.weight"][target] + _linear(weights, "said", said))
    for layer in range(shape.layers):
        tokens = _layer(weights, f"layers.{layer}.", tokens, shape)
    tokens = [_normal(one) * weights["last.weight"] + weights["last.bias"] for one in tokens]
    found = []
    for one in tokens:
        shift, wide = _linear(weights, "more", one).tolist()
        found.append((float(weights["weight.weight"][target] @ one) + shift, wide))
    w, sigma = [], []
    for word in range(max(one for one in owner if one is not None) + 1):
        own = [found[place] for place in range(len(found)) if owner[place] == word]
        w.append(sum(one[0] for one in own) / len(own))
        height = 1 / (1 + math.exp(-sum(one[1] for one in own) / len(own)))
        sigma.append(limits[0] * (limits[1] / limits[0]) ** height)
    return w, sigma


def _layer(weights, name, tokens, shape):
    size = shape.width // shape.heads
    norms = [(weights[f"{name}norms.{number}.weight"], weights[f"{name}norms.{number}.bias"]) for number in range(3)]
    asked = [
        _linear(weights, f"{name}ask", _normal(one) * norms[0][0] + norms[0][1]).split(shape.width) for one in tokens
    ]
    mixed = []
    for query, _, _ in asked:
        answer = []
        for head in range(shape.heads):
            part = slice(head * size, (head + 1) * size)
            score = torch.stack([query[part] @ key[part] / math.sqrt(size) for _, key, _ in asked]).softmax(0)
            answer.append(sum(one * value[part] for one, (_, _, value) in zip(score, asked, strict=True)))
        mixed.append(_linear(weights, f"{name}answer", torch.cat(answer)))
    tokens = [one + more for one, more in zip(tokens, mixed, strict=True)]
    normed = [_normal(one) * norms[1][0] + norms[1][1] for one in tokens]
    near = []
    for place in range(len(tokens)):
        value = weights[f"{name}near.bias"].clone()
        for step in range(-shape.reach, shape.reach + 1):
            if 0 <= place + step < len(tokens):
                value = value + weights[f"{name}near.weight"][:, 0, step + shape.reach] * normed[place + step]
        near.append(_gelu(value))
    tokens = [one + more for one, more in zip(tokens, near, strict=True)]
    inner = [_gelu(_linear(weights, f"{name}inner", _normal(one) * norms[2][0] + norms[2][1])) for one in tokens]
    return [one + _linear(weights, f"{name}outer", more) for one, more in zip(tokens, inner, strict=True)]


def _linear(weights, name, value):
    return weights[f"{name}.weight"] @ value + weights[f"{name}.bias"]


def _normal(value):
    return (value - value.mean()) / (value.var(unbiased=False) + 1e-5).sqrt()


def _gelu(value):
    return value * 0.5 * (1 + torch.erf(value / math.sqrt(2)))
