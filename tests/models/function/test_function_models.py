"""Functions of texts that return probabilities are explained by every method that asks for nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from families import tiny
from PIL import Image
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import rationales
from rationales.errors import ModelError, OptionError
from rationales.evaluation.protocols import find_protocol
from rationales.methods import METHODS
from rationales.models.function.batch import ALLOWED_NEEDS
from rationales.models.function.model import FunctionModel

WITHOUT_ACCESS = [name for name, method in METHODS.items() if set(method.needs) <= set(ALLOWED_NEEDS)]
CLOSED = [name for name in METHODS if name not in WITHOUT_ACCESS]
USABLE = [name for name in WITHOUT_ACCESS if name not in ("loo-pad", "loo-unk")]  # these two need a tokenizer
INFORMED = [name for name in USABLE if name != "random"]
TEXTS = ["Nobody saw the bridge.", "The bridge, he said, was long; and old.", "A joke about a bridge is a joke."]
REVIEWS = ["a lovely film", "lovely and warm", "a dull film", "dull and cold", "warm film", "cold film"]
LABELS = ["good", "good", "bad", "bad", "good", "bad"]


def keyword(texts):
    """Probabilities of (absent, found): found if the text holds the word bridge."""
    p_found = np.array([0.95 if "bridge" in text else 0.05 for text in texts])
    return np.stack([1 - p_found, p_found], 1)


def keyword_model(**options):
    return rationales.load(keyword, labels=["absent", "found"], **options)


def reviews_pipeline(classifier=None):
    return make_pipeline(CountVectorizer(), classifier or LogisticRegression()).fit(REVIEWS, LABELS)


@pytest.mark.parametrize("method", INFORMED)
def test_a_method_without_gradients_finds_the_keyword(method):
    for rationale in rationales.explain(keyword_model(), TEXTS[:2], method=method):
        assert rationale.target == "found"
        assert rationale.top(1)[0].text == "bridge"


@pytest.mark.parametrize("method", USABLE)
def test_alone_equals_in_a_batch(method):
    model = keyword_model()
    together = rationales.explain(model, TEXTS, method=method)
    for text, rationale in zip(TEXTS, together, strict=True):
        assert np.allclose(rationale.scores, rationales.explain(model, text, method=method).scores, atol=1e-9)


@pytest.mark.parametrize("method", CLOSED)
def test_a_method_that_needs_more_says_so_and_names_others(method):
    with pytest.raises(ModelError, match=rf"{method} needs .*, and keyword is a function .*; use .* occlusion"):
        rationales.explain(keyword_model(), TEXTS[0], method=method)


@pytest.mark.parametrize("method", ["loo-pad", "loo-unk"])
def test_a_method_that_needs_a_token_says_that_there_is_no_tokenizer(method):
    with pytest.raises(OptionError, match="tokenizer"):
        rationales.explain(keyword_model(), TEXTS[0], method=method)


def test_leave_one_out_is_the_difference_of_the_log_odds_by_hand():
    """Odds 19 with the bridge, 1/19 without: log2(19) - log2(1/19) = 2 log2(19); 0 for other words."""
    rationale = rationales.explain(keyword_model(), "The old bridge", method="loo-empty")
    assert np.allclose(rationale.scores, [0, 0, 2 * np.log2(19)], atol=1e-5)


def test_probabilities_are_those_of_the_function():
    rationale = rationales.explain(keyword_model(), TEXTS[0], method="loo-empty", top=1)
    assert {name: values["found"] for name, values in rationale.probabilities.items()} == {
        "full": 0.95,
        "rationale": 0.95,
        "complement": 0.05,
        "baseline": 0.05,
    }


def test_deleted_words_leave_a_plain_text_and_replaced_words_become_the_baseline():
    read = []

    def record(texts):
        read.extend(texts)
        return keyword(texts)

    rationales.explain(rationales.load(record), "The bridge, he said.", method="loo-empty", top=1)
    assert {"The bridge, he said.", "bridge, he said.", "The , he said.", "The bridge, he said", ""} <= set(read)
    assert len(read) == len(set(read)) + read.count("a text") - 1, "equal texts are asked for once"
    read.clear()
    rationales.explain(rationales.load(record, baseline="…"), "The bridge", method="occlusion", options={"window": 1})
    assert {"… bridge", "The …", "… …"} <= set(read)


def test_sentences_can_be_units():
    model = keyword_model(unit="sentence")
    rationale = rationales.explain(model, "It rained. We saw the bridge. Then we left.", method="occlusion")
    assert rationale.top(1)[0].text == "We saw the bridge."


def test_pairs_arrive_as_tuples():
    def overlap(pairs):
        return [0.9 if set(first.split()) & set(second.split()) else 0.2 for first, second in pairs]

    def either(texts):
        return overlap(texts) if isinstance(texts[0], tuple) else [0.5] * len(texts)

    rationale = rationales.explain(rationales.load(either), ("a red house", "the house fell"), method="loo-empty")
    assert rationale.target == "1"
    assert {unit.text for unit in rationale.top(2)} == {"house"}


def test_one_probability_is_that_of_the_second_class():
    model = rationales.load(lambda texts: keyword(texts)[:, 1], labels=["bridge"])
    assert model.labels == ("not bridge", "bridge")
    assert rationales.explain(model, TEXTS[0], method="loo-empty").probabilities["full"]["bridge"] == 0.95


def test_several_labels_at_once_have_probabilities_of_their_own():
    def tags(texts):
        return [[0.9 if word in text else 0.1 for word in ("bridge", "joke")] for text in texts]

    model = rationales.load(tags, labels=["bridge", "joke"])
    by_tag = rationales.explain(model, [TEXTS[2]] * 2, method="loo-empty", target=["bridge", "joke"])
    assert by_tag[0].probabilities["full"] == {"bridge": 0.9, "joke": 0.9}
    assert by_tag[0].top(1)[0].text == "bridge"


def test_a_contrast_is_explained():
    def genres(texts):
        odds = np.array(
            [[np.exp(2 * ("bridge" in t) + 2 * ("joke" in t)), np.exp(2 * ("bridge" in t)), 1] for t in texts]
        )
        return odds / odds.sum(1, keepdims=True)

    model = rationales.load(genres, labels=["comedy", "tragedy", "report"])
    text = "A joke about a bridge."
    rationale = rationales.explain(model, text, method="loo-empty", target="comedy", against="tragedy")
    assert rationale.top(1)[0].text == "joke"
    assert rationale.scores[rationale.words.index(next(u for u in rationale.words if u.text == "bridge"))] < 1e-6


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda texts: [[2.0, -1.0]] * len(texts), "apply softmax"),
        (lambda texts: [[0.5, 0.5]], "one row of probabilities for each text"),
        (lambda texts: ["good"] * len(texts), "no array of numbers"),
        (lambda texts: [[float("nan"), 1.0]] * len(texts), "NaN"),
    ],
)
def test_what_breaks_the_contract_is_reported(returned, message):
    with pytest.raises(ModelError, match=message):
        rationales.explain(rationales.load(returned), TEXTS[:2], method="loo-empty")


def test_options_that_a_function_cannot_have_are_reported():
    for options, message in (
        ({"unit": "token"}, "no tokenizer"),
        ({"device": "cpu"}, "leave device out"),
        ({"labels": ["only one", "two", "three"]}, "3 labels"),
    ):
        with pytest.raises((OptionError, ModelError), match=message):
            rationales.load(keyword, **options)


def test_a_scikit_learn_pipeline_is_explained_with_its_own_labels():
    model = rationales.load(reviews_pipeline())
    assert isinstance(model, FunctionModel)
    rationale = rationales.explain(model, "It was a dull film, they said.", method="loo-empty")
    assert (rationale.target, rationale.top(1)[0].text) == ("bad", "dull")
    assert rationales.explain(reviews_pipeline(), "A lovely day", method="lime").top(1)[0].text == "lovely"


def test_scores_of_a_linear_classifier_are_its_coefficients():
    """Leaving a word out of a bag of words changes the log-odds by its coefficient, here in bits."""
    pipeline = reviews_pipeline()
    vectorizer, classifier = (step for _, step in pipeline.steps)
    scores = rationales.explain(pipeline, "dull warm film", method="loo-empty", target="good").scores
    weights = classifier.coef_[0][[vectorizer.vocabulary_[word] for word in ("dull", "warm", "film")]]
    assert np.allclose(scores, weights / np.log(2), atol=1e-4)


def test_a_classifier_without_probabilities_is_told_to_calibrate():
    with pytest.raises(ModelError, match="CalibratedClassifierCV"):
        rationales.load(reviews_pipeline(LinearSVC()))


def test_a_classifier_of_vectors_comes_with_what_makes_them():
    class Encoder:
        def encode(self, texts):
            return np.array([["bridge" in text, "joke" in text] for text in texts], dtype=float)

    encoder = Encoder()
    classifier = LogisticRegression().fit(encoder.encode(["bridge", "other", "a bridge", "x"]), [1, 0, 1, 0])
    model = rationales.load(classifier, encoder, labels=["no", "yes"])
    assert model.name == "LogisticRegression on Encoder"
    assert rationales.explain(model, TEXTS[0], method="loo-empty", target="yes").top(1)[0].text == "bridge"


def test_evaluate_measures_a_function_by_deletion():
    examples = [rationales.Example(str(number), text, label="found") for number, text in enumerate(TEXTS)]
    protocol = replace(find_protocol("marc"), removal="delete")
    table = rationales.evaluate(keyword_model(), examples, methods=["loo-empty"], protocol=protocol)
    assert np.mean(table["loo-empty"].cells["comprehensiveness"].values) > 0.8


def test_the_default_protocol_measures_a_function_by_its_own_baseline():
    examples = [rationales.Example(str(number), text, label="found") for number, text in enumerate(TEXTS)]
    table = rationales.evaluate(keyword_model(), examples, methods=["loo-empty"], metrics=["comprehensiveness"])
    assert table.protocol == replace(find_protocol("marc"), name="marc-functions", removal="baseline")
    assert np.mean(table["loo-empty"].cells["comprehensiveness"].values) > 0.8
    with pytest.raises(OptionError, match="deletes words"):
        rationales.evaluate(keyword_model(), examples, methods=["loo-empty"], protocol="aml")


def test_a_pipeline_of_transformers_is_its_network_so_that_gradient_methods_work():
    from transformers import pipeline

    module, tokenizer = tiny("bert")
    wrapped = pipeline("text-classification", model=module, tokenizer=tokenizer)
    text = "The bread wasn't bad at all!"
    rationale = rationales.explain(wrapped, text, method="integrated-gradients")
    plain = rationales.explain((module, tokenizer), text, method="integrated-gradients")
    assert np.array_equal(rationale.scores, plain.scores)
    returned = {row["label"]: row["score"] for row in wrapped(text, top_k=None)}
    assert rationale.probabilities["full"] == pytest.approx(returned, abs=1e-5)


def test_a_cross_encoder_is_its_network_so_that_gradient_methods_work():
    """An object as sentence-transformers has it, recognised by the module of its class."""
    module, tokenizer = tiny("bert", labels=1)
    attributes = {"__module__": "sentence_transformers.cross_encoder.CrossEncoder", "model": module}
    cross_encoder = type("CrossEncoder", (), {**attributes, "tokenizer": tokenizer})()
    rationale = rationales.explain(cross_encoder, ("a film", "the bread"), method="input-x-gradient")
    plain = rationales.explain((module, tokenizer), ("a film", "the bread"), method="input-x-gradient")
    assert np.array_equal(rationale.scores, plain.scores)


def test_a_sentence_transformer_makes_the_vectors_of_a_classifier():
    """encode takes show_progress_bar, which would else be drawn for every call."""
    calls = []

    def encode(self, texts, show_progress_bar=True):
        calls.append(show_progress_bar)
        return np.array([[float("bridge" in text), 1.0] for text in texts])

    module = "sentence_transformers.SentenceTransformer"
    encoder = type("SentenceTransformer", (), {"__module__": module, "encode": encode})()
    classifier = LogisticRegression(C=100).fit([[0, 1], [1, 1]], ["other", "bridges"])
    rationale = rationales.explain(rationales.load(classifier, encoder), TEXTS[0], method="loo-empty", target="bridges")
    assert rationale.top(1)[0].text == "bridge"
    assert calls
    assert not any(calls)


def test_a_pipeline_of_images_is_its_network():
    from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessor, pipeline

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1], num_labels=3)
    processor = ViTImageProcessor(size={"height": 32, "width": 32})
    wrapped = pipeline("image-classification", model=ResNetForImageClassification(config), image_processor=processor)
    rationale = rationales.explain(wrapped, Image.new("RGB", (32, 32), (200, 30, 30)), method="saliency")
    assert rationale.scores.shape == (32 * 32,)


def test_a_pipeline_for_another_task_says_what_to_give():
    class Pipeline:
        task = "fill-mask"
        model = None

        def __call__(self, texts):
            return texts

    Pipeline.__module__ = "transformers.pipelines.fill_mask"
    with pytest.raises(ModelError, match="fill-mask"):
        rationales.load(Pipeline())
