"""Attribution networks of one shape that are trained together: one pass through all of them, each with its own weights.

The search for loss weights trains dozens of small networks, and a GPU waits for the launch of kernels in each. Here the
weights of K networks are stacked, and every layer runs once for all (`torch.vmap`); the explained model sees the masked
inputs of all networks as variants of one batch. Networks do not influence one another: the result is that of training
one after the other, up to the draws of dropout. Shapes: K networks, I inputs of up to U units.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from rationales.masks.instant.aml.attribution_network import AttributionNetwork
from rationales.masks.instant.aml.example_metrics import to_rows
from rationales.masks.instant.aml.losses import attribution_loss, inverse_loss, prediction_loss
from rationales.masks.instant.aml.masking import MapProblem, log_predictions
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.masks.instant.aml.unit_alignment import BackboneRows

SEPARATOR = "/"  # in the names of stacked weights, which must not contain dots


class NetworkStack(nn.Module):
    """K copies of an attribution network; the weights that are trained are stacked, the others shared."""

    def __init__(self, network: AttributionNetwork, count: int) -> None:
        super().__init__()
        template = copy.deepcopy(network)
        set_attention = getattr(template.encoder, "set_attn_implementation", None)
        if set_attention is not None:
            set_attention("eager")  # fused attention has no rule for stacked weights
        self._template = [template]  # in a list: its weights are no weights of this module
        self.count = count
        for name, weight in network.named_parameters():
            if weight.requires_grad:
                stacked = weight.detach().expand(count, *weight.shape).clone()
                self.register_parameter(name.replace(".", SEPARATOR), nn.Parameter(stacked))

    def train(self, mode: bool = True) -> NetworkStack:
        """Switch dropout on or off in all networks."""
        self._template[0].train(mode)
        return super().train(mode)

    def forward(self, rows: BackboneRows, y: Tensor, merge: str) -> Tensor:
        """(K, I, U): the attribution maps of all networks."""
        return self._maps(dict(self.named_parameters()), rows, y, merge)

    def maps_of(self, numbers: Tensor, rows: BackboneRows, y: Tensor, merge: str) -> Tensor:
        """(len(numbers), I, U): the attribution maps of these networks alone."""
        return self._maps({name: weight[numbers] for name, weight in self.named_parameters()}, rows, y, merge)

    def weights_of(self, number: int) -> dict[str, Tensor]:
        """A copy of the trained weights of one network, by their names in an AttributionNetwork."""
        return {
            name.replace(SEPARATOR, "."): weight[number].detach().clone() for name, weight in self.named_parameters()
        }

    def _maps(self, stacked: dict[str, Tensor], rows: BackboneRows, y: Tensor, merge: str) -> Tensor:
        def maps(weights: dict[str, Tensor]) -> Tensor:
            named = {name.replace(SEPARATOR, "."): weight for name, weight in weights.items()}
            result: Tensor = functional_call(self._template[0], named, (rows, y, merge))
            return result

        return torch.vmap(maps, randomness="different")(stacked)


def can_be_stacked(losses: AmlLosses) -> bool:
    """Whether networks with these losses can be trained together: soft masks with one fixed vector."""
    return losses.mask == "soft" and losses.replacement in ("auto", "mask", "unk")


def stacked_losses(problem: MapProblem, attributions: Tensor, losses: Sequence[AmlLosses]) -> Tensor:
    """(K, I): Eq. 4 of attributions (K, I, U), each with weights of its own; all else of the losses is the first's."""
    batch, settings = problem.replacement.batch, losses[0]
    keep = to_rows(batch, attributions) + (~batch.rows.real).to(attributions.dtype)  # (K, S, n)
    logits = batch.logits(torch.cat([keep, 1 - keep]))  # (2 K, S, C)
    y, real = problem.y.to(attributions.dtype), problem.real.to(attributions.dtype)

    def terms(attribution: Tensor, masked_logits: Tensor, inverse_logits: Tensor) -> Tensor:
        masked = log_predictions(batch, masked_logits, problem.target)
        inverse = log_predictions(batch, inverse_logits, problem.target)
        prediction = prediction_loss(masked, y)
        size = attribution_loss(attribution, real, settings.mask_loss)
        return torch.stack([prediction, size, inverse_loss(inverse, problem.target, settings.inverse_loss)], -1)

    values = torch.vmap(terms)(attributions, logits[: len(losses)], logits[len(losses) :])  # (K, I, 3)
    weights = values.new_tensor(
        [[item.prediction_weight, item.attribution_weight, item.inverse_weight] for item in losses]
    )
    return (values * weights[:, None]).sum(-1)
