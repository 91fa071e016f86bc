"""Why one class rather than another: what a contrasted batch says is about the log-odds of the two alone."""

from __future__ import annotations

import pytest
import torch
from families import tiny
from methods.keyword import contrast_model

import rationales
from rationales.errors import OptionError
from rationales.models.batch.contrast import CHOSEN, REJECTED, Contrast
from rationales.models.classes import OUTPUTS, Head, class_logits, explained_output, probabilities
from rationales.models.text.tokens import TextInput

TEXTS = ["Dull.", "I did not like the soup, but the bread wasn't bad at all!", "She said nothing; he laughed."]
TARGET, AGAINST = torch.tensor([0, 2, 1]), torch.tensor([1, 0, 2])


def prepared():
    """A model in float64 with three classes, and the texts in one batch."""
    module, tokenizer = tiny("bert")
    model = rationales.load(module.double(), tokenizer)
    return model, model.batch(model.encode([TextInput(text) for text in TEXTS]))


@pytest.mark.parametrize("head", [Head.SOFTMAX, Head.SIGMOID])
def test_the_two_share_what_the_model_gives_to_either(head):
    outputs = torch.tensor([[0.3, -1.2, 2.0]] if head is Head.SOFTMAX else [[0.7]], dtype=torch.float64)
    plain = probabilities(head, class_logits(head, outputs))[0]
    logits = Contrast(torch.tensor([[1, 0]]), head, len(plain)).logits(torch.tensor([0]), outputs)[0]
    expected = float(plain[1] / (plain[0] + plain[1]))
    assert float(probabilities(Head.SIGMOID, logits)[CHOSEN]) == pytest.approx(expected)
    assert float(logits[CHOSEN]) == pytest.approx(float((plain[1] / plain[0]).log()))


def test_of_independent_labels_the_logits_are_compared():
    outputs = torch.tensor([[0.3, -1.2, 2.0]], dtype=torch.float64)
    logits = Contrast(torch.tensor([[2, 1]]), Head.MULTI_LABEL, 3).logits(torch.tensor([0]), outputs)
    assert logits[0].tolist() == pytest.approx([-3.2, 3.2])


class TestContrastedBatch:
    def test_every_form_of_what_is_explained_follows_from_the_difference_of_the_logits(self):
        model, batch = prepared()
        with model.frozen(), torch.no_grad():
            plain = batch.logits(batch.ones())
            contrasted = batch.contrasted(TARGET, AGAINST)
            logits = contrasted.logits(contrasted.ones())
        rows = torch.arange(len(plain))
        difference = plain[rows, TARGET] - plain[rows, AGAINST]
        chosen = torch.full_like(TARGET, CHOSEN)
        forms = {of: explained_output(contrasted.head, logits, chosen, of) for of in OUTPUTS}
        assert torch.allclose(forms["logit"], difference)
        assert torch.allclose(forms["log-odds"], difference)
        assert torch.allclose(forms["probability"], difference.sigmoid())
        assert torch.allclose(forms["log-probability"], difference.sigmoid().log())
        assert torch.allclose(logits[:, REJECTED], -difference)

    def test_inputs_taken_from_it_keep_their_own_two_classes(self):
        model, batch = prepared()
        with model.frozen(), torch.no_grad():
            contrasted = batch.contrasted(TARGET, AGAINST)
            subset = contrasted.take([1, 2])
            assert torch.allclose(subset.predict(), contrasted.predict()[1:])

    def test_without_the_contrast_it_is_the_batch_it_was(self):
        model, batch = prepared()
        with model.frozen(), torch.no_grad():
            back = batch.contrasted(TARGET, AGAINST).uncontrasted()
            assert (back.head, back.classes) == (batch.head, batch.classes)
            assert torch.equal(back.predict(), batch.predict())


class TestErrors:
    def test_a_label_against_itself(self):
        model = rationales.load(*contrast_model())
        with pytest.raises(OptionError, match=r"both comedy; give another label"):
            rationales.explain(model, "The joke.", target="comedy", against="Comedy")

    def test_the_predicted_label_against_itself(self):
        model = rationales.load(*contrast_model())
        with pytest.raises(OptionError, match=r"both comedy"):
            rationales.explain(model, "The joke.", against="comedy")

    def test_a_label_that_is_not_known_is_answered_with_the_nearest(self):
        model = rationales.load(*contrast_model())
        with pytest.raises(OptionError, match=r"no label 'tragedi' \(did you mean tragedy\?\)"):
            rationales.explain(model, "The joke.", against="tragedi")

    def test_a_part_of_a_label_is_answered_with_the_labels_that_hold_it(self):
        model = rationales.load(*contrast_model())
        with pytest.raises(OptionError, match=r"no label 'trag' \(did you mean tragedy\?\)"):
            rationales.explain(model, "The joke.", against="trag")

    def test_a_model_of_one_class(self):
        module, tokenizer = tiny("bert", labels=1, problem_type="multi_label_classification")
        with pytest.raises(OptionError, match=r"has one class, LABEL_0, and nothing to set it against"):
            rationales.explain(rationales.load(module, tokenizer), "The joke.", against=0)

    def test_as_many_labels_as_inputs(self):
        model = rationales.load(*contrast_model())
        with pytest.raises(OptionError, match="1 labels in against for 2 inputs"):
            rationales.explain(model, ["The joke.", "The bridge."], against=["report"])

    def test_every_input_needs_one(self):
        model = rationales.load(*contrast_model())
        with pytest.raises(OptionError, match="against needs a label for every input"):
            rationales.explain(model, ["The joke.", "The bridge."], against=["report", None])


def test_it_is_recorded_saved_and_shown(tmp_path):
    model = rationales.load(*contrast_model())
    result = rationales.explain(model, "Nobody laughed at the joke.", target=0, against=1, method="occlusion")
    again = rationales.Rationale.load(result.save(tmp_path / "why.json"))
    assert (again.target, again.against) == ("comedy", "tragedy")
    assert again.question == "comedy rather than tragedy"
    assert str(result).startswith("comedy rather than tragedy")
    assert "comedy rather than tragedy" in result.to_html()
    assert rationales.explain(model, "The joke.", method="occlusion").against is None
