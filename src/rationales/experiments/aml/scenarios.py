"""The scenarios of the tables: four data sets, and classifiers of three families trained on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rationales.data import Example, read_data
from rationales.errors import OptionError
from rationales.evaluation.sampling import evenly
from rationales.experiments.aml.row_specs import DECODERS, MethodRow
from rationales.experiments.registry import Request
from rationales.models.load import load
from rationales.models.model import Model

DEFAULT_LIMIT = 300  # inputs of a scenario
LONG_TEXT_WORDS = 150  # of an IMDB review; sequential IG has a path of 50 points for every word


@dataclass(frozen=True)
class Corpus:
    """A data set: where its test texts and the texts to train maskers on come from."""

    key: str
    title: str
    data: str  # name of the data set
    test: str  # split
    train: str
    max_words: int | None = None  # only texts up to this length are explained

    def examples(self, folder: Path | None, limit: int) -> list[Example]:
        """At most `limit` test examples, evenly spread over those that are short enough, each text once."""
        examples = read_data(self.data, self.test, folder)
        if self.max_words is not None:
            examples = [example for example in examples if len(example.text.split()) <= self.max_words]
        distinct = list({example.text: example for example in examples}.values())
        return evenly(distinct, limit)

    def training_texts(self, folder: Path | None, count: int) -> list[str]:
        """The first `count` training texts, without their labels; as short as the test texts."""
        examples = read_data(self.data, self.train, folder, None if self.max_words else 4 * count)
        texts = [e.text for e in examples if self.max_words is None or len(e.text.split()) <= self.max_words]
        return texts[:count]


CORPORA = {
    corpus.key: corpus
    for corpus in (
        Corpus("sst2", "SST-2", "sst-2", "dev", "train"),
        Corpus("rt", "Rotten Tomatoes", "rotten-tomatoes", "test", "train"),
        Corpus("imdb", "IMDB", "imdb", "test", "train", LONG_TEXT_WORDS),
        Corpus("emotion", "emotion", "emotion", "test", "train"),
    )
}
ENCODERS = {"roberta": "small-roberta", "distilbert": "small-distilbert", "bert": "minilm"}  # key -> prefix of models
ENCODER_TITLES = {"roberta": "RoBERTa shape", "distilbert": "DistilBERT shape", "bert": "BERT shape (MiniLM)"}


@dataclass(frozen=True)
class Scenario:
    """A classifier and the data set that it was trained on."""

    corpus: Corpus
    encoder: str

    @property
    def model_name(self) -> str:
        """Name of the classifier in the catalogue."""
        return f"{ENCODERS[self.encoder]}-{self.corpus.key}"

    @property
    def title(self) -> str:
        """'SST-2, DistilBERT shape'."""
        return f"{self.corpus.title}, {ENCODER_TITLES[self.encoder]}"

    def load(self, request: Request) -> Model:
        """The classifier, or the one that the request names."""
        return load(request.model or self.model_name, device=request.device)

    def reads(self, spec: MethodRow) -> bool:
        """Whether the model gives what the method of a row reads."""
        return spec.group != DECODERS


@dataclass(frozen=True)
class ScenarioChoice:
    """Data sets and encoders of a table; those that `--rows` names, or all."""

    corpora: tuple[str, ...] = tuple(CORPORA)
    encoders: tuple[str, ...] = tuple(ENCODERS)
    row_names: tuple[str, ...] = field(default=())  # the names that are no scenario: methods

    def scenarios(self) -> list[Scenario]:
        """All combinations, data set by data set."""
        return [Scenario(CORPORA[corpus], encoder) for corpus in self.corpora for encoder in self.encoders]


def choose_scenarios(names: Sequence[str] | None) -> ScenarioChoice:
    """Which of these names are data sets and encoders; where none is, all of them."""
    requested = tuple(names or ())
    corpora = tuple(name for name in CORPORA if name in requested) or tuple(CORPORA)
    encoders = tuple(name for name in ENCODERS if name in requested) or tuple(ENCODERS)
    row_names = tuple(name for name in requested if name not in CORPORA and name not in ENCODERS)
    return ScenarioChoice(corpora, encoders, row_names)


def choose_encoder(names: Sequence[str], default: str) -> str:
    """The encoder among these names, for a table of a single one; an OptionError if there are several."""
    encoders = [name for name in ENCODERS if name in names]
    if len(encoders) > 1:
        raise OptionError(f"this table is about one encoder; choose one of {', '.join(encoders)}")
    return encoders[0] if encoders else default


def check_names(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise an OptionError for a name that is none of the known ones."""
    if unknown := [name for name in names if name not in known]:
        raise OptionError(f"there is no row {unknown[0]!r}; there are: {', '.join(known)}")
