"""Winning probabilities of the neurons of some layers: from the explained output down (Zhang et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.methods.support.excitation import ExcitationMode, above_minimum, activations_detached
from rationales.models.batch.batch import NO_GRADIENTS
from rationales.models.image.feature_maps import FeatureMap, watch_outputs

Forward = Callable[[Tensor], Tensor]  # pixels (R, *read) -> explained output (R,)


def winning_probabilities(
    module: nn.Module, forward: Forward, pixels: Tensor, features: Sequence[FeatureMap], opposite: bool = False
) -> list[Tensor]:
    """The marginal winning probabilities of the outputs of these layers, and last of the pixels.

    The explained output is a linear function of the last activations a, or close to one, so that its weights are its
    gradient g there: their probabilities are a g+ / sum(a g+). From there on they are carried back layer by layer. A
    layer between the last activations and the output is treated as the last activations are. `opposite`: those of a
    neuron with the opposite weights.
    """
    with torch.enable_grad():
        leaf, activations = pixels.detach().requires_grad_(), list[Tensor]()
        with activations_detached(activations):
            value, outputs = _run(forward, leaf, features)
        if not value.requires_grad:
            raise ModelError(NO_GRADIENTS)
        points = [leaf, *activations]
        sign = -1 if opposite else 1
        gradients = torch.autograd.grad(sign * value.sum(), [*points, *outputs], allow_unused=True)
    first = _first_probabilities(points, gradients[: len(points)])
    starts = {number: probability for number, probability in enumerate(first[1:]) if probability is not None}
    with torch.enable_grad():
        leaf = pixels.detach().requires_grad_()
        with ExcitationMode(module, set(starts)) as mode:
            _, later_outputs = _run(forward, leaf, features)
        carried: Sequence[Tensor | None] = [None] * (len(features) + 1)
        if starts:
            carried = torch.autograd.grad(
                [mode.outputs[number] for number in starts],
                [*later_outputs, leaf],
                list(starts.values()),
                allow_unused=True,
            )
    direct = [_first_probabilities([output], [gradient])[0]  # of layers behind the last activations
              for output, gradient in zip(outputs, gradients[len(points) :], strict=True)]  # fmt: skip
    results = []
    for value, before, behind in zip([*outputs, pixels], carried, [*direct, first[0]], strict=True):
        probability = before if behind is None else behind
        results.append(torch.zeros_like(value).detach() if probability is None else probability)
    return results


def _run(forward: Forward, leaf: Tensor, features: Sequence[FeatureMap]) -> tuple[Tensor, list[Tensor]]:
    """The explained output, and the outputs of the layers."""
    noted: dict[nn.Module, list[Tensor]] = {feature.module: [] for feature in features}
    with ExitStack() as stack:
        for watched, module_outputs in noted.items():
            stack.enter_context(watch_outputs(watched, module_outputs.append))
        value = forward(leaf.clone())
    return value, [noted[feature.module][feature.call] for feature in features]


def _first_probabilities(points: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """a g+ of every point, divided by the sum over all of a row; None where the output does not depend on a point."""
    excitations = [
        None if gradient is None or not bool(gradient.any()) else above_minimum(point) * gradient.clamp(min=0)
        for point, gradient in zip(points, gradients, strict=True)
    ]
    sums = [excitation.flatten(1).sum(1) for excitation in excitations if excitation is not None]
    if not sums:
        return [None] * len(points)
    total = torch.stack(sums).sum(0).clamp(min=torch.finfo(sums[0].dtype).tiny)
    return [
        None if excitation is None else excitation / total.view(-1, *[1] * (excitation.dim() - 1))
        for excitation in excitations
    ]
