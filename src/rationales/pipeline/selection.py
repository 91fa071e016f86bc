"""Which units make the rationale: the choice of the rule, the curve over other sizes, and notes on the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.objective import complement_term, squeeze, sufficiency_term
from rationales.masks.sizes import LARGEST_SHARE, MIN_CAPPED_UNITS
from rationales.models.batch import Batch
from rationales.models.batch.rows import Part
from rationales.models.kinds import kind_named
from rationales.rationale import Curve, Note, Rule, by_label

SUFFICIENT = 0.9  # a rationale alone should give the target this share of its probability for the full input
INSUFFICIENT = 0.5  # below this share there is a note
INFORMATIVE = 0.7  # a baseline that gives the target this probability is not uninformative
REDUNDANT = 0.9  # a complement with this share of the full input's probability shows that the rationale is not needed


@dataclass(frozen=True)
class SelectionSummary:
    """The facts about one result that the checks use."""

    kind: str  # of the model: text, image, image-text, audio, spectrogram
    unit: str
    target: str
    probabilities: Mapping[str, Mapping[str, float]]  # full, rationale, complement, baseline -> label -> probability
    baseline: str
    selected: int  # units in the rationale
    units: int
    sparsity: float | None = None  # the method's option, where it decides the size of the rationale
    suggested_baselines: str | None = None  # for a user whose baseline is informative; None: those of the kind


def selection_notes(selection: SelectionSummary) -> list[Note]:
    """The notes on a result of any method; empty for a result that is sufficient and comprehensive."""
    full, alone, complement, empty = (
        selection.probabilities[name][selection.target] for name in ("full", "rationale", "complement", "baseline")
    )
    notes = []
    if empty > INFORMATIVE:
        message = (
            f"from the baseline {selection.baseline} alone the probability of {selection.target} is already {empty:.2f}"
        )
        baselines = selection.suggested_baselines or kind_named(selection.kind).suggested_baselines
        if selection.baseline == "delete":  # of a function of texts, which has no tokens
            baselines = "a neutral word, such as '…', in place of deleting"
        message += f", so it is not uninformative; try another baseline ({baselines})"
        notes.append(Note("informative-baseline", message))
    if selection.selected == 0:
        message = f"no {selection.unit} was selected, so there is no rationale"
        return [*notes, Note("empty-rationale", f"{message}; {_select_more(selection)}")]
    if _insufficient(selection, full, alone):
        message = f"from the selected {selection.unit}s alone the probability of {selection.target} is {alone:.2f}"
        message += f" ({full:.2f} from the full {kind_named(selection.kind).noun}): not sufficient"
        advice = _select_more(selection)
        notes.append(Note("not-sufficient", f"{message}; {advice}" if advice else message))
    if complement >= full and complement > empty:
        notes.append(Note("evidence-against", _contradiction(selection, full, complement)))
    elif complement >= REDUNDANT * full and complement > empty:
        message = (
            f"without the selected {selection.unit}s the probability of {selection.target} is still {complement:.2f}"
        )
        message += f" ({full:.2f} with them): not comprehensive, since the remaining input leads to the same decision"
        notes.append(Note("not-comprehensive", message))
    return notes


def _insufficient(selection: SelectionSummary, full: float, alone: float) -> bool:
    """Whether the rationale alone loses half of the target's probability, or changes the predicted label."""
    if alone < INSUFFICIENT * full:
        return True
    full_input, rationale = (selection.probabilities[name] for name in ("full", "rationale"))
    is_predicted = full == max(full_input.values()) and len(full_input) > 1
    return is_predicted and max(rationale, key=rationale.__getitem__) != selection.target


def _contradiction(selection: SelectionSummary, full: float, complement: float) -> str:
    return (
        f"without the selected {selection.unit}s the probability of {selection.target} rises from {full:.2f} to "
        f"{complement:.2f}: the "
        f"selection also holds evidence against {selection.target}, so do not read it as the reason; compare another "
        "method, or ask why it is this class rather than its strongest rival (against)"
    )


def _select_more(selection: SelectionSummary) -> str:
    """Advice on how to select more units; empty where everything is selected already."""
    if selection.selected >= selection.units:
        return ""
    share = min(1.0, max(2 * selection.selected / selection.units, 0.1))
    advice = f"select more, for instance share={share:.2g}"
    if selection.sparsity:
        advice += f", or lower sparsity (now {selection.sparsity:g})"
    return advice


@dataclass(frozen=True, eq=False)
class RuleChoice:
    """The rule of each input, what it selects, and the predictions for that."""

    rules: list[Rule]
    selected: list[np.ndarray]  # (units,) bool for each input
    rationale: Tensor  # (inputs, classes) probabilities of the selected units alone
    complement: Tensor  # (inputs, classes) probabilities of all other units
    row_outputs: Tensor | None  # (2, S) probabilities of the target in every row, of both; None for images


def choose_rules(
    batch: Batch, rules: Sequence[Rule], scores: Sequence[Tensor], target: Tensor, full: Tensor
) -> RuleChoice:
    """For each input the first of `rules` whose selection is sufficient and whose complement lowers the probability.

    `scores`: (units,) of each input; `target` (inputs,); `full` (inputs, classes): probabilities of the full inputs.
    A selection is sufficient if it gives the target `SUFFICIENT` of its probability for the full input, and is not
    nearly all of a text (`LARGEST_SHARE`): that suffices and explains nothing. If no rule satisfies both, the first
    sufficient one; if none is sufficient, the rule with the lowest loss (Eq. 8), of images with the highest target
    probability.
    """
    full_input = full.gather(1, target[:, None]).squeeze(1).tolist()
    best, best_rank = [rules[0]] * batch.inputs, [(-1, 0.0)] * batch.inputs
    selected: list[np.ndarray] = [np.empty(0, dtype=bool)] * batch.inputs
    predictions = torch.full((2, *full.shape), torch.nan, device=full.device, dtype=full.dtype)
    row_outputs = None if _complements_later(batch) else full.new_empty(2, batch.size[0])
    ranks = None if all(rule.threshold is not None for rule in rules) else _ranks_in_parts(scores, batch.parts)
    unsettled = list(range(batch.inputs))
    for group in _groups(rules, batch):
        remaining = batch if len(unsettled) == batch.inputs else batch.take(unsettled)
        masks = _select_all(group, scores, ranks, unsettled, batch.parts)
        keep = torch.stack([remaining.spread(by_input) for by_input in masks])  # (rules, S, n)
        required = [SUFFICIENT * full_input[number] for number in unsettled]
        predicted, of_rows = _predict(remaining, keep, target[unsettled], required)  # (2, rules, inputs, classes)
        of_target = predicted.gather(-1, target[unsettled].expand(2, len(group), -1)[..., None]).squeeze(-1)
        values, too_large = _values_of_selections(of_target, masks, batch)
        table = torch.cat([of_target, values[None], too_large[None].to(values)]).transpose(0, 1).tolist()
        for index, (rule, columns) in enumerate(zip(group, table, strict=True)):
            improved: list[int] = []  # places in `unsettled`
            for place, (kept, removed, value, is_too_large) in enumerate(zip(*columns, strict=True)):
                number = unsettled[place]
                sufficient = kept >= required[place] and not is_too_large
                necessary = removed < full_input[number]
                rank = (2, 0.0) if sufficient and necessary else (1, 0.0) if sufficient else (0, value)
                if rank > best_rank[number]:
                    best[number], best_rank[number] = rule, rank
                    improved.append(place)
            if improved:
                numbers = [unsettled[place] for place in improved]
                predictions[:, numbers] = predicted[:, index, improved]
                if row_outputs is not None and of_rows is not None:
                    row_outputs[:, batch.rows_of(numbers)] = of_rows[:, index, remaining.rows_of(improved)].to(full)
                improved_masks = on_host([masks[index][place] for place in improved])
                for number, mask in zip(numbers, improved_masks, strict=True):
                    selected[number] = mask.numpy()
        unsettled = [number for number in unsettled if best_rank[number][0] < 2]
        if not unsettled:
            break
    _ask_missing_complements(batch, selected, predictions)
    rationale, complement = predictions
    return RuleChoice(best, selected, rationale, complement, row_outputs)


def _values_of_selections(of_target: Tensor, masks: Sequence[Sequence[Tensor]], batch: Batch) -> tuple[Tensor, Tensor]:
    """(rules, inputs) each: how good a selection is that does not suffice, and whether it is nearly all of its text.

    `of_target` (2, rules, inputs): the target's probability in selections and in complements; `masks`: (units,) bool
    for every rule and input. Of texts minus the loss (Eq. 8), of images the target's probability. Of a short text all
    units may be needed.
    """
    kept, removed = of_target
    if batch.pixel_grid is not None:
        return kept, torch.zeros_like(kept, dtype=torch.bool)
    lengths = torch.tensor([len(mask) for mask in masks[0]])
    owner = torch.repeat_interleave(lengths).to(kept.device)
    units = lengths.to(kept)
    selected = torch.stack([torch.cat(list(by_input)) for by_input in masks]).to(kept)
    share = torch.zeros_like(kept).index_add(1, owner, selected) / units
    loss = sufficiency_term(squeeze(kept)) + complement_term(squeeze(removed), "bounded") + share.square()
    return -loss, (units >= MIN_CAPPED_UNITS) & (share > LARGEST_SHARE)


def on_host(values: Sequence[Tensor]) -> list[Tensor]:
    """The same vectors on the CPU, by one copy."""
    return list(torch.split(torch.cat(list(values)).cpu(), [len(vector) for vector in values]))


def with_values_of(order: Tensor, scores: Tensor) -> Tensor:
    """(units,): the values of `scores`, ranked as `order` ranks the units; a threshold selects as many by either."""
    return torch.empty_like(scores).index_copy(0, order.argsort(stable=True), scores.sort().values)


def rule_on_scores(rule: Rule, selected: np.ndarray) -> Rule:
    """The rule for single scores where `selected` (units,) was selected by span scores, to which a threshold applies.

    It selects as many units.
    """
    return rule if rule.threshold is None else Rule(top=int(selected.sum()))


SMALL_PASS = 32  # rows on a GPU, which take hardly longer than one


def _groups(rules: Sequence[Rule], batch: Batch) -> Iterator[Sequence[Rule]]:
    """Rules that the model is asked about together: mostly the first settles it; a GPU does the others at once.

    On a GPU all are asked about in one pass if that is a small one.
    """
    if batch.device.type == "cuda" and 2 * len(rules) * batch.size[0] <= SMALL_PASS:
        yield rules
        return
    yield rules[:1]
    if batch.device.type == "cuda":
        yield from [rules[1:]] if rules[1:] else []
    else:
        yield from ([rule] for rule in rules[1:])


def _complements_later(batch: Batch) -> bool:
    """Whether complements are asked about only where they matter: of images on a CPU, whose rows are expensive.

    On a GPU a pass of few rows costs its launch, and one pass of selections and complements is faster than two.
    """
    return batch.pixel_grid is not None and batch.device.type == "cpu"


def _predict(batch: Batch, keep: Tensor, target: Tensor, required: Sequence[float]) -> tuple[Tensor, Tensor | None]:
    """(2, rules, inputs, classes): probabilities of selections (rules, S, n) and of their complements.

    And (2, rules, S): those of the target in every row; None for images. The complements of images are computed for
    inputs with a sufficient selection only; the others are NaN.
    """
    real = batch.rows.real
    if not _complements_later(batch):
        with torch.no_grad():
            by_row = batch.probabilities(batch.logits(torch.cat([keep, (1 - keep) * real])))
            predicted = batch.pool(by_row).mean(-2).view(2, len(keep), batch.inputs, -1)
            row_target = target[batch.rows.input].expand(len(by_row), -1)[..., None]
            return predicted, by_row.gather(-1, row_target).view(2, len(keep), -1)
    alone = batch.predict(keep)
    complement = torch.full_like(alone, torch.nan)
    of_target = alone.gather(-1, target.expand(len(keep), -1)[..., None]).squeeze(-1).amax(0).tolist()
    sufficient = [number for number, value in enumerate(of_target) if value >= required[number]]
    if sufficient:
        subset, rows = batch.take(sufficient), batch.rows_of(sufficient)
        complement[:, sufficient] = subset.predict((1 - keep[:, rows]) * real[rows])
    return torch.stack([alone, complement]), None


def _ask_missing_complements(batch: Batch, selected: Sequence[np.ndarray], predictions: Tensor) -> None:
    """Fill in the complements of selections that do not suffice, in place."""
    if not _complements_later(batch):
        return
    missing = torch.nonzero(predictions[1].isnan().any(1)).flatten().tolist()
    if missing:
        subset = batch.take(missing)
        keep = subset.spread([torch.from_numpy(selected[number]) for number in missing])
        predictions[1, missing] = subset.predict((1 - keep) * subset.rows.real)


def _ranks_in_parts(scores: Sequence[Tensor], parts: Sequence[Part]) -> list[Tensor]:
    """(units,) for each input: the ranks of its scores in their part; 0 is the best, of equal scores the first."""
    if len({len(values) for values in scores}) == 1 and len(parts) == 1:  # images: one sort for all
        return list(_ranks(torch.stack(list(scores))))
    return [torch.cat([_ranks(piece) for piece in _part_values(values, parts)]) for values in scores]


def _part_values(values: Tensor, parts: Sequence[Part]) -> list[Tensor]:
    """(units,) of one input -> the values of each part; the last part of an input may be shorter than in a batch."""
    return [values[unit_part.units] for unit_part in parts] if len(parts) > 1 else [values]


def _ranks(scores: Tensor) -> Tensor:
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices
    positions = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, positions)


def _select_all(
    rules: Sequence[Rule],
    scores: Sequence[Tensor],
    ranks: Sequence[Tensor] | None,
    numbers: Sequence[int],
    parts: Sequence[Part],
) -> list[list[Tensor]]:
    """For each rule, what it selects in the inputs `numbers`: (units,) bool each, on the device of the scores."""
    lengths = [len(scores[number]) for number in numbers]
    flat = torch.cat([scores[number] for number in numbers])
    masks: list[list[Tensor]] = []
    for rule in rules:
        if rule.threshold is not None:
            masks.append(list(torch.split(flat > rule.threshold, lengths)))
        elif ranks is None:
            raise ValueError("a rule that counts units needs their ranks")
        else:
            masks.append([_best_units(rule, ranks[number], parts) for number in numbers])
    return masks


def _best_units(rule: Rule, ranks: Tensor, parts: Sequence[Part]) -> Tensor:
    """(units,) bool: the units whose rank is below the rule's count; a share is taken of each part."""
    return torch.cat([piece < rule.count(len(piece)) for piece in _part_values(ranks, parts)])


def select_by_rule(rule: Rule, scores: Sequence[Tensor], batch: Batch) -> list[np.ndarray]:
    """(units,) bool for each input: what a user's rule selects; a share is taken of each part."""
    if rule.top is not None and len(batch.parts) > 1:
        raise OptionError("top counts units, and words and pixels cannot be counted together; give share or threshold")
    ranks = None if rule.threshold is not None else _ranks_in_parts(scores, batch.parts)
    (masks,) = _select_all([rule], scores, ranks, range(len(scores)), batch.parts)
    return [mask.numpy() for mask in on_host(masks)]


def rule_at_image_size(rule: Rule, scores: np.ndarray, read_mask: np.ndarray, words: int) -> Rule:
    """The rule as a threshold, by the scores (units,) of what the model reads; of words and of pixels each its own.

    A share of what the model reads is another share of the whole image. `words`: number of words before the pixels.
    """
    pixel_rule = rule.as_threshold(scores[words:][read_mask[words:]])
    if words == 0 or rule.threshold is not None:
        return pixel_rule
    threshold = rule.as_threshold(scores[:words]).threshold
    return Rule(threshold=threshold, pixel_threshold=pixel_rule.threshold)


SIZES = (0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.9, 1)  # shares of the units
KEEPS_AT_ONCE = 2**26  # elements of the keeps in memory at once: 256 MiB
MARGIN = 1e-3  # distance of the first and the last threshold from the scores, as a share of their range


def curve_thresholds(scores: np.ndarray) -> list[float]:
    """Falling thresholds, one for each size: the first is above all scores, the last below all.

    With few units every size has one. Equal scores are selected together, so there can be fewer sizes than `SIZES`.
    """
    n = len(scores)
    ranked = np.sort(scores.astype(np.float32))[::-1]
    counts = np.arange(n + 1) if n < len(SIZES) else np.unique(np.rint(np.asarray(SIZES) * n).astype(int))
    margin = MARGIN * (float(ranked[0] - ranked[-1]) or max(abs(float(ranked[0])), 1.0))
    inner = [float(value) for value in dict.fromkeys(ranked[counts[1:-1]].tolist()) if value < ranked[0]]
    below = min(np.float32(ranked[-1] - margin), np.nextafter(ranked[-1], np.float32(-np.inf)))
    return [float(np.float32(ranked[0] + margin)), *inner, float(below)]


def curve_probabilities(batch: Batch, scores: Sequence[Tensor], thresholds: Sequence[Sequence[float]]) -> Tensor:
    """(2, K, inputs, classes): probabilities of every selection alone, and of its complement.

    K is the largest number of thresholds of an input; for inputs with fewer the last one is repeated.
    """
    sizes = max(map(len, thresholds))
    at_once = max(1, KEEPS_AT_ONCE // (2 * batch.zeros().numel()))
    pieces = []

    def selections(size: int) -> Tensor:
        levels = [by_size[min(size, len(by_size) - 1)] for by_size in thresholds]
        return batch.spread([(values > level).float() for values, level in zip(scores, levels, strict=True)])

    for begin in range(0, sizes, at_once):
        keep = torch.stack([selections(size) for size in range(begin, min(begin + at_once, sizes))])
        predicted = batch.predict(torch.cat([keep, (1 - keep) * batch.rows.real])).cpu()
        pieces.append(predicted.reshape(2, len(keep), *predicted.shape[1:]))
    return torch.cat(pieces, 1)


def curve(labels: Sequence[str], scores: np.ndarray, thresholds: Sequence[float], probabilities: Tensor) -> Curve:
    """The curve of one input; `probabilities` is (2, K, classes), `scores` those of the result."""
    alone, complement = (
        [by_label(labels, values.tolist()) for values in by_size[: len(thresholds)]] for by_size in probabilities
    )
    return Curve(
        tuple(round(float((scores > threshold).mean()), 6) for threshold in thresholds),
        tuple(thresholds),
        {label: tuple(values[label] for values in alone) for label in labels},
        {label: tuple(values[label] for values in complement) for label in labels},
    )
