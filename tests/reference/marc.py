"""MaRC as the paper writes it (Eq. 1-8): one scalar w and sigma per word, one segment at a time, torch's own AdamW.

It shares nothing with the engine but the token rows: words are blended into `inputs_embeds`, not by a hook.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from rationales.models.text.tokens import EncodedText, TokenRow


@dataclass(frozen=True)
class LiteralSettings:
    """Settings, by the names of the paper where it has one."""

    steps: int
    learning_rate: float = 0.1
    cosine: bool = True  # the learning rate falls to 0 along half a cosine
    weight_decay: float = 0.01
    alpha_lambda: float = 1.0
    alpha_sigma: float = 1.2
    w: float = 1.2
    sigma: float = 2.0
    alpha_nb: float = 0.0
    power: int = 2  # of sigma in Eq. 5
    use_field: bool = True
    sufficiency: float = 1.0
    complement: float = 1.0
    bounded: bool = True
    indicative: float = 0.0
    min_sigma: float = 0.1
    complement_floor: float = (
        1.0  # in short texts the complement need not fall below this share of the baseline's evidence
    )
    max_sigma_share: float = 0.125  # largest sigma as a share of the segment's words, at least 1; 0: none


def explain(
    model: nn.Module, encoded: EncodedText, target: int, baseline_id: int, head: str, settings: LiteralSettings
) -> list[Tensor]:
    """For each segment of one input the keep of each of its words."""
    parameters = [
        [(_scalar(settings.w), _scalar(settings.sigma)) for _ in row.units] for row in encoded.rows
    ]  # [segment][word] -> (w, sigma)
    flat = [value for segment in parameters for pair in segment for value in pair]
    limit(parameters, settings)
    optimizer = torch.optim.AdamW(flat, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    for step in range(settings.steps):
        fall = (1 + math.cos(math.pi * step / settings.steps)) / 2 if settings.cosine else 1.0
        optimizer.param_groups[0]["lr"] = settings.learning_rate * fall
        optimizer.zero_grad()
        loss(model, encoded, parameters, target, baseline_id, head, settings).backward()
        optimizer.step()
        limit(parameters, settings)
    with torch.no_grad():
        return [
            torch.stack(keeps(row, segment, settings)) for row, segment in zip(encoded.rows, parameters, strict=True)
        ]


def limit(parameters: Sequence[Sequence[tuple[Tensor, Tensor]]], settings: LiteralSettings) -> None:
    """Keep every sigma within its bounds."""
    with torch.no_grad():
        for segment in parameters:
            upper = max(1.0, settings.max_sigma_share * len(segment)) if settings.max_sigma_share else float("inf")
            for _, sigma in segment:
                sigma.clamp_(min=settings.min_sigma, max=upper)


def loss(
    model: nn.Module,
    encoded: EncodedText,
    parameters: Sequence[Sequence[tuple[Tensor, Tensor]]],
    target: int,
    baseline_id: int,
    head: str,
    settings: LiteralSettings,
) -> Tensor:
    """Eq. 8 for one input; probabilities of its segments are averaged before the logarithm."""
    kept, left, sparse, wide, rough = [], [], [], [], []
    for row, segment in zip(encoded.rows, parameters, strict=True):
        keep = keeps(row, segment, settings)
        kept.append(evidence(model, row, keep, target, baseline_id, head, settings))
        left.append(evidence(model, row, [1 - value for value in keep], target, baseline_id, head, settings))
        sparse.append((sum(keep) / len(keep)) ** 2)
        rough.append(sum((after - before) ** 2 for before, after in pairwise(keep)) / len(keep))
        wide.append(-sum(torch.log(sigma) for _, sigma in segment) / len(segment))
    squeezed = [5e-6 + (1 - 1e-5) * sum(values) / len(values) for values in (kept, left)]
    none = [
        evidence(
            model, row, [torch.tensor(0.0).double()] * len(row.units), target, baseline_id, head, settings
        ).detach()
        for row in encoded.rows
    ]
    short = min(1.0, max(0.0, (120 - len(encoded.units)) / 80))
    squeezed[1] = max(squeezed[1], settings.complement_floor * short * (5e-6 + (1 - 1e-5) * sum(none) / len(none)))
    total = -settings.sufficiency * torch.log(squeezed[0])
    total = total + settings.complement * (-torch.log(1 - squeezed[1]) if settings.bounded else torch.log(squeezed[1]))
    total = total + settings.alpha_nb * sum(rough) / len(rough)
    total = total + settings.alpha_lambda * sum(sparse) / len(sparse)
    return total + settings.alpha_sigma * sum(wide) / len(wide)


def keeps(row: TokenRow, segment: Sequence[tuple[Tensor, Tensor]], settings: LiteralSettings) -> list[Tensor]:
    """Eq. 5 and 6, one word at a time."""
    if not settings.use_field:
        return [torch.sigmoid(w) for w, _ in segment]
    keep = []
    for here in row.position:
        influence = [
            w * torch.exp(torch.as_tensor(-((here - there) ** 2)) / sigma**settings.power)
            for (w, sigma), there in zip(segment, row.position, strict=True)
        ]
        keep.append(torch.sigmoid(sum(influence)))
    return keep


def evidence(
    model: nn.Module,
    row: TokenRow,
    keep: Sequence[Tensor],
    target: int,
    baseline_id: int,
    head: str,
    settings: LiteralSettings,
) -> Tensor:
    """How strongly the model sees the target in one segment, words blended with the baseline (Eq. 1)."""
    table = model.get_input_embeddings()
    words = []
    for token, owner in zip(row.ids, row.owner, strict=True):
        word = table(torch.tensor(token))
        words.append(word if owner < 0 else keep[owner] * word + (1 - keep[owner]) * table(torch.tensor(baseline_id)))
    types = {} if row.types is None else {"token_type_ids": torch.tensor([row.types])}
    logits = model(inputs_embeds=torch.stack(words)[None], **types).logits[0]
    if head == "sigmoid":
        return torch.sigmoid(logits[0] if target == 1 else -logits[0])
    if head == "multi-label":
        return torch.sigmoid(logits[target])
    share = torch.softmax(logits, -1)[target]
    return (1 - settings.indicative) * share + settings.indicative * torch.sigmoid(logits[target])


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)
