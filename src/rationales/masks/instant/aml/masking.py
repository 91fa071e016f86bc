"""Masked and inversely masked inputs (Barkan et al. 2024, Eq. 2 and 3), and the explained model's predictions on them.

What a masked unit becomes is one vector for all (mask, unk, learned), a vector for each token (random, context), or
nothing (omission). Special tokens are kept in both. Omission has no gradient with respect to the attribution; its
predictions are those of the shorter text, and its gradient that of the blend with the mask vector (straight-through).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rationales.errors import OptionError
from rationales.masks.instant.aml.example_metrics import to_rows, unit_counts
from rationales.masks.instant.aml.losses import LogPredictions, encode_prediction, total_loss
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.models.batch.rows import fold, uniform
from rationales.models.classes import Head
from rationales.models.text import baselines
from rationales.models.text.batch import TextBatch
from rationales.models.text.filling.loading import required_filler

HARD_MASK_PURPOSE, RANDOM_TOKEN_PURPOSE = 11, 12  # keys of these random streams


@dataclass(frozen=True, eq=False)
class Replacement:
    """What masked units of a batch become."""

    settings: AmlLosses
    batch: TextBatch  # with the mask vector as its baseline
    context: Tensor | None = None  # (S, T, hidden) embeddings of predicted words

    @classmethod
    def of(cls, batch: TextBatch, settings: AmlLosses, learned: Tensor | None = None) -> Replacement:
        """For the rows of a batch; `learned` (hidden,): the mask vector of replacement=learned."""
        kind = settings.replacement
        if kind in ("random", "context", "learned") and len(batch.networks) > 1:
            raise OptionError(f"replacement={kind} is for one model, not for several explained together; use mask")
        if kind == "learned" and learned is not None:
            networks = [replace(network, baseline=learned) for network in batch.networks]
            return cls(settings, replace(batch, networks=networks))
        name = kind if kind in ("mask", "unk") else mask_token(batch)
        blended = batch.with_baseline(name)
        return cls(settings, blended, _predicted_words(blended, settings.filler) if kind == "context" else None)

    def predictions(self, attribution: Tensor, target: Tensor, step: int) -> tuple[LogPredictions, LogPredictions]:
        """On the masked and the inversely masked inputs, from attributions (I, U) and the explained class (I,).

        `step`: hard masks and random tokens are drawn anew in every step, as functions of the input and the step.
        """
        keep = to_rows(self.batch, attribution) + (~self.batch.rows.real).to(attribution.dtype)  # (S, n)
        both = torch.stack([keep, 1 - keep])
        hard = None
        if self.settings.mask == "hard":
            draw = uniform(fold(self.batch.rows.key, HARD_MASK_PURPOSE, step), keep.shape[1])
            kept = draw < keep.detach()
            hard = torch.stack([kept, ~kept])
            both = both + (hard.to(both.dtype) - both).detach()
        if self.settings.replacement == "omission" and hard is not None:
            logits = self.batch.logits(both)
            omitted = self.batch.logits_deleted((hard & self.batch.rows.real).to(both.dtype))
            logits = logits + (omitted - logits).detach()
        elif self.settings.replacement in ("random", "context"):
            logits = self._blend_tokens(both, step)
        else:
            logits = self.batch.logits(both)
        masked, inverse = (log_predictions(self.batch, variant, target) for variant in logits)
        return masked, inverse

    def _blend_tokens(self, keep: Tensor, step: int) -> Tensor:
        """(2, S, C): logits where every token is blended with a vector of its own; keep: (2, S, n)."""
        batch, words = self.batch, self.batch.input_embeddings()
        vectors = self.context if self.context is not None else _random_words(batch, step)
        kept = torch.cat([keep, keep.new_ones(2, keep.shape[1], 1)], -1)
        share = kept.gather(2, batch.owner[:, : words.shape[1]].expand(2, -1, -1))[..., None]
        return batch.logits_from(share * words + (1 - share) * vectors)


@dataclass(frozen=True, eq=False)
class MapProblem:
    """I inputs with what their attribution maps are judged by."""

    replacement: Replacement
    y: Tensor  # (I, C) encoded prediction
    target: Tensor  # (I,) explained class
    real: Tensor  # (I, U) units that exist

    @classmethod
    def of(
        cls, batch: TextBatch, probabilities: Tensor, target: Tensor, settings: AmlLosses, learned: Tensor | None
    ) -> MapProblem:
        """For `target` (I,) of a batch and the model's probabilities (I, C)."""
        units = unit_counts(batch)
        real = torch.arange(int(units.max()), device=batch.device) < units[:, None]
        y = encode_prediction(probabilities, target, settings.target)
        return cls(Replacement.of(batch, settings, learned), y, target, real)

    def losses(self, attribution: Tensor, settings: AmlLosses, step: int) -> Tensor:
        """(I,): Eq. 4 of attributions (I, U), differentiable in them."""
        masked, inverse = self.replacement.predictions(attribution, self.target, step)
        real = self.real.to(attribution.dtype)
        return total_loss(masked, inverse, attribution, real, self.y.to(attribution.dtype), self.target, settings)


def log_predictions(batch: TextBatch, logits: Tensor, target: Tensor) -> LogPredictions:
    """Predictions on the inputs from the logits of their rows (S, C): the mean probability over segments and views."""
    row_target = target[batch.rows.input][:, None]
    if batch.head is Head.SOFTMAX:
        log_p = logits.log_softmax(-1)
        log_not_target = log_p.scatter(1, row_target, -torch.inf).logsumexp(-1, keepdim=True)
        return LogPredictions(_pooled(batch, log_p), _pooled(batch, log_not_target).squeeze(-1))
    log_p, log_not = _pooled(batch, logsigmoid(logits)), _pooled(batch, logsigmoid(-logits))
    log_not_target = log_not.gather(1, target[:, None]).squeeze(-1)
    return LogPredictions(log_p, log_not_target, log_not if batch.head is Head.MULTI_LABEL else None)


def _pooled(batch: TextBatch, log_values: Tensor) -> Tensor:
    """(S, C) -> (I, C): the logarithm of the mean over the rows of an input."""
    if batch.size[0] == batch.inputs:  # a row for every input, in order
        return log_values
    index = batch.rows.input[:, None].expand_as(log_values)
    shape = (batch.inputs, log_values.shape[1])
    largest = torch.full(shape, -torch.inf, device=log_values.device, dtype=log_values.dtype)
    largest = largest.scatter_reduce(0, index, log_values.detach(), "amax").clamp(min=-1e30)
    total = torch.zeros_like(largest).scatter_add(0, index, (log_values - largest.gather(0, index)).exp())
    count = torch.zeros_like(largest).scatter_add(0, index, torch.ones_like(log_values))
    return largest + (total / count).log()


def mask_token(batch: TextBatch) -> str:
    """The name of the mask token, or of the unknown token where there is none (decoders)."""
    tokenizer = batch.text_sources().tokenizer
    for name in ("mask", "unk"):
        if isinstance(getattr(tokenizer, f"{name}_token_id", None), int):
            return name
    return baselines.choose(None, tokenizer)


def _random_words(batch: TextBatch, step: int) -> Tensor:
    """(S, T, hidden): embeddings of tokens drawn evenly from the vocabulary, without special tokens."""
    tokenizer = batch.text_sources().tokenizer
    special = {token for token in getattr(tokenizer, "all_special_ids", ()) if isinstance(token, int)}
    count = next(weight.shape[0] for weight in batch.networks[0].embedding.parameters() if weight.dim() == 2)
    usable = torch.tensor([token for token in range(count) if token not in special], device=batch.device)
    draw = uniform(fold(batch.rows.key, RANDOM_TOKEN_PURPOSE, step), batch.ids.shape[1])
    ids = usable[(draw * len(usable)).long().clamp(max=len(usable) - 1)]
    with torch.no_grad():
        vectors: Tensor = batch.networks[0].embedding(ids)
    return vectors.to(batch.dtype)


def _predicted_words(batch: TextBatch, filler_name: str) -> Tensor:
    """(S, T, hidden): for every token the embedding of the word that is predicted in place of its unit.

    Each word is masked alone, and is no proposal for itself. A word of several tokens has the mean of their embeddings;
    a word that the masked language model cannot mask becomes the mask vector.
    """
    if batch.unit != "word":
        raise OptionError(f"replacement=context predicts words, and here each {batch.unit} is a unit; use unit='word'")
    sources = batch.text_sources()
    filler = required_filler(filler_name, "replacement=context", batch.device)
    rows = filler.read(sources.encoded)
    text_units = [(number, unit) for number, text in enumerate(sources.encoded) for unit in range(len(text.units))]
    inputs, units = (torch.tensor(values, device=filler.device) for values in zip(*text_units, strict=True))
    candidates = filler.candidates(rows, inputs, units[:, None], count=1, without_original=True)
    ids = torch.where(candidates.likelihood[:, 0] > 0, candidates.ids[:, 0, 0], -1).tolist()
    contexts, context_of = sources.contexts
    words = [(contexts[context_of[number][unit]], filler.vocabulary.words[token])
             for (number, unit), token in zip(text_units, ids, strict=True) if token >= 0]  # fmt: skip
    token_ids = iter(sources.token_ids(words) if words else [])
    embedding, mask_vector = batch.networks[0].embedding, batch.networks[0].baseline
    width = max(len(text.units) for text in sources.encoded)
    vectors = mask_vector.detach().to(batch.dtype).repeat(batch.inputs, width, 1)
    with torch.no_grad():
        for (number, unit), token in zip(text_units, ids, strict=True):
            if token >= 0 and (word_ids := next(token_ids)):
                vectors[number, unit] = embedding(torch.tensor(word_ids, device=batch.device)).mean(0).to(batch.dtype)
    per_unit = vectors[batch.rows.input[:, None], batch.rows.unit]  # (S, n, hidden)
    per_unit = torch.cat([per_unit, per_unit.new_zeros(len(per_unit), 1, per_unit.shape[-1])], 1)
    longest = max(batch.lengths)
    return per_unit.gather(1, batch.owner[:, :longest, None].expand(-1, -1, per_unit.shape[-1]))
