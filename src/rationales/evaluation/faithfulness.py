"""Does the model need what a method points at? Sufficiency, comprehensiveness, log-odds, deletion and insertion.

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
from rationales.evaluation.curves import Faithfulness, joined
from rationales.evaluation.filling import Filler, filler
from rationales.evaluation.grid import to_grid
from rationales.evaluation.levels import Steps, check_scores, steps
from rationales.evaluation.protocol import Protocol
from rationales.evaluation.protocol import protocol as find
from rationales.evaluation.removal import Variants, probabilities
from rationales.models.image import EncodedPicture
from rationales.models.model import Model
from rationales.models.randomness import content_key
from rationales.rationale import Grid, Rationale

AT_ONCE, FEW = {"text": 256}, 16  # inputs prepared together, by the kind of model


def faithfulness(
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
) -> Faithfulness:
    """Measure how much of the target's probability the best-scored units carry.

    inputs: what `explain` takes, or what `model.encode` gave. scores: one (units,) array per input, as many numbers as
    the input has words, or as the model reads pixels. targets: the class of each input whose probability is measured,
    by label or number: the gold label where the protocol says so, the explained class where it says that; the predicted
    label needs none. `gold`: the right classes, for protocols that leave out what is misclassified. `filler`: the
    masked language model of removal `fill`.
    """
    recipe = find(protocol, model.kind)
    if len(scores) != len(inputs) or (targets is not None and len(targets) != len(inputs)):
        raise OptionError(f"{len(inputs)} inputs, {len(scores)} scores, {len(targets or inputs)} targets: not the same")
    if not inputs:
        raise OptionError("there is nothing to measure: no inputs")
    if targets is None and recipe.label == "gold":
        raise OptionError(f"protocol {recipe.name} measures the gold label; give targets")
    if targets is not None and recipe.label == "predicted":
        raise OptionError(f"protocol {recipe.name} measures the predicted label; give no targets")
    known = gold if gold is not None else targets if recipe.label == "gold" else None
    if recipe.only_correct and (known is None or any(one is None for one in known)):
        raise OptionError(f"protocol {recipe.name} leaves out misclassified inputs; give gold, the right classes")
    right = [model.target(one) for one in known] if known is not None else [None] * len(inputs)
    wanted = [model.target(one) for one in targets] if targets is not None else [None] * len(inputs)
    words = _filler(filler, recipe)
    order = np.argsort([len(values) for values in scores], kind="stable")  # short with short: `each` wastes no level
    parts: list[Faithfulness] = []
    at_once = AT_ONCE.get(model.kind, FEW)
    for begin in range(0, len(order), at_once):
        some = order[begin : begin + at_once].tolist()
        encoded = _encoded(model, [inputs[number] for number in some])
        parts.append(
            _measure(
                model, encoded, [scores[number] for number in some], [wanted[number] for number in some],
                [right[number] for number in some], recipe, seed, words,
            )
        )  # fmt: skip
        if progress is not None:
            progress(min(1.0, (begin + at_once) / len(order)))
    return joined(parts, np.argsort(order))


def of_rationales(
    model: Model,
    rationales: Sequence[Rationale],
    targets: Sequence[str | int | None] | None = None,
    protocol: str | Protocol = "marc",
    **more: Any,
) -> Faithfulness:
    """`faithfulness` of results that `explain` gave.

    Targets are by default the explained classes; a protocol that measures the predicted ones takes none.
    The scores of a picture are at the picture's own size and are taken back to what the model reads, which blurs them a
    little; give `faithfulness` the raw scores where there are any.
    """
    inputs: list[Any] = []
    scores: list[np.ndarray] = []
    for one in rationales:
        if isinstance(one.units, Grid):
            if one.picture is None:
                raise InputError(
                    f"the result for {one.name or 'a picture'} comes without its picture; explain it again"
                )
            inputs.append(one.picture)
            scores.append(to_grid(one.scores.reshape(one.units.height, one.units.width), model).flatten())
        elif isinstance(one.units, tuple):
            inputs.append(one.text if one.pair is None else (one.text, one.pair))
            scores.append(one.scores)
        else:
            raise InputError(f"the result for {one.name or 'an input'} is neither of a text nor of a picture")
    chosen: Sequence[str | int | None] | None = targets
    if targets is None and find(protocol, model.kind).label != "predicted":
        chosen = [one.target for one in rationales]
    return faithfulness(model, inputs, scores, chosen, protocol, **more)


def _filler(given: Any, recipe: Protocol) -> Filler | None:
    wanted = "fill" in (recipe.removal, recipe.odds_removal)
    return filler(given if given is not None else recipe.filler) if wanted else None


def _encoded(model: Model, inputs: Sequence[Any]) -> list[Any]:
    return list(
        inputs if all(hasattr(one, "source") for one in inputs)
        else model.encode([model.read(one, None) for one in inputs])
    )  # fmt: skip


def _measure(
    model: Model,
    encoded: Sequence[Any],
    scores: Sequence[np.ndarray],
    wanted: Sequence[int | None],
    right: Sequence[int | None],
    recipe: Protocol,
    seed: int,
    words: Filler | None,
) -> Faithfulness:
    names = [model.title(one.source) for one in encoded]
    check_scores(scores, names)
    for one, values, name in zip(encoded, scores, names, strict=True):
        if len(values) != (units := units_of(one, len(values))):
            raise InputError(f"{len(values)} scores for the {units} {model.unit}s of {name}")
    real = None
    if all(isinstance(one, EncodedPicture) for one in encoded):
        real = torch.stack([one.real.flatten() for one in encoded])
    keys = [_key(one, seed) for one in encoded]
    chosen = steps(scores, recipe, keys, _device(model), real)
    said = probabilities(
        model,
        encoded,
        chosen,
        Variants.both_sides(chosen),
        removal=recipe.removal,
        special=recipe.special,
        retokenise=recipe.retokenise,
        filler=words,
        seed=seed,
    )
    _check(said, names)
    predicted = said[0].mean(1).argmax(-1)
    given = torch.tensor([-1 if one is None else one for one in wanted], device=said.device)
    target = torch.where(given < 0, predicted, given)
    curves = _of_target(said, target)
    levels = chosen.count.shape[1]
    removed = curves[..., 2 + levels :]
    return Faithfulness(
        protocol=recipe,
        target=target.cpu().numpy(),
        predicted=predicted.cpu().numpy(),
        gold=np.array([-1 if one is None else one for one in right]),
        full=curves[..., 0],
        empty=curves[..., 1],
        kept=curves[..., 2 : 2 + levels],
        removed=removed,
        odds=removed
        if recipe.odds_removal in (None, recipe.removal)
        else _odds(model, encoded, chosen, target, recipe, seed, words),
        share=chosen.share.cpu().numpy(),
        counts=chosen.counts.cpu().numpy(),
    )


def _odds(
    model: Model,
    encoded: Sequence[Any],
    chosen: Steps,
    target: Tensor,
    recipe: Protocol,
    seed: int,
    words: Filler | None,
) -> np.ndarray:
    """(B, V, L): the curve of removed units where log-odds has a removal of its own; only its level, if it has one."""
    own = chosen
    if recipe.odds_level is not None:
        place = recipe.levels.index(recipe.odds_level)
        own = replace(chosen, count=chosen.count[:, place : place + 1], counts=chosen.counts[:, place : place + 1])
    said = probabilities(
        model,
        encoded,
        own,
        Variants.removed(own),
        removal=recipe.odds_removal or recipe.removal,
        special=recipe.special,
        retokenise=recipe.retokenise,
        filler=words,
        seed=seed,
    )
    found = _of_target(said, target)
    if own is chosen:
        return found
    whole = np.full((*found.shape[:2], chosen.count.shape[1]), np.nan)
    whole[..., recipe.levels.index(recipe.odds_level or 0.0)] = found[..., 0]
    return whole


def _of_target(said: Tensor, target: Tensor) -> np.ndarray:
    """(K, B, V, classes) -> (B, V, K): the probability of each input's target."""
    index = target[None, :, None, None].expand(*said.shape[:3], 1)
    found: np.ndarray = said.gather(-1, index).squeeze(-1).permute(1, 2, 0).double().cpu().numpy()
    return found


def _check(said: Tensor, names: Sequence[str]) -> None:
    bad = ~torch.isfinite(said).flatten(2).all(-1).all(0)
    if bool(bad.any()):
        name = names[int(torch.nonzero(bad)[0])]
        raise InputError(
            f"the model gives NaN or infinite logits for {name} when parts of it are removed; check its weights, or "
            "choose another removal"
        )


def units_of(encoded: Any, otherwise: int = 0) -> int:
    """How many units an encoded input has."""
    if isinstance(encoded, EncodedPicture):
        return encoded.real.numel()
    return len(encoded.units) if hasattr(encoded, "units") else otherwise


def _key(one: Any, seed: int) -> int:
    """What breaks ties: the seed and the input's content, nothing else."""
    source = one.source
    if isinstance(one, EncodedPicture):
        return content_key(seed, source.pixels.tobytes())
    return tie_key(seed, str(getattr(source, "text", getattr(source, "name", ""))), getattr(source, "pair", None))


def tie_key(seed: int, text: str, pair: str | None) -> int:
    """What breaks the ties of a text."""
    return content_key(seed, text, pair)


def _device(model: Any) -> torch.device:
    """Where the model's weights are; scores are ranked there."""
    networks = getattr(model, "networks", None)
    module = networks[0].module if networks else getattr(model, "module", None)
    weight = next(module.parameters(), None) if module is not None else None
    return torch.device("cpu") if weight is None else weight.device
