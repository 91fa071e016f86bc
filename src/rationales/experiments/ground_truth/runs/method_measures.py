"""Score the test inputs of a trained model with a method, and measure how much falls on the plant."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import rationales.masks
from rationales.errors import OptionError, RationalesError
from rationales.evaluation.sampling import evenly
from rationales.evaluation.scores.attribution import attribute, predict
from rationales.experiments.ground_truth.method_rows import PICTURE_METHODS, MethodSpec
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures
from rationales.groundtruth import PlantedExample
from rationales.groundtruth.explainable import Inherent
from rationales.groundtruth.masker_training import with_trained_masker
from rationales.groundtruth.metrics import Case, attribution_share, top_selections
from rationales.groundtruth.plants.regions import Mask, units_in_region
from rationales.masks.settings import MaskSettings
from rationales.methods import Method
from rationales.models.image import baseline_choice
from rationales.models.image.model import ImageModel
from rationales.models.model import Model

MODEL_SELECTION = "chosen"  # measures of the words that a rationale model selects; for methods the share is named
SELECTION_COUNTS = ("hits", "had", "lured")  # selected words of the plant, all selected words, selected distractors
_REGIONS = ("region", "distractors")


@dataclass(frozen=True, eq=False)
class EncodedInputs:
    """Test inputs, encoded once for all methods."""

    model: Model
    planted: Sequence[PlantedExample]
    encoded: Sequence[Any]
    targets: Sequence[int]  # predicted labels
    regions: Sequence[Mask]  # (n,) each
    distractors: Sequence[Mask]  # (n,) each
    background: Sequence[PlantedExample] = ()  # test pictures that may serve as baselines
    selected_shares: tuple[float, ...] = ()  # shares of the units that methods select
    selects: bool = False  # whether positive scores are the model's own selection
    seed: int = 0
    validation: EncodedInputs | None = None  # inputs on which methods choose their baseline

    @property
    def size(self) -> int:
        """Side of the pictures in pixels; 0 for texts."""
        return self.model.fit.height if isinstance(self.model, ImageModel) else 0


def encode_inputs(model: Model, planted: Sequence[PlantedExample], **options: Any) -> EncodedInputs:
    """Encode the inputs and predict their labels; `options`: further fields of `EncodedInputs`."""
    encoded = model.encode([model.read(item.example.raw_input(), item.example.name) for item in planted])
    targets = predict(model, encoded).argmax(1).tolist()
    if isinstance(model, ImageModel):
        regions, distractors = ([np.asarray(getattr(item, name)).flatten() for item in planted] for name in _REGIONS)
    else:
        regions, distractors = (
            [
                units_in_region(getattr(item, name), text.units, item.example.text)
                for item, text in zip(planted, encoded, strict=True)
            ]
            for name in _REGIONS
        )
    return EncodedInputs(model, planted, encoded, targets, regions, distractors, **options)


def measure_method(
    inputs: EncodedInputs, spec: MethodSpec, training_texts: Sequence[str] = (), maskers: Path | None = None
) -> MethodMeasures:
    """Measures of one method; for a method that does not support the network, the reason.

    A method that needs a masker has it trained on `training_texts`, and stored in the folder `maskers`.
    """
    if spec.alternatives:
        return _measure_best_alternative(inputs, spec)
    method = spec.build_method(inputs.model.kind, inputs.size)
    began = time.perf_counter()
    try:
        model = _with_baselines(inputs, spec)
        ready = method if maskers is None else with_trained_masker(method, inputs.model, training_texts, maskers)
        attributions = attribute(model, inputs.encoded, ready, inputs.targets, seed=inputs.seed)
    except RationalesError as error:
        return MethodMeasures(method_fingerprint(spec, method), unsupported=str(error))
    seconds = (time.perf_counter() - began) / len(inputs.planted)
    failures = {
        item.example.name: attribution.failure
        for item, attribution in zip(inputs.planted, attributions, strict=True)
        if attribution.scores is None
    }
    cases = [
        None
        if attribution.scores is None
        else Case(attribution.scores, region, distractors, str(item.example.label), item.example.name)
        for item, attribution, region, distractors in zip(
            inputs.planted, attributions, inputs.regions, inputs.distractors, strict=True
        )
    ]
    values = measure_cases(cases, inputs.selected_shares, inputs.selects)
    return MethodMeasures(method_fingerprint(spec, method), seconds, values, failures)


def _measure_best_alternative(inputs: EncodedInputs, spec: MethodSpec) -> MethodMeasures:
    """Measures with the alternative that has the highest mean Attr% on the validation inputs; of equals, the first."""
    if inputs.validation is None:
        raise OptionError(f"{spec.title} needs validation inputs to choose its baseline on, and there are none")
    shares = {}
    for alternative in spec.alternatives:
        values = measure_method(inputs.validation, alternative).values.get("region", ())
        defined = [value for value in values if not math.isnan(value)]
        shares[alternative.key] = float(np.mean(defined)) if defined else math.nan
    best = max(spec.alternatives, key=lambda alternative: np.nan_to_num(shares[alternative.key], nan=-1.0))
    fingerprint = method_fingerprint(spec, spec.build_method(inputs.model.kind, inputs.size))
    return replace(measure_method(inputs, best), fingerprint=fingerprint, baseline=best.key, validation=shares)


def measure_cases(
    cases: Sequence[Case | None], selected_shares: Sequence[float], selects: bool
) -> dict[str, tuple[float, ...]]:
    """Measure -> one number per input: Attr% on the plant and on distractors, and the counts of each selection."""
    values = {name: tuple(_attribution_share(case, name) for case in cases) for name in _REGIONS}
    for selection in [*map(str, selected_shares), *([MODEL_SELECTION] if selects else [])]:
        counts = [_selection_counts(case, selection) for case in cases]
        for i, count in enumerate(SELECTION_COUNTS):
            values[f"{count}@{selection}"] = tuple(case_counts[i] for case_counts in counts)
    return values


def _attribution_share(case: Case | None, name: str) -> float:
    if case is None or not getattr(case, name).any():
        return math.nan
    return attribution_share(case.scores, getattr(case, name))


def _selection_counts(case: Case | None, selection: str) -> tuple[float, float, float]:
    if case is None:
        return math.nan, math.nan, math.nan
    selected = case.scores > 0 if selection == MODEL_SELECTION else top_selections([case], float(selection))[0]
    return float((selected & case.region).sum()), float(selected.sum()), float((selected & case.distractors).sum())


def _with_baselines(inputs: EncodedInputs, spec: MethodSpec) -> Model:
    """The model with the baselines of this row."""
    model = inputs.model
    if not isinstance(model, ImageModel) or not (spec.baselines or spec.background):
        return model
    if spec.baselines:
        return replace(model, baselines=spec.baselines)
    pictures = [
        model.preprocess(model.read(item.example.raw_input(), item.example.name))
        for item in evenly(inputs.background or inputs.planted, spec.background)
    ]
    named = {f"test picture {number}": picture for number, picture in enumerate(pictures)}
    return replace(model, baselines=tuple(named), custom_baselines=named)


def method_fingerprint(spec: MethodSpec, method: Method) -> str:
    """Hash of a method's options and code, of the masks' code for mask methods, and of the choice of baselines."""
    digest = hashlib.blake2b(digest_size=8)
    options = {} if isinstance(method, Inherent) else asdict(method)
    digest.update(json.dumps([spec.method, options, spec.baselines, spec.background], default=repr).encode())
    for alternative in spec.alternatives:
        named = [alternative.key, alternative.options, alternative.baselines, alternative.background]
        digest.update(json.dumps(named, default=repr).encode())
    digest.update(Path(inspect.getfile(type(method))).read_bytes())
    if PICTURE_METHODS.get(spec.key) is spec and not (spec.baselines or spec.background):
        digest.update(Path(baseline_choice.__file__).read_bytes())
    if isinstance(method, MaskSettings):
        for path in sorted(Path(rationales.masks.__path__[0]).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
