"""Faithfulness through a model: the papers' formulas one text at a time, and right where the truth is known."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from families import FAMILIES, tiny, tokenizer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from methods.fillers import tiny_filler
from methods.keyword import KeywordModel, keyword_model
from reference import metrics as literal

import rationales
from rationales.errors import InputError, OptionError
from rationales.evaluation.faithfulness import measure as module_under_test
from rationales.evaluation.faithfulness import removal
from rationales.evaluation.faithfulness.measure import measure_faithfulness, measure_rationales
from rationales.evaluation.protocols import PRESETS, Protocol
from rationales.evaluation.scores.attribution import predict
from rationales.models.text.filling.loading import filler_names

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "Every morning the baker carried twelve loaves up the hill; " * 5,  # several segments
]
MARC = replace(PRESETS["marc"], ties="left")
CURVES = (
    "sufficiency",
    "comprehensiveness",
    "aopc_sufficiency",
    "aopc_comprehensiveness",
    "log_odds",
    "deletion",
    "insertion",
)


def loaded(family="bert", **options):
    module, tokenizer = tiny(family, **options)
    return rationales.load(module, tokenizer)


def random_scores(model, texts, seed=0):
    """Random scores with ties, one per word."""
    random = np.random.default_rng(seed)
    return [random.integers(0, 9, len(text.units)) / 8.0 for text in model.encode([model.read(t, None) for t in texts])]


class TestEqualsTheLiteralFormulas:
    @pytest.mark.parametrize(("family", "removal"), [("bert", "pad"), ("roberta", "mask"), ("llama", "unk")])
    def test_replaced_words(self, family, removal):
        """Eq. 10 and 11, one text, one level, one segment at a time, on token ids.

        (RoBERTa gives no position to PAD ids, so there they are not what a replaced word is.)
        """
        model = loaded(family, seed=3)
        module, tokenizer = model.networks[0].module, model.tokenizer
        token = getattr(tokenizer, f"{removal}_token_id")
        protocol = replace(MARC, removal=removal)
        scores = random_scores(model, TEXTS)
        curves = measure_faithfulness(model, TEXTS, scores, [2, 0, 1], protocol)
        for number, (text, input_scores, target) in enumerate(zip(TEXTS, scores, (2, 0, 1), strict=True)):
            encoded = model.encode([model.read(text, None)])[0]

            def expected(kept, encoded=encoded, target=target):
                return literal.replaced(module, encoded, kept, token, target)

            full, kept, removed = literal.curves(input_scores.tolist(), MARC.levels, expected)
            assert curves.full[number, 0] == pytest.approx(full, abs=1e-5)
            assert curves.kept[number, 0] == pytest.approx(kept, abs=1e-5)
            assert curves.removed[number, 0] == pytest.approx(removed, abs=1e-5)
            assert curves.sufficiency()[number] == pytest.approx(full - np.mean(kept), abs=1e-5)
            assert curves.comprehensiveness()[number] == pytest.approx(full - np.mean(removed), abs=1e-5)

    @pytest.mark.parametrize("family", ["bert", "roberta"])
    def test_deleted_tokens(self, family):
        model = loaded(family, seed=4)
        scores = random_scores(model, TEXTS)
        protocol = replace(PRESETS["eraser-paper"], label="gold")
        curves = measure_faithfulness(model, TEXTS, scores, [0, 1, 2], protocol)
        for number, (text, input_scores) in enumerate(zip(TEXTS, scores, strict=True)):
            encoded = model.encode([model.read(text, None)])[0]
            full, kept, removed = literal.curves(
                input_scores.tolist(),
                protocol.levels,
                lambda chosen, encoded=encoded, target=number: literal.deleted(
                    model.networks[0].module, encoded, chosen, target
                ),
            )
            assert curves.kept[number, 0] == pytest.approx(kept, abs=1e-5)
            assert curves.removed[number, 0] == pytest.approx(removed, abs=1e-5)
            assert curves.comprehensiveness()[number] == pytest.approx((5 * full - sum(removed)) / 6, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "marc-images"])
class TestEveryPreset:
    def measured(self, name, model, texts, scores, **options):
        protocol = PRESETS[name]
        targets = None if protocol.label == "predicted" else [1] * len(texts)
        if name == "im-bert":
            options["filler"] = tiny_filler()
        return measure_faithfulness(model, texts, scores, targets, protocol, gold=[1] * len(texts), **options)

    def test_alone_equals_in_a_batch_in_any_order(self, name):
        model = loaded()
        scores = random_scores(model, TEXTS)
        together = self.measured(name, model, TEXTS, scores)
        backwards = self.measured(name, model, TEXTS[::-1], scores[::-1])
        for number, text in enumerate(TEXTS):
            alone = self.measured(name, model, [text], [scores[number]])
            for metric in CURVES:
                value = getattr(alone, metric)()[0]
                assert getattr(together, metric)()[number] == pytest.approx(value, abs=1e-5, nan_ok=True)
                assert getattr(backwards, metric)()[-1 - number] == pytest.approx(value, abs=1e-5, nan_ok=True)

    def test_the_model_is_left_as_it_was(self, name):
        model = loaded()
        module = model.networks[0].module.train()
        before = copy.deepcopy(module.state_dict())
        self.measured(name, model, TEXTS[:2], random_scores(model, TEXTS[:2]))
        assert module.training
        assert all(weight.requires_grad for weight in module.parameters())
        assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())

    def test_only_the_order_of_positive_scores_matters(self, name):
        """Squaring keeps the order, the sign and what is largest; noise on ties sees the scale, so none are tied."""
        model = loaded()
        scores = [
            np.random.default_rng(1).permutation(np.arange(1, len(values) + 1)) / 50
            for values in random_scores(model, TEXTS)
        ]
        values, rescaled = (
            self.measured(name, model, TEXTS, inputs)
            for inputs in (scores, [input_scores**2 for input_scores in scores])
        )
        for metric in CURVES:
            assert np.array_equal(getattr(values, metric)(), getattr(rescaled, metric)(), equal_nan=True)


class TestKnownCause:
    """A model that looks for one word: the logit is 6 with it and -6 without."""

    words = ("we", "had", "some", "bread", "with", "the", "soup")

    def model(self):
        module, tokenizer = keyword_model("bread")
        return rationales.load(module, tokenizer)

    def measured(self, scores, **options):
        model = self.model()
        return measure_faithfulness(
            model, [" ".join(self.words)], [np.array(scores, float)], ["found"], replace(MARC, **options)
        )

    def test_perfect_inverted_and_constant_scores(self):
        high, low = 1 / (1 + np.exp(-6)), 1 / (1 + np.exp(6))
        fall = high - low
        best = [float(word == "bread") for word in self.words]
        perfect, inverted = self.measured(best), self.measured([-values for values in best])
        assert perfect.sufficiency() == pytest.approx([0.0], abs=1e-6)
        assert perfect.comprehensiveness() == pytest.approx([fall], abs=1e-6)
        # the last of 7 words is only there from ceil(level * 7) = 7 on: levels 0.9 and 0.95
        assert inverted.sufficiency() == pytest.approx([fall * 17 / 19], abs=1e-6)
        assert inverted.comprehensiveness() == pytest.approx([fall * 2 / 19], abs=1e-6)
        constant = self.measured([0.5] * 7)  # left first: bread is the fourth word, there from level 0.45 on
        assert constant.sufficiency() == pytest.approx([fall * 8 / 19], abs=1e-6)
        assert perfect.deletion() == pytest.approx([low], abs=1e-6)
        assert perfect.insertion() == pytest.approx([high], abs=1e-6)
        assert perfect.log_odds() == pytest.approx([np.log(low / high)], rel=1e-4)

    def test_random_scores_lie_between(self):
        model, text = self.model(), " ".join(self.words)
        random = np.random.default_rng(0)
        many = measure_faithfulness(model, [text] * 200, [random.random(7) for _ in range(200)], ["found"] * 200, MARC)
        # the word is in the best k of 7 with chance k/7; the mean of k over the 19 levels is 4.26
        mean = np.mean([np.ceil(level * 7 - 1e-9) for level in MARC.levels]) / 7
        fall = 2 / (1 + np.exp(-6)) - 1
        assert many.comprehensiveness().mean() == pytest.approx(fall * mean, abs=0.06)
        assert many.sufficiency().mean() == pytest.approx(fall * (1 - mean), abs=0.06)

    def test_the_predicted_label_needs_no_targets(self):
        model = self.model()
        protocol = replace(MARC, label="predicted")
        curves = measure_faithfulness(model, ["some bread", "no soup"], [np.array([0.0, 1.0])] * 2, None, protocol)
        assert curves.target.tolist() == curves.predicted.tolist() == [1, 0]
        assert curves.comprehensiveness()[0] > 0.9
        assert abs(curves.comprehensiveness()[1]) < 1e-6  # nothing can be taken away that would make it "found"

    def test_misclassified_inputs_are_left_out_of_im(self):
        model = self.model()
        curves = measure_faithfulness(
            model, ["some bread", "no soup"], [np.array([0.0, 1.0])] * 2, None, "im", gold=["found", "found"]
        )
        assert curves.left_out().tolist() == [False, True]
        assert np.isnan(curves.deletion()).tolist() == [False, True]


class TestProperties:
    @settings(max_examples=15)
    @given(st.lists(st.integers(-4, 4), min_size=15, max_size=15), st.sampled_from(["left", "random", "noise"]))
    def test_at_100_percent(self, scores, ties):
        """All kept is the input, all removed is the empty input."""
        text = TEXTS[1]
        protocol = Protocol(levels=(0.3, 1.0), removal="pad", ties=ties)
        curves = measure_faithfulness(_MODEL, [text], [np.array(scores, dtype=float)], None, protocol)
        assert curves.kept[0, 0, 1] == pytest.approx(curves.full[0, 0], abs=1e-6)
        assert curves.removed[0, 0, 1] == pytest.approx(curves.empty[0, 0], abs=1e-6)
        only = replace(protocol, level=1.0)
        expected = replace(curves, protocol=only)
        assert expected.sufficiency() == pytest.approx([0.0], abs=1e-6)
        assert expected.comprehensiveness() == pytest.approx(curves.full[0] - curves.empty[0], abs=1e-6)

    @settings(max_examples=15)
    @given(st.permutations(range(15)))
    def test_turning_the_scores_round_swaps_the_sides(self, order):
        """What the best fifth keeps is what removing the rest, the worst, leaves."""
        protocol = Protocol(levels=(0.2, 0.8), removal="pad")
        scores = np.array(order, dtype=float)
        curves, reversed_curves = (
            measure_faithfulness(_MODEL, [TEXTS[1]], [input_scores], None, protocol)
            for input_scores in (scores, -scores)
        )
        assert curves.kept == pytest.approx(reversed_curves.removed[..., ::-1], abs=1e-6)
        assert curves.removed == pytest.approx(reversed_curves.kept[..., ::-1], abs=1e-6)


def test_results_do_not_depend_on_how_work_is_cut(monkeypatch):
    model = loaded()
    scores = random_scores(model, TEXTS)
    uncut = measure_faithfulness(model, TEXTS, scores, [0, 1, 2], MARC)
    monkeypatch.setattr(removal, "KEEPS_AT_ONCE", 100)
    monkeypatch.setattr(removal, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(module_under_test, "INPUTS_AT_ONCE", {"text": 1})
    shares = []
    parts = measure_faithfulness(model, TEXTS, scores, [0, 1, 2], MARC, progress=shares.append)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0])
    for metric in CURVES:
        assert getattr(parts, metric)() == pytest.approx(getattr(uncut, metric)(), abs=1e-6)
    cut = measure_faithfulness(model, TEXTS, scores, [0, 1, 2], replace(MARC, removal="delete"))
    monkeypatch.undo()
    once = measure_faithfulness(model, TEXTS, scores, [0, 1, 2], replace(MARC, removal="delete"))
    assert cut.comprehensiveness() == pytest.approx(once.comprehensiveness(), abs=1e-6)


def test_it_costs_no_more_rows_than_it_must(monkeypatch):
    """19 levels x 2 sides and the whole and the empty input: 40 rows of the model for each segment."""
    model = loaded()
    rows = []
    plain = type(model.networks[0]).logits

    def counted(self, ids, *arguments):
        rows.append(ids.shape)
        return plain(self, ids, *arguments)

    monkeypatch.setattr(type(model.networks[0]), "logits", counted)
    encoded = model.encode([model.read(text, None) for text in TEXTS])
    measure_faithfulness(model, encoded, random_scores(model, TEXTS), [0, 1, 2], MARC)
    segments = sum(len(item.rows) for item in encoded)
    assert sum(shape[0] for shape in rows) == 40 * segments
    tokens = 40 * sum(len(row.ids) for item in encoded for row in item.rows)
    assert sum(count * width for count, width in rows) <= 1.6 * tokens or len(rows) == 1


def test_several_models_together_are_measured_apart():
    first, tokenizer = tiny("bert")
    second, _ = tiny("bert", seed=1)
    scores = random_scores(rationales.load(first, tokenizer), TEXTS[1:2])
    both = measure_faithfulness(rationales.load([first, second], tokenizer), TEXTS[1:2], scores, [1], MARC)
    alone = [
        measure_faithfulness(rationales.load(model, tokenizer), TEXTS[1:2], scores, [1], MARC)
        for model in (first, second)
    ]
    assert both.full.shape == (1, 2)
    assert both.comprehensiveness() == pytest.approx(
        np.mean([model.comprehensiveness() for model in alone], 0), abs=1e-5
    )


def test_results_of_explain_can_be_judged():
    model = loaded()
    curves = rationales.explain(model, TEXTS, method="occlusion")
    scores = [rationale.scores for rationale in curves]
    mine = measure_rationales(model, curves, protocol="marc")
    theirs = measure_faithfulness(model, TEXTS, scores, [rationale.target for rationale in curves], "marc")
    assert np.array_equal(mine.comprehensiveness(), theirs.comprehensiveness())
    assert measure_rationales(model, curves, protocol="eraser-code").comprehensiveness().shape == (3,)


def test_a_pair_is_measured():
    model = loaded()
    pair = ("The bread was bad.", "Nobody laughed.")
    scores = random_scores(model, [pair])
    for name in ("marc", "eraser-paper", "ferret"):
        protocol = PRESETS[name]
        curves = measure_faithfulness(model, [pair], scores, None if protocol.label == "predicted" else [1], protocol)
        assert np.isfinite(curves.comprehensiveness()).all()


class TestBadInput:
    def test_is_told(self):
        model = loaded()
        scores = random_scores(model, TEXTS)
        with pytest.raises(InputError, match=r"'Dull\.' hold nan"):
            measure_faithfulness(model, TEXTS[:1], [np.array([np.nan, 1.0])], [0], MARC)
        with pytest.raises(InputError, match=r"3 scores for the 2 words of 'Dull\.'"):
            measure_faithfulness(model, TEXTS[:1], [np.ones(3)], [0], MARC)
        with pytest.raises(OptionError, match="3 inputs, 2 scores"):
            measure_faithfulness(model, TEXTS, scores[:2], [0, 0, 0], MARC)
        with pytest.raises(OptionError, match="nothing to measure"):
            measure_faithfulness(model, [], [], [], MARC)
        with pytest.raises(OptionError, match="gold label; give targets"):
            measure_faithfulness(model, TEXTS, scores)
        with pytest.raises(OptionError, match="predicted label; give no targets"):
            measure_faithfulness(model, TEXTS, scores, [0, 0, 0], "eraser-code")
        with pytest.raises(OptionError, match="give gold"):
            measure_faithfulness(model, TEXTS, scores, None, "im")
        with pytest.raises(OptionError, match="no protocol 'marx'"):
            measure_faithfulness(model, TEXTS, scores, None, "marx")
        with pytest.raises(OptionError, match="no label 'good'"):
            measure_faithfulness(model, TEXTS, scores, ["good"] * 3)
        if not filler_names():  # with the MiniLM package there is one
            with pytest.raises(OptionError, match="needs a masked language model"):
                measure_faithfulness(model, TEXTS, scores, [0] * 3, replace(MARC, removal="fill"))

    def test_a_model_that_breaks_on_reduced_inputs_is_named(self):
        class Brittle(KeywordModel):
            """Takes the logarithm of what it finds, which may be nothing."""

            def forward(self, input_ids, attention_mask):
                output = self.embeddings(input_ids)[..., self.wanted].sum((1, 2)).log() + 1
                return torch.stack([-output, output], -1)

        model = rationales.load(Brittle(["bread"]), tokenizer_of("bert"))
        assert predict(model, model.encode([model.read("some bread", None)])).argmax() == 1
        with pytest.raises(InputError, match="NaN or infinite logits for 'some bread' when parts of it are removed"):
            measure_faithfulness(model, ["some bread"], [np.array([0.0, 1.0])], ["found"], MARC)

    def test_a_tokenizer_without_the_removal_is_told(self):
        model = loaded("gpt2")
        measured = model, TEXTS[:1], random_scores(model, TEXTS[:1]), [0]
        with pytest.raises(OptionError, match=r"by the token pad, which .* choose another removal, such as baseline"):
            measure_faithfulness(*measured, PRESETS["marc"])
        by_name = measure_faithfulness(*measured, "marc")  # the model's baseline stands in for padding
        assert by_name.protocol.removal == "baseline"


def test_every_family_can_be_deleted_from():
    for family in FAMILIES:
        model = loaded(family)
        curves = measure_faithfulness(model, TEXTS[1:2], random_scores(model, TEXTS[1:2]), None, "eraser-paper")
        assert np.isfinite(curves.comprehensiveness()).all()
        assert np.isfinite(curves.sufficiency()).all()


_MODEL = loaded()
