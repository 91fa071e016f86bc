"""Models, fillers, data and scores that the tables share; each is loaded or computed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from rationales.data import Example, read_data
from rationales.errors import OptionError
from rationales.evaluation.agreement.word_marks import gold_words, word_scores
from rationales.evaluation.collecting import cached_row_scores
from rationales.evaluation.sampling import evenly
from rationales.evaluation.scores.attribution import RawScores, blend, predict
from rationales.evaluation.scores.cache import model_fingerprint, open_cache
from rationales.evaluation.tables.table import Table
from rationales.experiments.input_marginalization.rows import (
    FILLER,
    LIME_ROWS,
    REMOVALS,
    ROWS,
    IMRow,
)
from rationales.experiments.registry import Request
from rationales.methods import Method, build
from rationales.models.delta import delta_location
from rationales.models.load import as_model, load
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import filler_names, load_filler
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText

TEXTS_AT_ONCE = 512  # scored together; texts of like lengths
LIME_SAMPLES = 1000  # the paper's
SST2, SST, ESNLI, MULTIRC = "sst-2", "sst", "e-snli", "multirc"


@dataclass(frozen=True)
class DataSource:
    """A data set with the classifier that was trained for it."""

    title: str
    name: str  # of `read_data`
    split: str
    model: str
    limit: int | None  # texts by default, evenly spread; None: all
    stricter: str = ""  # name of the same texts with stricter marks


SOURCES: dict[str, DataSource] = {
    SST2: DataSource("SST-2", "sst-2", "dev", "minilm-sst2", None),
    SST: DataSource("SST", "sst", "dev", "minilm-sst2", None),
    ESNLI: DataSource("e-SNLI", "e-snli-l2", "test", "minilm-esnli", 700, "e-snli-l3"),
    MULTIRC: DataSource("MultiRC", "eraser-multirc", "test", "minilm-multirc", 500),
}


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Texts of a data set as its classifier reads them."""

    source: DataSource
    model: TextModel
    examples: Sequence[Example]
    encoded: Sequence[EncodedText]
    labels: Sequence[int]
    predicted: Sequence[int]

    @property
    def accuracy(self) -> float:
        """Share of the texts that the classifier labels as the data set does."""
        return float(np.mean(np.array(self.labels) == np.array(self.predicted)))

    @cached_property
    def marks(self) -> list[np.ndarray]:
        """(white-space tokens,) bool: what people marked of each text."""
        return [_marks(example) for example in self.examples]


@dataclass(eq=False)
class Workspace:
    """What one or several tables are computed with; `models`, `fillers`: objects in place of our own, by name."""

    request: Request
    models: Mapping[str, Any] = field(default_factory=dict)
    fillers: Mapping[str, Any] = field(default_factory=dict)
    retrained: dict[str, Table] = field(default_factory=dict)  # tables of ROAR by way of removal
    excluded: set[str] = field(default_factory=set)  # data sets that tables leave out for now
    retrained_rows: Sequence[str] = LIME_ROWS  # of Table A6
    removals: Sequence[str] = REMOVALS  # ways of removal in Table A6
    _loaded: dict[str, Any] = field(default_factory=dict)

    def tell(self, line: str) -> None:
        """Report a line to the caller."""
        if self.request.log is not None:
            self.request.log(line)

    def progress(self, share: float) -> None:
        """Report the share that is done."""
        if self.request.progress is not None:
            self.request.progress(share)

    @property
    def device(self) -> torch.device:
        """The device of the classifiers."""
        loaded = [model for key, model in self._loaded.items() if key.startswith("model ")]
        model = loaded[0] if loaded else self.model(self.available(list(SOURCES))[0])
        device: torch.device = model.networks[0].baseline.device
        return device

    def _once(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self._loaded:
            self._loaded[key] = make()
        return self._loaded[key]

    def available(self, keys: Sequence[str]) -> list[str]:
        """Those of the data sets whose classifier is here; an error if none is."""
        names = {key: self.model_name(key) for key in keys}
        here = [key for key in keys if self._is_here(names[key]) and key not in self.excluded]
        if not here:
            raise OptionError(f"{names[keys[0]]} is not here: make experiments installs its encoder; zoo/ holds it")
        return here

    def model_name(self, key: str) -> str:
        """Name of the classifier of a data set: the request's for sentiment, where it names one."""
        trained_name = SOURCES[key].model
        return self.request.model if self.request.model is not None and key in (SST, SST2) else trained_name

    def _is_here(self, name: str) -> bool:
        return name in self.models or not name.startswith("minilm-") or delta_location(name) is not None

    def model(self, key: str) -> TextModel:
        """The classifier of a data set."""
        name = self.model_name(key)

        def open_model() -> TextModel:
            source = self.models.get(name)
            model = load(name, device=self.request.device) if source is None else as_model(source)
            if not isinstance(model, TextModel):
                raise OptionError(f"{name} reads no texts; these tables are of texts")
            return model

        model: TextModel = self._once(f"model {name}", open_model)
        return model

    def forward_model(self, key: str) -> TextModel:
        """The classifier for what needs no gradients: with `tf32` on a GPU a copy in half precision."""
        if not self.request.tf32:
            return self.model(key)
        model: TextModel = self._once(f"forward {self.model_name(key)}", self.model(key).coarse)
        return model

    def filler(self, name: str = "") -> Filler:
        """A masked language model by name; the table's own ("") is the request's or the first of ours."""
        name = name or self.request.filler or FILLER

        def open_filler() -> Filler:
            source = self.fillers.get(name, name)
            if source == name and name.startswith("minilm-") and name not in filler_names():
                raise OptionError(f"the filler {name} is not in zoo/; train it (zoo/README.md) or give --filler")
            filler = load_filler(source, self.device)
            if filler is None:
                raise OptionError("give a filler: a name, an id or a folder")
            return filler

        filler: Filler = self._once(f"filler {name}", open_filler)
        return filler

    def has_filler(self, name: str) -> bool:
        """Whether this masked language model is here."""
        return name in self.fillers or name in filler_names()

    def texts(self, key: str, limit: int | None = None) -> LabelledTexts:
        """The texts of a data set; `limit`: fewer than the request's."""

        def read() -> LabelledTexts:
            source, model = SOURCES[key], self.model(key)
            examples = [
                example
                for example in read_data(source.name, source.split, self.request.data)
                if example.label in model.labels  # the treebank's neutral sentences have no class here
            ]
            chosen = evenly(examples, limit or self.request.limit or source.limit)
            encoded = model.encode([model.read(example.raw_input(), example.name) for example in chosen])
            predicted = predict(model, encoded).argmax(-1).tolist()
            labels = [int(model.target(example.label) or 0) for example in chosen]
            return LabelledTexts(source, model, chosen, encoded, labels, predicted)

        texts: LabelledTexts = self._once(f"texts {key} {limit}", read)
        return texts

    def stricter_marks(self, key: str) -> list[np.ndarray]:
        """The marks of the stricter version of a data set, text by text."""
        source = SOURCES[key]
        by_name = {example.name: example for example in read_data(source.stricter, source.split, self.request.data)}
        return [_marks(by_name[example.name]) for example in self.texts(key).examples]

    def method(self, row: IMRow, filler: str = "") -> Method:
        """The method of a row; `filler`: the table's masked language model."""
        options = dict(row.options)
        if row.fills:
            words = self.filler(row.filler or filler)
            on_cpu = words.device.type == "cpu"  # where the filler of LIME's samples takes most of the time
            options["filler"] = words.in_half_precision() if row.samples and self.request.tf32 and on_cpu else words
        if row.samples:
            options["samples"] = self.request.samples or LIME_SAMPLES
        return build(row.method, options, "text")

    def scores(self, key: str, row_key: str, filler: str = "") -> list[RawScores]:
        """Scores of all texts of a data set by the method of a row, for the predicted label."""
        row = ROWS[row_key]
        name = f"scores {key} {row_key} {filler if row.fills else ''}"

        def compute() -> list[RawScores]:
            began, texts = time.perf_counter(), self.texts(key)
            method = self.method(row, filler)
            network = self.forward_model(key) if method.runs_in_half_precision else texts.model
            cache = open_cache(self.request.cache)
            fingerprint = "" if cache is None else model_fingerprint(network)
            order = np.argsort([len(item.units) for item in texts.encoded], kind="stable")
            scores: list[RawScores | None] = [None] * len(order)
            for begin in range(0, len(order), TEXTS_AT_ONCE):
                numbers = order[begin : begin + TEXTS_AT_ONCE].tolist()
                chunk = [texts.encoded[number] for number in numbers]
                targets = [texts.predicted[number] for number in numbers]
                raw = cached_row_scores(network, chunk, method, targets, self.request.seed, cache, fingerprint)
                blended = blend(texts.model.batch(chunk, self.request.seed), chunk, raw)
                for number, item in zip(numbers, blended, strict=True):
                    scores[number] = item
            seconds = time.perf_counter() - began
            self.tell(f"{row.title} on {texts.source.title}: {len(order)} texts in {seconds:.1f} s")
            return [item for item in scores if item is not None]

        scores: list[RawScores] = self._once(name, compute)
        return scores

    def unit_scores(self, key: str, row_key: str, filler: str = "") -> list[np.ndarray]:
        """(units,) scores of every text; an error where a method has none."""
        arrays = []
        for example, raw in zip(self.texts(key).examples, self.scores(key, row_key, filler), strict=True):
            if raw.scores is None:
                raise OptionError(f"{ROWS[row_key].title} has no scores for {example.name}: {raw.failure}")
            arrays.append(raw.scores)
        return arrays

    def token_scores(self, key: str, row_key: str) -> list[np.ndarray]:
        """(white-space tokens,) scores that agreement with people is measured on."""
        texts = self.texts(key)
        plain = self.unit_scores(key, row_key)
        spans = [raw.span_scores for raw in self.scores(key, row_key)]
        return [
            word_scores(example.text, example.pair, item.units, values if span is None else span)
            for example, item, values, span in zip(texts.examples, texts.encoded, plain, spans, strict=True)
        ]


def _marks(example: Example) -> np.ndarray:
    marks = gold_words(example)
    if marks is None:
        raise OptionError(f"{example.name} has no marks of people")
    return marks
