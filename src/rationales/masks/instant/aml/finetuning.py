"""Fine-tuning of an attribution network on each of many inputs at once (fAML; Barkan et al. 2024, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rationales.masks.instant.aml.example_metrics import best_candidates
from rationales.masks.instant.aml.input_deltas import BYTES_PER_WEIGHT, TUNED, InputDeltas, tuned_weights
from rationales.masks.instant.aml.masker import AmlMasker
from rationales.models.batch.execution import available_bytes
from rationales.models.text.batch import TextBatch
from rationales.options import check_settings, option

MEMORY_SHARE = 0.25  # of the available memory, for the inputs' own weights
LEARNING_RATES = {"head": 1e-2, "low-rank": 3e-3, "all": 4e-5}  # by what is tuned


@dataclass(frozen=True)
class FinetuneSettings:
    """Settings of the fine-tuning."""

    steps: int = option(10, "steps on each input")
    tune: str = option("all", "the weights that each input has of its own", *TUNED)
    rank: int = option(4, "rank of the changes, where tune=low-rank")
    learning_rate: float = option(0.0, "learning rate of Adam; 0: 1e-2 for head, 3e-3 for low-rank, 4e-5 for all")

    def __post_init__(self) -> None:
        check_settings(self, ("rank",), ("steps", "learning_rate"))


@dataclass(frozen=True, eq=False)
class Finetuned:
    """Attribution maps of I inputs at every checkpoint: before the first step, and after each."""

    maps: Tensor  # (steps + 1, I, U)
    losses: Tensor  # (steps + 1, I) Eq. 4; the last row is measured without a further step


def finetune(
    masker: AmlMasker,
    batch: TextBatch,
    target: Tensor,
    settings: FinetuneSettings,
    progress: Callable[[float], None] | None = None,
) -> Finetuned:
    """Fine-tune on every input of the batch for `target` (I,); inputs that fit memory go together.

    The prediction token, the embeddings and a learned mask vector stay fixed, and dropout is off. The loss weights are
    those of the pretraining.
    """
    masker.check(batch)
    at_once = _inputs_at_once(masker, batch, settings)
    pieces: list[Finetuned] = []
    width = int(batch.rows.unit.max()) + 1
    for begin in range(0, batch.inputs, at_once):
        numbers = list(range(begin, min(begin + at_once, batch.inputs)))

        def report(share: float, begin: int = begin) -> None:
            if progress is not None:
                progress(min(1.0, (begin + share * at_once) / batch.inputs))

        group = batch if len(numbers) == batch.inputs else batch.take(numbers)
        compute = partial(_finetune_together, masker, group, target[begin : begin + at_once], settings, report)
        pieces.append(group.fit(compute))
    maps = [torch.nn.functional.pad(piece.maps, (0, width - piece.maps.shape[-1])) for piece in pieces]
    return Finetuned(torch.cat(maps, 1), torch.cat([piece.losses for piece in pieces], 1))


def select_checkpoint(finetuned: Finetuned, batch: TextBatch, target: Tensor, metric: str) -> tuple[Tensor, Tensor]:
    """The map (I, U) of each input whose metric on that input is the best, and its step (I,).

    This looks at the metric of the explained input itself: compare it only with methods that may do the same.
    """
    step = best_candidates(batch, finetuned.maps, target, metric)
    return finetuned.maps[step, torch.arange(len(step), device=step.device)], step


def _inputs_at_once(masker: AmlMasker, batch: TextBatch, settings: FinetuneSettings) -> int:
    weights = tuned_weights(masker.network, settings.tune, settings.rank)
    return max(1, int(MEMORY_SHARE * available_bytes(batch.device)) // (BYTES_PER_WEIGHT * weights))


def _finetune_together(
    masker: AmlMasker, batch: TextBatch, target: Tensor, settings: FinetuneSettings, report: Callable[[float], None]
) -> Finetuned:
    network, losses = masker.network, masker.card.losses
    rows, problem = masker.windows(batch), masker.problem(batch, target)
    deltas = InputDeltas(network, batch.inputs, settings.tune, settings.rank)
    rate = settings.learning_rate or LEARNING_RATES[settings.tune]
    optimiser = torch.optim.Adam(deltas.parameters(), lr=rate)
    fixed_states = None
    if settings.tune == "head":
        with torch.no_grad():
            fixed_states = network.states(rows, problem.y)

    def attribution() -> Tensor:
        with deltas.applied(rows.input):
            states = network.states(rows, problem.y) if fixed_states is None else fixed_states
            return rows.to_units(network.token_scores(states), losses.merge)

    maps: list[Tensor] = []
    values: list[Tensor] = []
    with torch.enable_grad():
        for step in range(settings.steps):
            optimiser.zero_grad(set_to_none=True)
            current = attribution()
            loss = problem.losses(current, losses, step)
            torch.autograd.backward(loss.sum())  # the sum: each input has the gradient of its own loss
            optimiser.step()
            maps.append(current.detach())
            values.append(loss.detach())
            report((step + 1) / (settings.steps + 1))
    with torch.no_grad():
        maps.append(attribution())
        values.append(problem.losses(maps[-1], losses, settings.steps))
    return Finetuned(torch.stack(maps), torch.stack(values))
