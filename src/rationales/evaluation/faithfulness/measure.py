"""Measure faithfulness: sufficiency, comprehensiveness, log-odds, deletion and insertion of the best-scored units.

Everything is read off two curves per input: the target's probability when only the best units are kept, and when they
are removed. All levels and both sides of many inputs go through the model in one stream of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError, OptionError
from rationales.evaluation.faithfulness.curves import FaithfulnessCurves, concatenate_curves
from rationales.evaluation.faithfulness.image_scores import to_model_grid
from rationales.evaluation.faithfulness.levels import LevelSelections, check_scores, select_levels
from rationales.evaluation.faithfulness.removal import Variants, protocol_for, variant_probabilities
from rationales.evaluation.protocols import FILL, Protocol
from rationales.models.batch.rows import content_key
from rationales.models.image.encoded import EncodedImage
from rationales.models.model import Model
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import filler_names, load_filler
from rationales.rationale import Grid, Rationale

INPUTS_AT_ONCE, DEFAULT_INPUTS_AT_ONCE = {"text": 256}, 16  # inputs prepared together, by the kind of model


def measure_faithfulness(
    model: Model,
    inputs: Sequence[Any],
    scores: Sequence[np.ndarray],
    targets: Sequence[str | int | None] | None = None,
    protocol: str | Protocol = "marc",
    *,
    gold: Sequence[str | int | None] | None = None,
    seed: int = 0,
    filler: str | Filler | tuple[Any, Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> FaithfulnessCurves:
    """Measure how much of the target's probability the best-scored units carry.

    inputs: what `explain` takes, or what `model.encode` gave. scores: one (units,) array per input, as many numbers as
    the input has words, or as the model reads pixels. targets: the class of each input whose probability is measured,
    by label or number: the gold label where the protocol says so, the explained class where it says that; the predicted
    label needs none. `gold`: the right classes, for protocols that leave out what is misclassified. `filler`: the
    masked language model of removal `fill`.
    """
    resolved = protocol_for(protocol, model)
    if len(scores) != len(inputs) or (targets is not None and len(targets) != len(inputs)):
        raise OptionError(f"{len(inputs)} inputs, {len(scores)} scores, {len(targets or inputs)} targets: not the same")
    if not inputs:
        raise OptionError("there is nothing to measure: no inputs")
    if targets is None and resolved.label == "gold":
        raise OptionError(f"protocol {resolved.name} measures the gold label; give targets")
    if targets is not None and resolved.label == "predicted":
        raise OptionError(f"protocol {resolved.name} measures the predicted label; give no targets")
    gold_known = gold if gold is not None else targets if resolved.label == "gold" else None
    if resolved.only_correct and (gold_known is None or any(label is None for label in gold_known)):
        raise OptionError(f"protocol {resolved.name} leaves out misclassified inputs; give gold, the right classes")
    gold_indices = [model.target(label) for label in gold_known] if gold_known is not None else [None] * len(inputs)
    target_indices = [model.target(label) for label in targets] if targets is not None else [None] * len(inputs)
    masked_lm = required_filler(filler, resolved, model)
    order = np.argsort([len(values) for values in scores], kind="stable")  # short with short: `each` wastes no level
    pieces: list[FaithfulnessCurves] = []
    at_once = INPUTS_AT_ONCE.get(model.kind, DEFAULT_INPUTS_AT_ONCE)
    for begin in range(0, len(order), at_once):
        positions = order[begin : begin + at_once].tolist()
        encoded = _encoded(model, [inputs[number] for number in positions])
        pieces.append(
            _measure(
                model, encoded, [scores[n] for n in positions], [target_indices[n] for n in positions],
                [gold_indices[n] for n in positions], resolved, seed, masked_lm,
            )
        )  # fmt: skip
        if progress is not None:
            progress(min(1.0, (begin + at_once) / len(order)))
    return concatenate_curves(pieces, np.argsort(order))


def measure_rationales(
    model: Model,
    rationales: Sequence[Rationale],
    targets: Sequence[str | int | None] | None = None,
    protocol: str | Protocol = "marc",
    **options: Any,
) -> FaithfulnessCurves:
    """`measure_faithfulness` of the rationales that `explain` returned.

    Targets are by default the explained classes; a protocol that measures the predicted ones takes none. The scores of
    an image have the image's own size and are resized to what the model reads, which blurs them a little; pass the raw
    scores to `measure_faithfulness` where there are any.
    """
    inputs: list[Any] = []
    scores: list[np.ndarray] = []
    for rationale in rationales:
        if isinstance(rationale.units, Grid):
            if rationale.image is None:
                name = rationale.name or "an image"
                raise InputError(f"the rationale of {name} comes without its image; explain it again")
            inputs.append(rationale.image)
            size = (rationale.units.height, rationale.units.width)
            scores.append(to_model_grid(rationale.scores.reshape(size), model).flatten())
        elif isinstance(rationale.units, tuple):
            inputs.append(rationale.text if rationale.pair is None else (rationale.text, rationale.pair))
            scores.append(rationale.scores)
        else:
            raise InputError(f"the result for {rationale.name or 'an input'} is neither of a text nor of an image")
    measured_targets: Sequence[str | int | None] | None = targets
    if targets is None and protocol_for(protocol, model).label != "predicted":
        measured_targets = [rationale.target for rationale in rationales]
    return measure_faithfulness(model, inputs, scores, measured_targets, protocol, **options)


def required_filler(source: Any, protocol: Protocol, model: Any = None) -> Filler | None:
    """The masked language model, where the protocol fills in removed words; by default the protocol's, else ours.

    One that is loaded here goes to the device of `model`.
    """
    if FILL not in (protocol.removal, protocol.odds_removal):
        return None
    names = filler_names()
    chosen = source if source is not None else protocol.filler or (names[0] if names else None)
    return load_filler(chosen, _device(model))


def _encoded(model: Model, inputs: Sequence[Any]) -> list[Any]:
    encoded = all(hasattr(item, "source") for item in inputs)
    return list(inputs if encoded else model.encode([model.read(item, None) for item in inputs]))


def _measure(
    model: Model,
    encoded: Sequence[Any],
    scores: Sequence[np.ndarray],
    targets: Sequence[int | None],
    gold: Sequence[int | None],
    protocol: Protocol,
    seed: int,
    masked_lm: Filler | None,
) -> FaithfulnessCurves:
    names = [model.title(item.source) for item in encoded]
    check_scores(scores, names)
    for item, values, name in zip(encoded, scores, names, strict=True):
        if len(values) != (units := unit_count(item, len(values))):
            raise InputError(f"{len(values)} scores for the {units} {model.unit}s of {name}")
    real = None
    if all(isinstance(item, EncodedImage) for item in encoded):
        real = torch.stack([item.real.flatten() for item in encoded])
    keys = [_input_key(item, seed) for item in encoded]
    levels = select_levels(scores, protocol, keys, _device(model), real)
    variants = Variants.both_sides(levels)
    probabilities = variant_probabilities(model, encoded, levels, variants, protocol, filler=masked_lm, seed=seed)
    _check_finite(probabilities, names)
    predicted = probabilities[0].mean(1).argmax(-1)
    requested = torch.tensor([-1 if item is None else item for item in targets], device=probabilities.device)
    target = torch.where(requested < 0, predicted, requested)
    curves = _target_probabilities(probabilities, target)
    level_count = levels.count.shape[1]
    removed = curves[..., 2 + level_count :]
    return FaithfulnessCurves(
        protocol=protocol,
        target=target.cpu().numpy(),
        predicted=predicted.cpu().numpy(),
        gold=np.array([-1 if item is None else item for item in gold]),
        full=curves[..., 0],
        empty=curves[..., 1],
        kept=curves[..., 2 : 2 + level_count],
        removed=removed,
        odds=removed
        if protocol.odds_removal in (None, protocol.removal)
        else _odds(model, encoded, levels, target, protocol, seed, masked_lm),
        share=levels.share.cpu().numpy(),
        counts=levels.counts.cpu().numpy(),
    )


def _odds(
    model: Model,
    encoded: Sequence[Any],
    levels: LevelSelections,
    target: Tensor,
    protocol: Protocol,
    seed: int,
    masked_lm: Filler | None,
) -> np.ndarray:
    """(B, V, L): the curve of removed units where log-odds has a removal of its own; only its level, if it has one."""
    measured_levels = levels
    if protocol.odds_level is not None:
        index = protocol.levels.index(protocol.odds_level)
        measured_levels = replace(
            levels, count=levels.count[:, index : index + 1], counts=levels.counts[:, index : index + 1]
        )
    variants = Variants.removed(measured_levels)
    odds_protocol = replace(protocol, removal=protocol.odds_removal or protocol.removal)
    probabilities = variant_probabilities(
        model, encoded, measured_levels, variants, odds_protocol, filler=masked_lm, seed=seed
    )
    odds = _target_probabilities(probabilities, target)
    if measured_levels is levels:
        return odds
    all_levels = np.full((*odds.shape[:2], levels.count.shape[1]), np.nan)
    all_levels[..., protocol.levels.index(protocol.odds_level or 0.0)] = odds[..., 0]
    return all_levels


def _target_probabilities(probabilities: Tensor, target: Tensor) -> np.ndarray:
    """(K, B, V, classes) -> (B, V, K): the probability of each input's target."""
    index = target[None, :, None, None].expand(*probabilities.shape[:3], 1)
    of_target: np.ndarray = probabilities.gather(-1, index).squeeze(-1).permute(1, 2, 0).double().cpu().numpy()
    return of_target


def _check_finite(probabilities: Tensor, names: Sequence[str]) -> None:
    broken = ~torch.isfinite(probabilities).flatten(2).all(-1).all(0)
    if bool(broken.any()):
        name = names[int(torch.nonzero(broken)[0])]
        raise InputError(
            f"the model gives NaN or infinite logits for {name} when parts of it are removed; check its weights, or "
            "choose another removal"
        )


def unit_count(encoded: Any, default: int = 0) -> int:
    """Number of units of an encoded input; `default` where the encoding does not say."""
    if isinstance(encoded, EncodedImage):
        return encoded.real.numel()
    return len(encoded.units) if hasattr(encoded, "units") else default


def _input_key(encoded: Any, seed: int) -> int:
    """Random key that breaks ties: of the seed and the input's content, nothing else."""
    source = encoded.source
    if isinstance(encoded, EncodedImage):
        return content_key(seed, source.pixels.tobytes())
    return content_key(seed, str(getattr(source, "text", getattr(source, "name", ""))), getattr(source, "pair", None))


def _device(model: Any) -> torch.device:
    """Where the model's weights are; scores are ranked there."""
    networks = getattr(model, "networks", None)
    module = networks[0].module if networks else getattr(model, "module", None)
    weight = next(module.parameters(), None) if module is not None else None
    return torch.device("cpu") if weight is None else weight.device
