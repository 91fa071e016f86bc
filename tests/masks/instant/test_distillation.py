"""What MaRC finds, imitated: the field is 0 where the rationale ends, and a masker comes to predict it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from methods.keyword import keyword_model
from methods.maskers import KEYWORDS, QUICK, sentences, text_batch

import rationales
from rationales.masks.instant.distillation import FieldDistillation, draw_targets, target_field
from rationales.masks.instant.length_buckets import LengthBuckets
from rationales.masks.instant.network import MaskerNetwork, MaskerShape, predict_parameters
from rationales.masks.instant.refine import refine
from rationales.masks.instant.training import train, validation_loss
from rationales.masks.optimizer import field_of
from rationales.masks.settings import CLAUSES
from rationales.methods.marc_instant import MarcInstant

OBJECTIVE = replace(CLAUSES, steps=20).on(None)
BOTH = "the river was calm and the bridge was old and the joke was not good at all"
LONG = f"{BOTH} {'and then the long quiet river went on past the mill and the field ' * 10}".strip()


@pytest.fixture(scope="module")
def keyword_classifier():
    return rationales.load(*keyword_model(*KEYWORDS))


@pytest.fixture(scope="module")
def masker(keyword_classifier):
    return train(keyword_classifier, sentences(200), replace(QUICK, steps=120), OBJECTIVE)


def test_above_zero_is_the_rationale(keyword_classifier):
    with keyword_classifier.frozen():
        batch = text_batch(keyword_classifier, [BOTH, LONG])
        fields = target_field(batch, torch.tensor([1, 1]), OBJECTIVE)
        results = rationales.explain(keyword_classifier, [BOTH, LONG], options={"steps": 20})
    for number, (text, result) in enumerate(zip((BOTH, LONG), results, strict=True)):
        field = fields[number, : len(text.split())].numpy()
        assert all(field[text.split().index(word)] > 0 for word in KEYWORDS)
        assert (field > 0).mean() == pytest.approx((result.scores > 0.5).mean(), abs=0.1)
    assert not fields[0, len(BOTH.split()) :].any()


def test_a_text_is_optimised_once(keyword_classifier, monkeypatch):
    batch_sizes = []
    monkeypatch.setattr(
        "rationales.masks.instant.distillation.target_field",
        lambda batch, target, objective: batch_sizes.append(batch.inputs) or torch.zeros(batch.masks, batch.size[1]),
    )
    with keyword_classifier.frozen():
        buckets = LengthBuckets(keyword_classifier, [keyword_classifier.read(text, None) for text in sentences(12)], 0)
        (bucket,) = list(buckets)
        network, distillation = (
            MaskerNetwork(MaskerShape.of(bucket.batch, width=16, layers=1, heads=2)),
            FieldDistillation(OBJECTIVE, 0.0),
        )
        for group in ([0, 3, 5], [3, 4], [0, 3, 4, 5]):
            assert distillation.loss(network, bucket, group).shape == (len(group),)
    assert batch_sizes == [3, 1]


def test_the_loss_is_the_mean_squared_difference(keyword_classifier, monkeypatch):
    monkeypatch.setattr(
        "rationales.masks.instant.distillation.target_field",
        lambda batch, *_: torch.full((batch.masks, batch.size[1]), 0.25),
    )
    with keyword_classifier.frozen(), torch.no_grad():
        (bucket,) = list(
            LengthBuckets(keyword_classifier, [keyword_classifier.read(text, None) for text in sentences(4)], 0)
        )
        network = MaskerNetwork(MaskerShape.of(bucket.batch, width=16, layers=1, heads=2))
        torch.nn.init.normal_(network.class_query.weight, std=0.5)
        distillation = FieldDistillation(OBJECTIVE, 0.0)
        losses = distillation.loss(network, bucket, [0, 1, 2, 3])
        z = field_of(
            bucket.batch, OBJECTIVE, *predict_parameters(network, bucket.batch, bucket.predicted_labels, OBJECTIVE)
        )
        for number, real in enumerate(bucket.batch.rows.real):
            expected = np.mean([(float(value) - 0.25) ** 2 for value in z[number][real]])
            assert float(losses[number]) == pytest.approx(expected, rel=1e-4)


def test_other_classes_are_a_share_of_the_texts(keyword_classifier):
    with keyword_classifier.frozen():
        batch = text_batch(keyword_classifier, sentences(200))
    predicted_labels = torch.ones(batch.inputs, dtype=torch.long)
    is_other = draw_targets(batch, predicted_labels, 0.2) != predicted_labels
    assert 0.1 < float(is_other.float().mean()) < 0.3
    assert torch.equal(draw_targets(batch, predicted_labels, 0.2), draw_targets(batch, predicted_labels, 0.2))
    assert not torch.equal(
        draw_targets(batch, predicted_labels, 0.2, step=1), draw_targets(batch, predicted_labels, 0.2, step=2)
    )
    assert torch.equal(draw_targets(batch, predicted_labels, 0.0), predicted_labels)


@pytest.mark.slow
class TestImitation:
    def test_keywords_are_found_in_sentences_it_has_not_seen(self, keyword_classifier, masker, tmp_path):
        file = str(masker.save(tmp_path / "masker.safetensors"))
        unseen = [text for text in sentences(60, seed=9) if all(word in text.split() for word in KEYWORDS)]
        results = rationales.explain(
            keyword_classifier, unseen, method="marc-instant", target="found", options={"masker": file}
        )
        first = [{result.units[index].text for index in np.argsort(-result.scores)[:2]} for result in results]
        assert np.mean([words == set(KEYWORDS) for words in first]) > 0.8

    def test_is_worth_the_training(self, keyword_classifier, masker):
        unseen = sentences(30, seed=11)
        start = train(keyword_classifier, sentences(20), replace(QUICK, steps=1, learning_rate=1e-9), OBJECTIVE)
        assert validation_loss(masker, keyword_classifier, unseen) < 0.7 * validation_loss(
            start, keyword_classifier, unseen
        )

    def test_the_model_is_asked_once(self, keyword_classifier, masker, tmp_path):
        file = str(masker.save(tmp_path / "masker.safetensors"))
        calls = []
        handle = keyword_classifier.networks[0].module.register_forward_hook(lambda *_: calls.append(1))
        with keyword_classifier.frozen():
            MarcInstant(masker=file).scores(text_batch(keyword_classifier, [BOTH, LONG]), torch.tensor([1, 1]))
        handle.remove()
        assert len(calls) == 1

    def test_refining_stays_near_the_prediction_in_long_texts(self, keyword_classifier, masker):
        with keyword_classifier.frozen():
            batch = text_batch(keyword_classifier, [LONG])
            start, target = masker(batch, torch.tensor([1])), torch.tensor([1])
            z = field_of(batch, OBJECTIVE, *start)
            result = refine(batch, target, replace(OBJECTIVE, steps=10, learning_rate=0.1), start)
        kept = result.field
        assert float(torch.corrcoef(torch.stack([z[0], kept[0]]))[0, 1]) > 0.9
        assert result.steps == [10]
