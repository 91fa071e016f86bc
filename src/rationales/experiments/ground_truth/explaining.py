"""What methods say of the test inputs of a trained model, as numbers for each input."""

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
from rationales.errors import RationalesError
from rationales.evaluation.attribution import attribute, predict
from rationales.evaluation.sampling import evenly
from rationales.experiments.ground_truth.record import Told
from rationales.experiments.ground_truth.rows import PICTURES, MethodSpec
from rationales.groundtruth import PlantedExample
from rationales.groundtruth.explainable import Inherent
from rationales.groundtruth.metrics import Case, attribution_share, top_selections
from rationales.groundtruth.plants.regions import Mask, units_in_region
from rationales.masks.settings import MaskSettings
from rationales.methods import Method
from rationales.models import baseline_choice
from rationales.models.image import ImageModel
from rationales.models.model import Model

CHOSEN = "chosen"  # words that a model itself selects; else the selected share stands in its place
COUNTS = ("hits", "had", "lured")  # of a selection: words of the plant, all, words that only look like it


@dataclass(frozen=True, eq=False)
class Questions:
    """Test inputs, ready to be explained by one method after the other."""

    model: Model
    planted: Sequence[PlantedExample]
    encoded: Sequence[Any]
    targets: Sequence[int]  # what the model predicts
    regions: Sequence[Mask]  # (n,) each
    idle: Sequence[Mask]
    background: Sequence[PlantedExample] = ()  # test pictures that may serve as baselines
    shares: tuple[float, ...] = ()  # of the units that methods select
    selects: bool = False  # whether scores above 0 are a selection
    seed: int = 0

    @property
    def size(self) -> int:
        """The side of the pictures; 0 for texts."""
        return self.model.fit.height if isinstance(self.model, ImageModel) else 0


def questions(model: Model, planted: Sequence[PlantedExample], **more: Any) -> Questions:
    """Encode the inputs and ask the model what it predicts for them."""
    encoded = model.encode([model.read(one.example.given(), one.example.name) for one in planted])
    targets = predict(model, encoded).argmax(1).tolist()
    if isinstance(model, ImageModel):
        regions, idle = ([np.asarray(getattr(one, name)).flatten() for one in planted] for name in _REGIONS)
    else:
        regions, idle = (
            [
                units_in_region(getattr(one, name), own.units, one.example.text)
                for one, own in zip(planted, encoded, strict=True)
            ]
            for name in _REGIONS
        )
    return Questions(model, planted, encoded, targets, regions, idle, **more)


_REGIONS = ("region", "distractors")


def told(asked: Questions, spec: MethodSpec) -> Told:
    """What one method says; one that cannot explain this network says why."""
    method = spec.built(asked.model.kind, asked.size)
    began = time.perf_counter()
    try:
        found = attribute(_seen_by(asked, spec), asked.encoded, method, asked.targets, seed=asked.seed)
    except RationalesError as error:
        return Told(method_print(spec, method), unfit=str(error))
    seconds = (time.perf_counter() - began) / len(asked.planted)
    failures = {
        one.example.name: own.failure for one, own in zip(asked.planted, found, strict=True) if own.scores is None
    }
    cases = [
        None if own.scores is None else Case(own.scores, region, idle, str(one.example.label), one.example.name)
        for one, own, region, idle in zip(asked.planted, found, asked.regions, asked.idle, strict=True)
    ]
    return Told(method_print(spec, method), seconds, measured(cases, asked.shares, asked.selects), failures)


def measured(cases: Sequence[Case | None], shares: Sequence[float], selects: bool) -> dict[str, tuple[float, ...]]:
    """Measure -> a number for each input: Attr% on the plant and on what looks like it, and counts of selections."""
    values = {
        "region": tuple(_share(one, "region") for one in cases),
        "distractors": tuple(_share(one, "distractors") for one in cases),
    }
    for name in [*map(str, shares), *([CHOSEN] if selects else [])]:
        counts = [_counts(one, name) for one in cases]
        for place, count in enumerate(COUNTS):
            values[f"{count}@{name}"] = tuple(own[place] for own in counts)
    return values


def _share(case: Case | None, name: str) -> float:
    if case is None or not getattr(case, name).any():
        return math.nan
    return attribution_share(case.scores, getattr(case, name))


def _counts(case: Case | None, name: str) -> tuple[float, float, float]:
    if case is None:
        return math.nan, math.nan, math.nan
    own = case.scores > 0 if name == CHOSEN else top_selections([case], float(name))[0]
    return float((own & case.region).sum()), float(own.sum()), float((own & case.distractors).sum())


def _seen_by(asked: Questions, spec: MethodSpec) -> Model:
    """The model with the baselines that a method is given."""
    model = asked.model
    if not isinstance(model, ImageModel) or not (spec.baselines or spec.background):
        return model
    if spec.baselines:
        return replace(model, baselines=spec.baselines)
    pictures = [
        model.preprocess(model.read(one.example.given(), one.example.name))
        for one in evenly(asked.background or asked.planted, spec.background)
    ]
    named = {f"test picture {number}": own for number, own in enumerate(pictures)}
    return replace(model, baselines=tuple(named), own_baselines=named)


def method_print(spec: MethodSpec, method: Method) -> str:
    """A print of a method: its options, its code, that of masks if it optimises one and of the choice of baselines."""
    digest = hashlib.blake2b(digest_size=8)
    options = {} if isinstance(method, Inherent) else asdict(method)
    digest.update(json.dumps([spec.method, options, spec.baselines, spec.background], default=repr).encode())
    digest.update(Path(inspect.getfile(type(method))).read_bytes())
    if PICTURES.get(spec.key) is spec and not (spec.baselines or spec.background):
        digest.update(Path(baseline_choice.__file__).read_bytes())
    if isinstance(method, MaskSettings):
        for path in sorted(Path(rationales.masks.__path__[0]).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
