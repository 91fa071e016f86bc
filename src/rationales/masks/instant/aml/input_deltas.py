"""Weights of their own for every input of a batch, as changes of one shared network.

Fine-tuning a copy of the network for each input would need as many passes as there are inputs. Here one pass serves
all: a hook adds to the output of each linear layer what the input's own change of its weights makes of the layer's
input. Inputs do not influence one another, so the result is that of one after the other. Changes start at zero.

`head`: the two layers of the head. `low-rank`: the head, and products A B of rank r in all linear layers of the
encoder. `all`: the head, and all linear layers and layer norms of the encoder. Embeddings, the prediction token and a
learned mask vector stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from rationales.masks.instant.aml.attribution_network import AttributionNetwork

TUNED = ("head", "low-rank", "all")
BYTES_PER_WEIGHT = 16  # of a change, its gradient and the two moments of Adam, in single precision


class InputDeltas:
    """Changes of the weights of a network for I inputs."""

    def __init__(self, network: AttributionNetwork, inputs: int, tune: str, rank: int) -> None:
        self.network, self.inputs = network, inputs
        self.device = network.head_hidden.weight.device
        self.full: dict[nn.Module, tuple[Tensor, Tensor]] = {}  # change of weight and bias
        self.low_rank: dict[nn.Module, tuple[Tensor, Tensor]] = {}  # A (I, in, r) and B (I, r, out)
        for layer in (network.head_hidden, network.head_output):
            self.full[layer] = self._full_change(layer.weight)
        if tune == "all":
            for module in network.encoder.modules():
                if isinstance(module, (nn.Linear, nn.LayerNorm)):
                    self.full[module] = self._full_change(module.weight)
        elif tune == "low-rank":
            for module in network.encoder.modules():
                if isinstance(module, nn.Linear):
                    self.low_rank[module] = self._low_rank_change(module, rank)

    def parameters(self) -> list[Tensor]:
        """All changes; they require gradients."""
        return [tensor for pair in (*self.full.values(), *self.low_rank.values()) for tensor in pair]

    @contextmanager
    def applied(self, row_input: Tensor) -> Iterator[None]:
        """Inside the block the network reads rows of the inputs `row_input` (R,), each with its own weights."""
        in_order = torch.equal(row_input, torch.arange(self.inputs, device=row_input.device))

        def of_rows(values: Tensor) -> Tensor:
            return values if in_order else values[row_input]

        with ExitStack() as stack:
            for module in (*self.full, *self.low_rank):
                hook = self._hook(module, of_rows, len(row_input))
                stack.callback(module.register_forward_hook(hook).remove)
            yield

    def _hook(self, module: nn.Module, of_rows: Callable[[Tensor], Tensor], rows: int) -> Callable[..., Any]:
        def add_change(_module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
            values: Tensor = arguments[0]
            if values.dim() != 3 or len(values) != rows:  # not a state of these rows, as relative positions are
                return output
            if module in self.low_rank:
                first, second = self.low_rank[module]
                return output + values @ of_rows(first) @ of_rows(second)
            weight, bias = self.full[module]
            if isinstance(module, nn.LayerNorm):
                normalised = layer_norm(values, module.normalized_shape, eps=module.eps)
                return output + normalised * of_rows(weight)[:, None] + of_rows(bias)[:, None]
            return output + torch.baddbmm(of_rows(bias)[:, None], values, of_rows(weight))

        return add_change

    def _full_change(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Changes of a weight, for a linear layer transposed (I, in, out), and of a bias (I, out)."""
        shape = tuple(weight.T.shape) if weight.dim() == 2 else tuple(weight.shape)
        return self._zeros(*shape), self._zeros(shape[-1])

    def _low_rank_change(self, layer: nn.Linear, rank: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(layer.in_features)  # the same for every input, in any batch
        first = torch.randn(layer.in_features, rank, generator=generator) * layer.in_features**-0.5
        repeated = first.to(self.device).repeat(self.inputs, 1, 1).requires_grad_()
        return repeated, self._zeros(rank, layer.out_features)

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(self.inputs, *shape, device=self.device, requires_grad=True)


def tuned_weights(network: AttributionNetwork, tune: str, rank: int) -> int:
    """Number of weights that each input has of its own."""
    head = sum(weight.numel() for layer in (network.head_hidden, network.head_output) for weight in layer.parameters())
    linear = [module for module in network.encoder.modules() if isinstance(module, nn.Linear)]
    if tune == "head":
        return head
    if tune == "low-rank":
        return head + sum(rank * (layer.in_features + layer.out_features) for layer in linear)
    norms = [module for module in network.encoder.modules() if isinstance(module, nn.LayerNorm)]
    return head + sum(weight.numel() for module in (*linear, *norms) for weight in module.parameters())
