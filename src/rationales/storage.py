"""Saves and loads rationales: JSON, and safetensors for many numbers. Never pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rationales.errors import InputError
from rationales.files import read_text, write_bytes, write_text
from rationales.rationale import Curve, Frames, Grid, Note, Rationale, Rule, Spectrogram, TextAndImage, Unit

FORMAT = 1  # raised when the file format changes so that older files would be misread
MAX_INLINE_SCORES = 20_000  # more scores of pixels go into a separate file


def to_dict(rationale: Rationale) -> dict[str, Any]:
    """Plain data: everything that `from_dict` needs, and the spans or regions."""
    return {
        "format": FORMAT,
        "target": rationale.target,
        **({} if rationale.against is None else {"against": rationale.against}),
        "probabilities": {name: dict(by_label) for name, by_label in rationale.probabilities.items()},
        **_units(rationale),
        "scores": [float(np.format_float_positional(score, unique=True)) for score in rationale.scores],
        "notes": [asdict(note) for note in rationale.notes],
        **({} if rationale.curve is None else {"curve": _plain_curve(rationale.curve)}),
        "method": rationale.method,
        "options": dict(rationale.options),
        "rule": {name: value for name, value in asdict(rationale.rule).items() if value is not None},
        **({} if rationale.selection is None else {"selection": np.flatnonzero(rationale.selection).tolist()}),
        **({} if rationale.selected_by == "scores" else {"selected_by": rationale.selected_by}),
        "baseline": rationale.baseline,
        "unit": rationale.unit,
        "seed": rationale.seed,
        "steps": rationale.steps,
        "stop": rationale.stop,
        "segments": rationale.segments,
        **({} if not rationale.tokens else {"tokens": rationale.tokens}),
        "seconds": rationale.seconds,
        "labels": list(rationale.labels),
        "model": rationale.model,
        **({} if rationale.prompt is None else {"prompt": dict(rationale.prompt)}),
        "versions": dict(rationale.versions),
    }


def _units(rationale: Rationale) -> dict[str, Any]:
    """The input, its units, and the spans, regions or times of the rationale."""
    name: dict[str, Any] = {} if rationale.name is None else {"name": rationale.name}
    if isinstance(rationale.units, (Frames, Spectrogram)):
        name = {"times": [asdict(stretch) for stretch in rationale.times()], **name}
    if isinstance(rationale.units, Frames):
        return {**name, "units": asdict(rationale.units)}
    if isinstance(rationale.units, TextAndImage):
        half = _units(rationale.text_part)
        regions = [asdict(region) for region in rationale.regions()]
        return {**half, "regions": regions, "units": {"words": half["units"], "grid": asdict(rationale.units.grid)}}
    if isinstance(rationale.units, Grid):
        return {"regions": [asdict(region) for region in rationale.regions()], **name, "units": asdict(rationale.units)}
    units, spans = [unit._asdict() for unit in rationale.units], [asdict(span) for span in rationale.spans()]
    if rationale.pair is None:  # there is only one text
        for entry in (*units, *spans):
            del entry["text_index"]
    pair = {} if rationale.pair is None else {"pair": rationale.pair}
    return {"spans": spans, "text": rationale.text, **pair, **name, "units": units}


def from_dict(data: Mapping[str, Any]) -> Rationale:
    """The inverse of `to_dict`, without the pixels of an image or the samples of a sound."""
    fields = {key: value for key, value in data.items() if key not in ("format", "spans", "regions", "times")}
    fields["text"] = data.get("text", "")
    fields["units"] = _units_of(data["units"])
    fields["scores"] = np.asarray(data["scores"], dtype=np.float32)
    fields["labels"] = tuple(data["labels"])
    fields["rule"] = Rule(**data["rule"])
    if "selection" in data:  # the indices of the selected units
        fields["selection"] = np.isin(np.arange(len(fields["units"])), data["selection"])
    fields["notes"] = tuple(Note(**note) for note in data["notes"])
    if data.get("curve") is not None:
        fields["curve"] = _curve_of(data["curve"])
    return Rationale(**fields)


def _plain_curve(curve: Curve) -> dict[str, Any]:
    """A curve as plain data."""
    by_label = {"rationale": curve.rationale, "complement": curve.complement}
    return {
        "shares": list(curve.shares),
        "thresholds": list(curve.thresholds),
        **{name: {label: list(values) for label, values in curves.items()} for name, curves in by_label.items()},
    }


def _curve_of(data: Mapping[str, Any]) -> Curve:
    """The inverse of `_plain_curve`."""
    by_label = {
        name: {label: tuple(values) for label, values in data[name].items()} for name in ("rationale", "complement")
    }
    return Curve(tuple(data["shares"]), tuple(data["thresholds"]), **by_label)


def _units_of(units: Any) -> tuple[Unit, ...] | Grid | Frames | TextAndImage:
    """Units from plain data: words are a list, grids and frames a mapping with their size, words and a grid both."""
    if isinstance(units, Mapping) and "words" in units:
        return TextAndImage(tuple(Unit(**unit) for unit in units["words"]), Grid(**units["grid"]))
    if not isinstance(units, Mapping):
        return tuple(Unit(**unit) for unit in units)
    if "count" in units:
        return Frames(**units)
    return Spectrogram(**units) if "seconds" in units else Grid(**units)


def save(rationale: Rationale, path: str | os.PathLike[str]) -> Path:
    """Write JSON; the scores of many pixels go into a safetensors file beside it, which is written first."""
    data = to_dict(rationale)
    if isinstance(rationale.units, (Grid, TextAndImage)) and len(rationale.units) > MAX_INLINE_SCORES:
        from safetensors.numpy import save as serialize

        beside = Path(path).with_suffix(".safetensors")
        write_bytes(beside, serialize({"scores": np.ascontiguousarray(rationale.scores, dtype=np.float32)}))
        data["scores"] = {"file": beside.name}
    return write_text(path, json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")


def load(path: str | os.PathLike[str]) -> Rationale:
    """Read a file written by `save`."""
    try:
        data = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON (line {error.lineno}): {error.msg}") from None
    if not isinstance(data, dict) or "units" not in data or "scores" not in data:
        raise InputError(f"{path} does not hold a rationale")
    if data.get("format") != FORMAT:
        raise InputError(f"{path} has format {data.get('format')!r}; this version reads format {FORMAT}")
    try:
        if isinstance(data["scores"], Mapping):
            data["scores"] = _scores_beside(Path(path), str(data["scores"]["file"]))
        return from_dict(data)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(f"{path} does not hold a complete rationale: {error}") from None


def _scores_beside(path: Path, name: str) -> np.ndarray:
    """The scores in the file `name` in the folder of `path`; folders in `name` are ignored."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    beside = path.parent / Path(name).name
    try:
        scores: np.ndarray = load_file(beside)["scores"]
    except (OSError, KeyError, SafetensorError):
        raise InputError(f"{path} needs its scores in {beside}, which cannot be read; keep the two together") from None
    return scores
