"""What MaRC finds, imitated: the field is 0 where the rationale ends, and a masker comes to predict it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from methods.keyword import keyword_model
from methods.maskers import KEYWORDS, QUICK, batch_of, sentences

import rationales
from rationales.masks.descent import field_of
from rationales.masks.lessons import Lessons, lesson, targets
from rationales.masks.masker import Network, Shape, predict
from rationales.masks.refine import refine
from rationales.masks.settings import DEFAULT
from rationales.masks.shelves import Shelves
from rationales.masks.train_masker import train, validate
from rationales.methods.marc_instant import MarcInstant

OBJECTIVE = replace(DEFAULT, steps=20).on(None)
BOTH = "the river was calm and the bridge was old and the joke was not good at all"
LONG = f"{BOTH} {'and then the long quiet river went on past the mill and the field ' * 10}".strip()


@pytest.fixture(scope="module")
def looking():
    return rationales.load(*keyword_model(*KEYWORDS))


@pytest.fixture(scope="module")
def imitating(looking):
    return train(looking, sentences(200), replace(QUICK, steps=120), OBJECTIVE)


def test_above_zero_is_the_rationale(looking):
    with looking.borrowed():
        batch = batch_of(looking, [BOTH, LONG])
        found = lesson(batch, torch.tensor([1, 1]), OBJECTIVE)
        shown = rationales.explain(looking, [BOTH, LONG], options={"steps": 20})
    for number, (text, one) in enumerate(zip((BOTH, LONG), shown, strict=True)):
        own = found[number, : len(text.split())].numpy()
        assert all(own[text.split().index(word)] > 0 for word in KEYWORDS)
        assert (own > 0).mean() == pytest.approx((one.scores > 0.5).mean(), abs=0.1)
    assert not found[0, len(BOTH.split()) :].any()


def test_a_text_is_optimised_once(looking, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "rationales.masks.lessons.lesson",
        lambda batch, target, objective: asked.append(batch.inputs) or torch.zeros(batch.masks, batch.size[1]),
    )
    with looking.borrowed():
        shelves = Shelves(looking, [looking.read(text, None) for text in sentences(12)], 0)
        (shelf,) = list(shelves)
        network, lessons = Network(Shape.of(shelf.batch, width=16, layers=1, heads=2)), Lessons(OBJECTIVE, 0.0)
        for group in ([0, 3, 5], [3, 4], [0, 3, 4, 5]):
            assert lessons.loss(network, shelf, group).shape == (len(group),)
    assert asked == [3, 1]


def test_the_loss_is_the_mean_squared_difference(looking, monkeypatch):
    monkeypatch.setattr(
        "rationales.masks.lessons.lesson", lambda batch, *_: torch.full((batch.masks, batch.size[1]), 0.25)
    )
    with looking.borrowed(), torch.no_grad():
        (shelf,) = list(Shelves(looking, [looking.read(text, None) for text in sentences(4)], 0))
        network = Network(Shape.of(shelf.batch, width=16, layers=1, heads=2))
        torch.nn.init.normal_(network.weight.weight, std=0.5)
        lessons = Lessons(OBJECTIVE, 0.0)
        found = lessons.loss(network, shelf, [0, 1, 2, 3])
        z = field_of(shelf.batch, OBJECTIVE, *predict(network, shelf.batch, shelf.predicted, OBJECTIVE))
        for number, real in enumerate(shelf.batch.rows.real):
            wanted = np.mean([(float(value) - 0.25) ** 2 for value in z[number][real]])
            assert float(found[number]) == pytest.approx(wanted, rel=1e-4)


def test_other_classes_are_a_share_of_the_texts(looking):
    with looking.borrowed():
        batch = batch_of(looking, sentences(200))
    predicted = torch.ones(batch.inputs, dtype=torch.long)
    other = targets(batch, predicted, 0.2) != predicted
    assert 0.1 < float(other.float().mean()) < 0.3
    assert torch.equal(targets(batch, predicted, 0.2), targets(batch, predicted, 0.2))
    assert not torch.equal(targets(batch, predicted, 0.2, step=1), targets(batch, predicted, 0.2, step=2))
    assert torch.equal(targets(batch, predicted, 0.0), predicted)


class TestImitation:
    def test_keywords_are_found_in_sentences_it_has_not_seen(self, looking, imitating, tmp_path):
        file = str(imitating.save(tmp_path / "masker.safetensors"))
        unseen = [text for text in sentences(60, seed=9) if all(word in text.split() for word in KEYWORDS)]
        results = rationales.explain(looking, unseen, method="marc-instant", target="found", options={"masker": file})
        first = [{result.units[place].text for place in np.argsort(-result.scores)[:2]} for result in results]
        assert np.mean([one == set(KEYWORDS) for one in first]) > 0.8

    def test_is_worth_the_training(self, looking, imitating):
        unseen = sentences(30, seed=11)
        start = train(looking, sentences(20), replace(QUICK, steps=1, rate=1e-9), OBJECTIVE)
        assert validate(imitating, looking, unseen) < 0.7 * validate(start, looking, unseen)

    def test_the_model_is_asked_once(self, looking, imitating, tmp_path):
        file = str(imitating.save(tmp_path / "masker.safetensors"))
        asked = []
        handle = looking.networks[0].module.register_forward_hook(lambda *_: asked.append(1))
        with looking.borrowed():
            MarcInstant(masker=file).scores(batch_of(looking, [BOTH, LONG]), torch.tensor([1, 1]))
        handle.remove()
        assert len(asked) == 1

    def test_refining_stays_near_the_prediction_in_long_texts(self, looking, imitating):
        with looking.borrowed():
            batch = batch_of(looking, [LONG])
            start, target = imitating(batch, torch.tensor([1])), torch.tensor([1])
            z = field_of(batch, OBJECTIVE, *start)
            found = refine(batch, target, replace(OBJECTIVE, steps=10, rate=0.1), start)
        kept = torch.logit(found.keep, eps=1e-7)
        assert float(torch.corrcoef(torch.stack([z[0], kept[0]]))[0, 1]) > 0.9
        assert found.steps == [10]
