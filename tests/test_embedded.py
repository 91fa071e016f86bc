"""The embedded model: what its card promises, and probes of its rationales a person can judge."""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from dataclasses import dataclass

import torch

import rationales
from rationales.models.text.tokens import TextInput


@functools.cache
def embedded():
    return rationales.load()


@dataclass(frozen=True)
class Probe:
    """A text, what the model should say of it, and the words that make it so."""

    text: str
    label: str
    words: tuple[str, ...]


# How these came about: ten were written first, of which the method of that time found seven; ten more were then added
# before looking at them, and it found all of those. Six of the first ten ("not good", "Not bad at all", "can't say I
# enjoyed", "boring mess", "Never boring" and the pattern of "did not like") were named as examples to whoever wrote the
# training templates; none is in the training texts word for word, but texts of the same pattern are.
PROBES = [
    # negation: the rationale needs both the negation and what it negates
    Probe("This movie was not good .", "negative", ("not", "good")),
    Probe("Not bad at all.", "positive", ("Not", "bad")),
    Probe("I did not like the ending.", "negative", ("not", "like")),
    Probe("There is nothing funny about this so-called comedy.", "negative", ("nothing", "funny")),
    Probe("I can't say I enjoyed this.", "negative", ("can't", "enjoyed")),
    Probe("A film without a single dull moment.", "positive", ("without", "dull")),
    Probe("I would not recommend this film to anyone.", "negative", ("not", "recommend")),
    Probe("I was never bored for a second.", "positive", ("never", "bored")),
    Probe("The jokes are not funny.", "negative", ("not", "funny")),
    Probe("This is anything but a good film.", "negative", ("anything", "but", "good")),
    # contrast: what counts stands after the turn
    Probe("The acting is great but the story is a boring mess.", "negative", ("boring", "mess")),
    Probe("It starts slowly, but by the end I was completely charmed.", "positive", ("charmed",)),
    Probe("Never boring, always funny.", "positive", ("always", "funny")),
    Probe("It is hardly a masterpiece, yet I enjoyed every minute.", "positive", ("enjoyed",)),
    Probe("Despite a clever idea, the result is dull.", "negative", ("dull",)),
    Probe("The critics hated it; I loved it.", "positive", ("loved",)),
    Probe("It sounds awful on paper, but it is a joy to watch.", "positive", ("joy",)),
    Probe("Well acted, well shot, and utterly pointless.", "negative", ("pointless",)),
    # irony of length: much praise, one thing that decides
    Probe("Two hours of beautiful pictures, and not one interesting thought.", "negative", ("not", "interesting")),
    Probe(
        "The costumes are lovely, the music is lovely, the mountains are lovely, the horses are lovely, "
        "and the film is terrible.",
        "negative",
        ("terrible",),
    ),
]


@functools.cache
def explained():
    return dict(zip([p.text for p in PROBES], rationales.explain(embedded(), [p.text for p in PROBES]), strict=True))


def best_words(probe):
    """Whether the label is right and the rationale holds the words, without simply taking everything."""
    result = explained()[probe.text]
    chosen = {unit.text for unit, is_selected in zip(result.units, result.selected(), strict=True) if is_selected}
    few = len(result.units) <= 8 or result.selected().mean() < 0.85
    return result.target == probe.label and set(probe.words) <= chosen and few


# Missed when this was written: a finding about the model.
MISSED = {PROBES[-1].text: "the model is wrong, .63 positive"}


def test_not_good_is_negative_because_of_both_words():
    assert best_words(PROBES[0])


def test_rationales_hold_the_words_that_decide_in_eight_probes_of_ten():
    missed = [probe.text for probe in PROBES if not best_words(probe)]
    assert len(PROBES) >= 10
    assert len(missed) <= 0.2 * len(PROBES), missed
    assert set(MISSED) <= {probe.text for probe in PROBES}


def test_rationales_of_the_probes_suffice():
    for result in explained().values():
        full, alone = (result.probabilities[name][result.target] for name in ("full", "rationale"))
        assert alone >= 0.9 * full or "not-sufficient" in {note.kind for note in result.notes}


def test_padding_alone_says_nothing():
    """Attended padding in place of every word, at many lengths: no class above 0.7."""
    model = embedded()
    with model.frozen():
        texts = [TextInput(" ".join(["film"] * length)) for length in (1, 2, 3, 5, 8, 13, 40, 100, 300, 500)]
        batch = model.batch(model.encode(texts))
        assert float(batch.predict(batch.zeros()).max()) < 0.7


def test_is_not_sure_of_everything():
    texts = ["The film lasts two hours.", "It was okay.", "Some will like it, some will not.", "A wonderful film!"]
    predictions = [result.probabilities["full"] for result in rationales.explain(embedded(), texts, method="random")]
    sure = [max(by_label.values()) for by_label in predictions]
    assert max(sure) - min(sure) > 0.1
    assert max(sure) < 0.999


def test_fits_into_eight_megabytes_and_holds_no_pickle():
    folder = importlib.resources.files("rationales") / "models" / "embedded"
    files = {entry.name: len(entry.read_bytes()) for entry in folder.iterdir() if entry.is_file()}
    assert sum(files.values()) - files["masker.safetensors"] <= 8_000_000
    assert files["masker.safetensors"] <= 1_000_000
    assert {"model.safetensors", "config.json", "tokenizer.json", "MODEL_CARD.md"} <= set(files)
    assert not [name for name in files if re.search(r"\.(bin|pt|pth|pkl|ckpt)$", name)]


def test_card_gives_the_figures_that_were_measured():
    folder = importlib.resources.files("rationales") / "models" / "embedded"
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    measured = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    for data, min_accuracy in (("eraser_test", 0.87), ("sst2_dev", 0.84)):
        assert measured[data]["accuracy"] >= min_accuracy
        assert f"{100 * measured[data]['accuracy']:.1f}" in card


def test_is_an_ordinary_bert_in_single_precision():
    module = embedded().networks[0].module
    config = json.loads((importlib.resources.files("rationales.models") / "embedded" / "config.json").read_text())
    assert config["architectures"] == [
        "BertForSequenceClassification"
    ]  # whose logits are ours: models/text/test_bert.py
    assert {weight.dtype for weight in module.parameters()} == {torch.float32}
