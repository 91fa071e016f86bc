"""Inputs without some of their units (replaced, deleted or filled in), and the model's probabilities for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.evaluation.faithfulness.filling_in_turn import fill_in_turn
from rationales.evaluation.faithfulness.levels import LevelSelections
from rationales.evaluation.faithfulness.rewriting import Rewrite, plain_rows
from rationales.evaluation.protocols import (
    DELETE,
    FILL,
    FUNCTION_VARIANTS,
    IN_TURN,
    PRESETS,
    TOKENS,
    Protocol,
    find_protocol,
)
from rationales.models.batch import Batch
from rationales.models.function.model import FunctionModel
from rationales.models.image.model import ImageModel
from rationales.models.model import Model
from rationales.models.prompt.model import PromptModel
from rationales.models.text import baselines
from rationales.models.text.filling.filler import Filler
from rationales.models.text.model import TextModel
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText, TextInput, TokenRow
from rationales.rationale import Unit

SPECIAL = ("pad", "mask", "unk")  # removals that are tokens of some tokenizers
KEEPS_AT_ONCE = 2**26  # 256 MB of keeps; the batch limits the model's own memory
ROWS_AT_ONCE = 2048  # of rewritten texts

Rewriter = Callable[[Sequence[Rewrite]], list[tuple[TokenRow, ...]]]


@dataclass(frozen=True, eq=False)
class Variants:
    """K reduced forms of B inputs: each keeps its `count` best units, or all but these where `flip` says so."""

    count: Tensor  # (K, B) long
    flip: Tensor  # (K,) bool
    untouched: int | None = 0  # the variant that is the input itself

    @staticmethod
    def both_sides(levels: LevelSelections) -> Variants:
        """The input itself, nothing of it, then what each level keeps, then what each level leaves."""
        count = levels.count.T
        first = torch.stack([levels.units, torch.zeros_like(levels.units)])
        flip = torch.arange(2 + 2 * len(count), device=count.device) >= 2 + len(count)
        return Variants(torch.cat([first, count, count]), flip)

    @staticmethod
    def removed(levels: LevelSelections) -> Variants:
        """What each level leaves."""
        flip = torch.ones(levels.count.shape[1], dtype=torch.bool, device=levels.count.device)
        return Variants(levels.count.T, flip, untouched=None)


def protocol_for(requested: str | Protocol, model: Model) -> Protocol:
    """The protocol of this name for a model: of its kind of input, or of functions, which have no padding token.

    The model's baseline stands in for padding in a protocol given by name, where the tokenizer has no padding token.
    """
    if isinstance(requested, str) and isinstance(model, FunctionModel):
        requested = FUNCTION_VARIANTS.get(requested, requested)
    protocol = find_protocol(requested, model.kind)
    missing = _missing_tokens(protocol, model)
    if not missing:
        return protocol
    if isinstance(requested, str):
        changes: dict[str, Any] = dict.fromkeys(missing, "baseline")
        return replace(protocol, **changes)
    name = next(iter(missing.values()))
    raise OptionError(
        f"protocol {protocol.name} replaces words by the token {name}, which the tokenizer of {model.name} does not "
        f"have; choose another removal, such as baseline, mean or delete (removal='mean', --protocol marc:removal=mean)"
    )


def _missing_tokens(protocol: Protocol, model: Model) -> dict[str, str]:
    """The fields of the protocol that name a token which the model's tokenizer does not have, and the token."""
    if not isinstance(model, TextModel):
        return {}
    named = {"removal": protocol.removal, "odds_removal": protocol.odds_removal}
    return {
        field: name
        for field, name in named.items()
        if isinstance(name, str) and name in SPECIAL and getattr(model.tokenizer, f"{name}_token_id", None) is None
    }


def stand_in_remarks(requested: str | Protocol, protocol: Protocol, model: Model) -> tuple[str, ...]:
    """What a table says where the model's baseline stands in for the padding of the protocol of this name."""
    preset = PRESETS.get(protocol.name) if isinstance(requested, str) else None
    if preset is None or (preset.removal, preset.odds_removal) == (protocol.removal, protocol.odds_removal):
        return ()
    return (
        (
            f"{preset.name} replaces words by padding; the tokenizer has no padding token, so the model's baseline, "
            f"{model.baseline}, stands in for it."
        ),
    )


def with_removal_baseline(model: Model, removal: str | tuple[str, ...]) -> Model:
    """The same model with the removal's baseline in place of its own; itself where the removal has none."""
    if removal in ("baseline", DELETE, FILL):
        return model
    if isinstance(model, ImageModel):
        return replace(model, baselines=(removal,) if isinstance(removal, str) else removal)
    if not isinstance(model, TextModel) or not isinstance(removal, str):
        raise OptionError(
            f"{model.name} cannot have its units replaced by {removal}; use a protocol that deletes words, such as "
            "ferret, or removal='baseline'"
        )
    name = removal_baseline(model, removal)
    networks = [
        replace(network, baseline=baselines.vector(name, model.tokenizer, network.embedding))
        for network in model.networks
    ]
    return replace(model, networks=networks, baseline=name)


def removal_baseline(model: Any, removal: str) -> str:
    """The removal by the name of what replaces units: `baseline` and `reference` are resolved for this model."""
    if removal == "baseline":
        return str(model.baseline)
    return _reference(getattr(model, "tokenizer", None)) if removal == "reference" else removal


def _reference(tokenizer: Any) -> str:
    names = [name for name in ("mask", "unk", "pad") if isinstance(getattr(tokenizer, f"{name}_token_id", None), int)]
    return names[0] if names else TOKENS[-1]


def variant_probabilities(
    model: Model,
    encoded: Sequence[Any],
    levels: LevelSelections,
    variants: Variants,
    protocol: Protocol,
    *,
    filler: Filler | None = None,
    seed: int = 0,
) -> Tensor:
    """(K, B, views, classes): probabilities of every variant of every input, averaged over segments, not over views."""
    # what surrounds the text in a prompt is the question, and stays
    removal, bare = protocol.removal, protocol.special == "remove" and not isinstance(model, PromptModel)
    is_function = isinstance(model, FunctionModel)  # deletes words from the text itself, so that nothing is retokenised
    deleted = removal == DELETE and (is_function or not protocol.retokenise)
    if not isinstance(model, TextModel) and removal in (DELETE, FILL) and not (is_function and deleted):
        raise OptionError(f"only the words of texts can be removed by {removal!r}, and {model.name} reads no texts")
    if not isinstance(model, TextModel) or deleted or removal not in (DELETE, FILL):
        removal_model = with_removal_baseline(model, removal)
        inputs = [with_special(item) for item in _check_texts(encoded, "special='remove'")] if bare else encoded
        with removal_model.frozen(), torch.no_grad():
            return _by_keeps(removal_model.batch(inputs, seed), levels, variants, bare, deleted)
    texts, rewriter = _check_texts(encoded, removal), _rewriter(model, protocol, filler)
    return _by_texts(model, texts, levels, variants, rewriter)


def _check_texts(encoded: Sequence[Any], option_text: str | tuple[str, ...]) -> list[EncodedText]:
    if not all(isinstance(item, EncodedText) for item in encoded):
        raise OptionError(f"{option_text} is for texts")
    return list(encoded)


def _by_keeps(
    batch: Batch, levels: LevelSelections, variants: Variants, last_is_special: bool, deleted: bool
) -> Tensor:
    """All variants through one batch, hard 0/1 keeps, as many at once as memory allows; `deleted`: not replaced."""
    rows = batch.rows
    levels, count, flip = levels.to(batch.device), variants.count.to(batch.device), variants.flip.to(batch.device)
    rank = levels.rank
    if last_is_special:  # one more unit, which no level selects
        rank = torch.cat([rank, torch.full_like(rank[:, :1], rank.shape[1])], 1)
    index = rows.unit.clamp(max=rank.shape[1] - 1)
    if last_is_special:
        special = rows.unit == levels.units[rows.input][:, None]
        index = torch.where(special, rank.shape[1] - 1, index)
    row_rank = rank[rows.input[:, None], index]  # (S, n)
    at_once = max(1, KEEPS_AT_ONCE // max(1, row_rank.numel()))
    probabilities: list[Tensor] = []
    for begin in range(0, len(variants.count), at_once):
        chunk = slice(begin, begin + at_once)
        kept = (row_rank < count[chunk][:, rows.input, None]) ^ flip[chunk][:, None, None]  # (K, S, n)
        if last_is_special:
            kept = kept & ~special
        if variants.untouched is not None and begin <= variants.untouched < begin + len(kept):
            kept[variants.untouched - begin] = True
        logits = batch.logits_deleted(kept) if deleted else batch.logits(kept.to(batch.dtype))
        probabilities.append(batch.pool(batch.probabilities(logits)))
    return torch.cat(probabilities)


def with_special(encoded: EncodedText) -> EncodedText:
    """The same rows with their special tokens as one more unit, the last."""

    def extend_row(row: TokenRow) -> TokenRow:
        extra = len(row.units)
        return TokenRow(
            row.ids,
            row.types,
            [extra if owner < 0 else owner for owner in row.owner],
            [*row.units, len(encoded.units)],
            [*row.weight, 1.0 / len(encoded.rows)],
            [*row.position, (row.position[-1] if row.position else 0.0) + 1],
        )

    return EncodedText(encoded.source, (*encoded.units, Unit("", 0, 0)), tuple(extend_row(row) for row in encoded.rows))


def _rewriter(model: TextModel, protocol: Protocol, filler: Filler | None) -> Rewriter:
    bare = protocol.special == "remove"
    if protocol.removal == DELETE:
        return lambda jobs: plain_rows(model, [rewrite(job.input, job.kept) for job in jobs], bare)
    if filler is None:
        raise OptionError("removal 'fill' needs a masked language model: filler=..., an id, a folder or a Filler")
    if protocol.fill_order == IN_TURN:
        return lambda jobs: plain_rows(model, _filled_in_turn(filler, jobs), bare)
    return lambda jobs: plain_rows(model, filler.fill([job.input for job in jobs], [job.kept for job in jobs]), bare)


def _filled_in_turn(filler: Filler, jobs: Sequence[Rewrite]) -> list[TextInput]:
    """The texts of these jobs; where the best words are the ones that stay, the others are filled in together."""
    longest: dict[int, Rewrite] = {}  # by input: of nested jobs the longest one passes through all of them
    for job in sorted(jobs, key=lambda job: len(job.order or ())):
        if job.order is not None:
            longest[id(job.input)] = job
    chains = fill_in_turn(
        filler, [job.input for job in longest.values()], [job.order or () for job in longest.values()]
    )
    forms = dict(zip(longest, chains, strict=True))
    together = [job for job in jobs if job.order is None]
    filled = iter(filler.fill([job.input for job in together], [job.kept for job in together]))
    return [next(filled) if job.order is None else forms[id(job.input)][len(job.order)] for job in jobs]


def _by_texts(
    model: TextModel, encoded: Sequence[EncodedText], levels: LevelSelections, variants: Variants, rewriter: Rewriter
) -> Tensor:
    """Rewrite every different variant once, and pass many of them through the model together, packed by length."""
    variant_count = variants.count.shape[0]
    device = model.networks[0].baseline.device
    rank, count, flip = levels.rank.cpu().numpy(), variants.count.cpu().numpy(), variants.flip.cpu().numpy()
    jobs: list[Rewrite] = []
    job_index = np.zeros((variant_count, len(encoded)), dtype=np.int64)
    for input_index, item in enumerate(encoded):
        job_of_variant: dict[tuple[int, bool, bool], int] = {}
        unit_rank = rank[input_index, : len(item.units)]
        best_first = np.argsort(unit_rank).tolist()
        for k in range(variant_count):
            untouched = k == variants.untouched
            variant = (int(count[k, input_index]), bool(flip[k]), untouched)
            if variant not in job_of_variant:
                job_of_variant[variant] = len(jobs)
                order = tuple(best_first[: count[k, input_index]]) if flip[k] else None
                jobs.append(Rewrite(item, (unit_rank < count[k, input_index]) ^ flip[k], untouched, order))
            job_index[k, input_index] = job_of_variant[variant]
    probabilities: list[Tensor] = []
    with model.frozen(), torch.no_grad():
        for group in _groups(jobs):
            changed = [job for job in group if not job.untouched]
            rows = iter(rewriter(changed))
            encodings = [
                job.input if job.untouched else EncodedText(job.input.source, job.input.units[:1], next(rows))
                for job in group
            ]
            batch = model.batch(encodings)
            probabilities.append(batch.pool(batch.probabilities(batch.logits(batch.ones()))))
    return torch.cat(probabilities)[torch.from_numpy(job_index).to(device)]


def _groups(jobs: Sequence[Rewrite]) -> list[list[Rewrite]]:
    """Jobs in their order, cut so that about `ROWS_AT_ONCE` rows are prepared at once."""
    groups: list[list[Rewrite]] = [[]]
    size = 0
    for job in jobs:
        if groups[-1] and size + len(job.input.rows) > ROWS_AT_ONCE:
            groups.append([])
            size = 0
        groups[-1].append(job)
        size += len(job.input.rows)
    return groups
