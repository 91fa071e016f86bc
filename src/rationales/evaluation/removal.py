"""Inputs without some of their units: replaced, deleted or filled in; and what the model says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.evaluation.filling import Filler
from rationales.evaluation.levels import Steps
from rationales.evaluation.protocol import DELETED, FILLED, TOKENS
from rationales.evaluation.rewriting import Rewrite, plain_rows, rewritten, token_rows
from rationales.models import baselines
from rationales.models.batch import Batch
from rationales.models.image import ImageModel
from rationales.models.model import Model
from rationales.models.text import TextModel
from rationales.models.tokens import Encoded, TokenRow
from rationales.rationale import Unit

ELEMENTS = 2**26  # keeps at once, 256 MB of them; the model's own memory is the batch's business
ROWS = 2048  # rows of rewritten texts prepared at once


@dataclass(frozen=True, eq=False)
class Variants:
    """K reduced forms of B inputs: each keeps its `count` best units, or all but these where `flip` says so."""

    count: Tensor  # (K, B) long
    flip: Tensor  # (K,) bool
    whole: int | None = 0  # the variant that is the input itself, untouched

    @staticmethod
    def both_sides(steps: Steps) -> Variants:
        """The input itself, nothing of it, then what each level keeps, then what each level leaves."""
        count = steps.count.T
        first = torch.stack([steps.units, torch.zeros_like(steps.units)])
        flip = torch.arange(2 + 2 * len(count), device=count.device) >= 2 + len(count)
        return Variants(torch.cat([first, count, count]), flip)

    @staticmethod
    def removed(steps: Steps) -> Variants:
        """What each level leaves."""
        flip = torch.ones(steps.count.shape[1], dtype=torch.bool, device=steps.count.device)
        return Variants(steps.count.T, flip, whole=None)


def without(model: Model, removal: str | tuple[str, ...]) -> Model:
    """The same model with the removal's baseline in place of its own; itself where the removal has none."""
    if removal in ("baseline", DELETED, FILLED):
        return model
    if isinstance(model, ImageModel):
        return replace(model, baselines=(removal,) if isinstance(removal, str) else removal)
    if not isinstance(model, TextModel) or not isinstance(removal, str):
        raise OptionError(f"{model.name} cannot have its units replaced by {removal}; use removal='baseline'")
    name = _reference(model.tokenizer) if removal == "reference" else removal
    networks = [replace(one, baseline=baselines.vector(name, model.tokenizer, one.embedding)) for one in model.networks]
    return replace(model, networks=networks, baseline=name)


def _reference(tokenizer: Any) -> str:
    names = [name for name in ("mask", "unk", "pad") if isinstance(getattr(tokenizer, f"{name}_token_id", None), int)]
    return names[0] if names else TOKENS[-1]


def probabilities(
    model: Model,
    encoded: Sequence[Any],
    steps: Steps,
    variants: Variants,
    *,
    removal: str | tuple[str, ...],
    special: str = "keep",
    retokenise: bool = False,
    filler: Filler | None = None,
    seed: int = 0,
) -> Tensor:
    """(K, B, views, classes): what the model says of every variant of every input, segments averaged, views apart."""
    if removal not in (DELETED, FILLED):
        own = without(model, removal)
        given = encoded if special == "keep" else [with_special(one) for one in _texts(encoded, "special='remove'")]
        with own.borrowed(), torch.no_grad():
            return _by_keeps(own.batch(given, seed), steps, variants, special == "remove")
    if not isinstance(model, TextModel):
        raise OptionError(f"only the words of texts can be removed by {removal!r}, and {model.name} reads no texts")
    return _by_texts(
        model, _texts(encoded, removal), steps, variants, _rewriter(model, removal, special, retokenise, filler)
    )


def _texts(encoded: Sequence[Any], wish: str | tuple[str, ...]) -> list[Encoded]:
    if not all(isinstance(one, Encoded) for one in encoded):
        raise OptionError(f"{wish} is for texts")
    return list(encoded)


def _by_keeps(batch: Batch, steps: Steps, variants: Variants, last_is_special: bool) -> Tensor:
    """All variants through one batch, hard 0/1 keeps, as many at once as memory allows."""
    rows = batch.rows
    steps, count, flip = steps.to(batch.device), variants.count.to(batch.device), variants.flip.to(batch.device)
    rank = steps.rank
    if last_is_special:  # one more unit, which no level selects
        rank = torch.cat([rank, torch.full_like(rank[:, :1], rank.shape[1])], 1)
    index = rows.unit.clamp(max=rank.shape[1] - 1)
    if last_is_special:
        special = rows.unit == steps.units[rows.input][:, None]
        index = torch.where(special, rank.shape[1] - 1, index)
    own = rank[rows.input[:, None], index]  # (S, n)
    at_once = max(1, ELEMENTS // max(1, own.numel()))
    found: list[Tensor] = []
    for begin in range(0, len(variants.count), at_once):
        some = slice(begin, begin + at_once)
        kept = (own < count[some][:, rows.input, None]) ^ flip[some][:, None, None]  # (K, S, n)
        if last_is_special:
            kept = kept & ~special
        if variants.whole is not None and begin <= variants.whole < begin + len(kept):
            kept[variants.whole - begin] = True
        found.append(batch.pool(batch.probabilities(batch.logits(kept.to(batch.dtype)))))
    return torch.cat(found)


def with_special(one: Encoded) -> Encoded:
    """The same rows with their special tokens as one more unit, the last."""

    def row(given: TokenRow) -> TokenRow:
        extra = len(given.units)
        return TokenRow(
            given.ids,
            given.types,
            [extra if owner < 0 else owner for owner in given.owner],
            [*given.units, len(one.units)],
            [*given.weight, 1.0 / len(one.rows)],
            [*given.position, (given.position[-1] if given.position else 0.0) + 1],
        )

    return Encoded(one.source, (*one.units, Unit("", 0, 0)), tuple(row(given) for given in one.rows))


def _rewriter(
    model: TextModel, removal: str | tuple[str, ...], special: str, retokenise: bool, filler: Filler | None
) -> Callable[[Sequence[Encoded], Sequence[np.ndarray]], list[tuple[TokenRow, ...]]]:
    """What makes rows of (input, kept units) pairs."""
    bare = special == "remove"
    if removal == DELETED and not retokenise:
        return lambda inputs, kept: [
            token_rows(one, chosen, model.filler, bare) for one, chosen in zip(inputs, kept, strict=True)
        ]
    if removal == DELETED:
        return lambda inputs, kept: plain_rows(
            model, [rewritten(one, chosen) for one, chosen in zip(inputs, kept, strict=True)], bare
        )
    if filler is None:
        raise OptionError("removal 'fill' needs a masked language model: filler=..., an id, a folder or a Filler")
    return lambda inputs, kept: plain_rows(model, filler.fill(inputs, kept), bare)


def _by_texts(
    model: TextModel,
    encoded: Sequence[Encoded],
    steps: Steps,
    variants: Variants,
    rewrite: Callable[[Sequence[Encoded], Sequence[np.ndarray]], list[tuple[TokenRow, ...]]],
) -> Tensor:
    """Every different variant is written once; many of them go through the model together, packed by length."""
    kinds = variants.count.shape[0]
    device = model.networks[0].baseline.device
    rank, count, flip = steps.rank.cpu().numpy(), variants.count.cpu().numpy(), variants.flip.cpu().numpy()
    jobs: list[Rewrite] = []
    place = np.zeros((kinds, len(encoded)), dtype=np.int64)
    for number, one in enumerate(encoded):
        seen: dict[tuple[int, bool, bool], int] = {}
        own = rank[number, : len(one.units)]
        for kind in range(kinds):
            whole = kind == variants.whole
            name = (int(count[kind, number]), bool(flip[kind]), whole)
            if name not in seen:
                seen[name] = len(jobs)
                jobs.append(Rewrite(one, (own < count[kind, number]) ^ flip[kind], whole))
            place[kind, number] = seen[name]
    said: list[Tensor] = []
    with model.borrowed(), torch.no_grad():
        for some in _groups(jobs):
            made = rewrite([job.input for job in some if not job.whole], [job.kept for job in some if not job.whole])
            rows = iter(made)
            ready = [job.input if job.whole else _plain(job.input, next(rows)) for job in some]
            batch = model.batch(ready)
            said.append(batch.pool(batch.probabilities(batch.logits(batch.ones()))))
    return torch.cat(said)[torch.from_numpy(place).to(device)]


def _groups(jobs: Sequence[Rewrite]) -> list[list[Rewrite]]:
    """Jobs in their order, cut so that about `ROWS` rows are prepared at once."""
    groups: list[list[Rewrite]] = [[]]
    size = 0
    for job in jobs:
        if groups[-1] and size + len(job.input.rows) > ROWS:
            groups.append([])
            size = 0
        groups[-1].append(job)
        size += len(job.input.rows)
    return groups


def _plain(one: Encoded, rows: tuple[TokenRow, ...]) -> Encoded:
    return Encoded(one.source, one.units[:1], rows)
