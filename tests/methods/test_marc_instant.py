"""marc-instant: one pass with a masker, a few steps more where asked for, and clear words where there is no masker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from families import tiny
from torch import nn

import rationales
from methods.keyword import keyword_model
from methods.maskers import KEYWORDS, SPARSE, keyword_masker_file, text_batch, untrained_masker
from rationales.errors import ModelError, OptionError
from rationales.evaluation.scores.cache import entry_key
from rationales.masks.instant import masker_file
from rationales.masks.instant.masker_file import Masker
from rationales.masks.optimizer import field_of, keep_logit
from rationales.masks.postprocess import unit_order
from rationales.masks.sizes import SIZES
from rationales.methods import build
from rationales.methods.marc_instant import MarcInstant
from rationales.models.batch.execution import counted_passes

TEXTS = ["Dull.", "I did not like the soup, but the bread wasn't bad at all!", "The baker walked down alone. " * 12]


@pytest.fixture
def model():
    return rationales.load(*tiny("bert"))


@pytest.fixture
def file(model, tmp_path):
    return str(untrained_masker(model).save(tmp_path / "masker.safetensors"))


def explain(model, texts, **options):
    return rationales.explain(model, texts, method="marc-instant", options=options)


def test_scores_are_in_the_order_and_of_the_size_that_the_predicted_parameters_give(model, file):
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, TEXTS)
        target = batch.predict().argmax(-1)
        masker = untrained_masker(model)
        objective, parameters = masker.card.objective, masker(batch, target)
        order = batch.gather(unit_order(field_of(batch, objective, *parameters), batch, objective))
        kept_units = batch.gather((keep_logit(batch, objective, *parameters) > 0).to(batch.dtype))
    for result, high, kept in zip(explain(model, TEXTS, masker=file), order, kept_units, strict=True):
        ranks = [result.argsort().argsort() for result in (result.scores, high.numpy())]
        assert np.corrcoef(*ranks)[0, 1] > 0.99  # where segments overlap, scores are blended after the last step
        share = np.clip(float(kept.mean()), SIZES[0], SIZES[-1])
        assert float((result.scores > 0.5).mean()) == pytest.approx(share, abs=max(0.05, 0.6 / len(kept)))
        assert ((result.scores > 0) & (result.scores < 1)).all()
        assert result.steps == 0
        assert result.method == "marc-instant"


def test_the_model_is_asked_once(model, file):
    calls = []
    handle = model.networks[0].module.register_forward_hook(lambda *_: calls.append(1))
    with model.frozen():
        batch = text_batch(model, TEXTS)
        MarcInstant(masker=file).scores(batch, torch.tensor([0, 1, 2]))
    handle.remove()
    assert len(calls) == 1


def test_the_pass_of_the_full_texts_is_the_one_that_the_masker_reads(model, file, monkeypatch):
    explain(model, TEXTS, masker=file)  # copies of the network are compared with it once
    with counted_passes() as passes:
        read_once = explain(model, TEXTS, masker=file)
    monkeypatch.setattr(masker_file, "MAX_KEPT_BYTES", {})
    with counted_passes() as more_passes:
        read_twice = explain(model, TEXTS, masker=file)
    assert more_passes.forward - passes.forward == sum(result.segments for result in read_once)
    for once, twice in zip(read_once, read_twice, strict=True):
        assert np.array_equal(once.scores, twice.scores)
        assert once.probabilities == twice.probabilities


def test_refining_uses_the_ordinary_steps_and_lowers_the_loss():
    model = rationales.load(*keyword_model(*KEYWORDS))
    text = "the boat drifted towards the bridge and nobody laughed at the joke"
    quick, refined = (
        explain(model, text, masker=keyword_masker_file()),
        explain(model, text, masker=keyword_masker_file(), refine=10),
    )
    assert (quick.steps, refined.steps) == (0, 10)
    assert refined.stop in ("steps", "start")
    assert refined.options["refine"] == 10
    indices = [[unit.text for unit in refined.units].index(word) for word in KEYWORDS]
    assert refined.selected()[indices].all()


def test_batch_and_alone_agree_after_refining(model, file):
    together = explain(model, TEXTS, masker=file, refine=5)
    for text, result in zip(TEXTS, together, strict=True):
        assert np.allclose(result.scores, explain(model, text, masker=file, refine=5).scores, atol=2e-3)


class TestWithoutAMasker:
    def test_it_says_how_to_train_one(self, model):
        with pytest.raises(OptionError, match=r"needs a masker .*rationales train-masker MODEL DATA --out F.*masker=F"):
            explain(model, TEXTS[1])

    def test_the_one_that_ships_is_found_where_it_fits(self, model, file, tmp_path, monkeypatch):
        monkeypatch.setattr("rationales.methods.marc_instant.SHIPPED_MASKER", Path(file))
        assert np.array_equal(explain(model, TEXTS[1]).scores, explain(model, TEXTS[1], masker=file).scores)
        with pytest.raises(OptionError, match="none is shipped with it"):
            explain(rationales.load(*tiny("bert", seed=1)), TEXTS[1])

    def test_one_of_another_model_is_refused(self, file):
        with pytest.raises(OptionError, match="another model"):
            explain(rationales.load(*tiny("bert", seed=1)), TEXTS[1], masker=file)

    def test_a_file_that_is_not_there_is_told(self, model, tmp_path):
        with pytest.raises(OptionError, match="there is no masker"):
            explain(model, TEXTS[1], masker=str(tmp_path / "no"))


class TestOptions:
    @pytest.mark.parametrize("wrong", [{"refine": -1}, {"refine": 1.5}, {"learning_rate": 0.0}, {"masker": 3}])
    def test_that_make_no_sense(self, model, wrong):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            explain(model, TEXTS[1], **wrong)

    def test_another_masker_under_the_same_name_is_another_entry_of_a_cache(self, model, file):
        method = build("marc-instant", {"masker": file})
        first = entry_key("m", "i", method, 0, 0)
        assert entry_key("m", "i", method, 0, 0) == first
        untrained_masker(model, width=32).save(file)
        assert entry_key("m", "i", method, 0, 0) != first

    def test_refining_needs_gradients(self, file):
        class Blocked(nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module, self.config = module, module.config

            def get_input_embeddings(self):
                return self.module.get_input_embeddings()

            def forward(self, input_ids, attention_mask):
                with torch.no_grad():
                    return self.module(input_ids=input_ids, attention_mask=attention_mask)

        module, tokenizer = tiny("bert")
        blocked = rationales.load(Blocked(module), tokenizer)
        explain(blocked, TEXTS[1], masker=file)
        with pytest.raises(ModelError, match="no gradients"):
            explain(blocked, TEXTS[1], masker=file, refine=3)


@pytest.mark.parametrize(("height", "kind"), [(30.0, "keeps-everything"), (-30.0, "keeps-nothing")])
def test_a_masker_that_tells_nothing_apart_is_noticed(model, tmp_path, height, kind):
    masker = untrained_masker(model)
    with torch.no_grad():
        masker.network.output_head.bias[0] = height
    result = explain(model, TEXTS[1], masker=str(masker.save(tmp_path / "m")))
    assert kind in [note.kind for note in result.notes]
    assert "refine" in next(note.message for note in result.notes if note.kind == kind)


def test_a_masker_of_masks_of_every_size_shows_the_smallest_that_suffices(model, tmp_path):
    """Without a size of their own, fields are cut where the words above the edge suffice, as marc does it."""
    masker = untrained_masker(model)
    level_masker = Masker(
        masker.network, replace(masker.card, objective=replace(SPARSE, mask_weight=0.0, level_weight=1.0))
    )
    path = str(level_masker.save(tmp_path / "m"))
    for refine in (0, 3):
        scores = explain(model, TEXTS[1], masker=path, refine=refine).scores
        assert np.isfinite(scores).all()
        assert scores.min() < 0.5 < scores.max()


def test_the_embedded_model_comes_with_a_masker():
    text = "The boat trip was long, the guide was rude, and the food was terrible."
    result = rationales.explain(rationales.load("embedded"), text, method="marc-instant")
    assert result.units[int(np.argmax(result.scores))].text in ("rude", "terrible")
    assert result.steps == 0
