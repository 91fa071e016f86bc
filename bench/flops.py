"""Floating-point operations of one row: a forward pass and a backward pass to the model's inputs, weights frozen.

A product with a weight is computed once in the forward pass and once in the backward pass (the gradient of its input;
frozen weights have none). The two products of attention have no weight: each needs two products in the backward pass.
Only products and convolutions count, and only what a row needs: no padding, nothing that is recomputed to save memory.
One multiplication and addition are two operations.

    layer(T)  = 2 * 2 T (4 h^2 + 2 h f) + 3 * 4 T^2 h        T tokens, h hidden size, f size of the inner layer
    text(T)   = layers * layer(T) + 2 * 2 (h^2 + h c)        c classes; BERT's pooler and classifier read one token:
                - (T - 1) (2 * 2 (2 h^2 + 2 h f) + 3 * 4 T h)    for others the last layer has keys and values only
    vit       = layers * layer(P + 1) + 2 * 2 (P h 3 p^2 + h c)          P patches of p x p pixels
    resnet    = 2 * sum over convolutions of 2 k^2 in out H W + 2 * 2 h c   H x W: output size of the convolution
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from timing import TimedDescent

from rationales.masks.objective import keeps_per_step
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch


def layers(config: Any, tokens: int) -> float:
    """Operations of the layers of an encoder with the architecture of BERT."""
    hidden, inner = config.hidden_size, config.intermediate_size
    linear = 2 * tokens * (4 * hidden**2 + 2 * hidden * inner)
    attention = 4 * tokens**2 * hidden
    return float(config.num_hidden_layers * (2 * linear + 3 * attention))


def text(config: Any, tokens: int) -> float:
    """Operations of a BERT sequence classifier on one row of `tokens` tokens."""
    hidden, inner = config.hidden_size, config.intermediate_size
    unused = (tokens - 1) * (4 * (2 * hidden**2 + 2 * hidden * inner) + 12 * tokens * hidden)
    return float(layers(config, tokens) - unused + 4 * (hidden**2 + hidden * config.num_labels))


def vit(config: Any) -> float:
    """Operations of a ViT on one picture of `config.image_size`."""
    patches = (config.image_size // config.patch_size) ** 2
    patch_embedding = patches * config.hidden_size * config.num_channels * config.patch_size**2
    return float(layers(config, patches + 1) + 4 * (patch_embedding + config.hidden_size * config.num_labels))


def resnet(config: Any, side: int) -> float:
    """Operations of a ResNet of bottleneck blocks on a picture of side x side; 3 x 3 convolutions have the stride."""

    def convolution(kernel: int, inside: int, outside: int, side: int) -> int:
        return 2 * kernel**2 * inside * outside * side**2

    side = -(-side // 2)
    total = convolution(7, config.num_channels, config.embedding_size, side)
    side, inside = -(-side // 2), config.embedding_size
    for stage, (outside, depth) in enumerate(zip(config.hidden_sizes, config.depths, strict=True)):
        narrow = outside // 4
        for block in range(depth):
            before, stride = side, 2 if block == 0 and (stage or config.downsample_in_first_stage) else 1
            side = -(-side // stride)
            total += convolution(1, inside, narrow, before) + convolution(3, narrow, narrow, side)
            total += convolution(1, narrow, outside, side)
            if inside != outside or stride != 1:
                total += convolution(1, inside, outside, side)
            inside = outside
    return float(2 * total + 4 * inside * config.num_labels)


def of_run(descent: TimedDescent, row: Callable[[int], float]) -> float:
    """All operations of one optimisation; `row(size)` gives those of one row of that size in one step."""
    owner, cost = descent.batch.rows.input.tolist(), descent.batch.cost()
    once: float = sum(descent.steps[number] * row(size) for number, size in zip(owner, cost, strict=True))
    return rows_per_step(descent.method, descent.batch) * once


def rows_per_step(settings: MaskSettings, batch: Batch) -> float:
    """How often a step runs each row of the batch, on average: rationale and complement of every mask.

    With `views="turn"` a step uses one of the baselines only, so that a row runs in one of `batch.views` steps.
    """
    keeps = keeps_per_step(settings)
    return keeps / batch.views if settings.views == "turn" else keeps
