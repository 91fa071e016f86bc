"""ROAR: what is removed and trained, by hand and against the reference, and a world in which the truth is known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from bags import NEUTRAL, SETTINGS, bag_of_words, examples
from families import tiny
from methods.fillers import known_filler, tiny_filler
from reference import roar as literal
from scipy.stats import t as student
from scipy.stats import ttest_ind_from_stats
from tokenizers import normalizers

import rationales
from rationales.data.example import Example
from rationales.errors import InputError, OptionError
from rationales.evaluation.retraining import classifier_training, labelled_tokens, stacked_bert, together_training
from rationales.evaluation.retraining.data_split import divide
from rationales.evaluation.retraining.reduced_texts import fillable_texts, reduced_texts
from rationales.evaluation.retraining.result_files import weights_fingerprint
from rationales.evaluation.retraining.roar import RoarVariant, roar, roar_tables
from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.retraining.significance import roar_tests, with_tests
from rationales.evaluation.retraining.starting_points import starting_point
from rationales.evaluation.tables.statistics import welch
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.models.text.filling.filler import Filler
from rationales.models.text.tokens import TextInput

QUICK = RetrainingSettings(**SETTINGS)
SHARP = {"name": "occlusion", "options": {"window": 1}, "title": "occlusion"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return roar(
        rationales.load(*bag_of_words()), examples(60, 1), [SHARP], train=examples(120), settings=QUICK,
        cache=tmp_path_factory.mktemp("roar"),
    )  # fmt: skip


class TestKnownAnswer:
    def test_without_the_word_that_decides_accuracy_falls_to_chance_and_at_random_it_does_not(self, table):
        cells = table["occlusion"].cells
        assert cells["roar@0%"].estimate.mean > 0.95
        assert cells["roar@10%"].estimate.mean < 0.65  # one of nine words: "good" or "bad"
        assert table["random"].cells["roar@10%"].estimate.mean > 0.8
        tests = {(test.metric, test.first, test.second): test for test in roar_tests(table)}
        assert tests["roar@10%", "occlusion", "random"].adjusted < 0.01
        assert tests["roar@10%", "occlusion", "random"].difference < -0.2

    def test_tests_are_of_the_rows_that_a_table_has(self, table):
        assert with_tests(table).remarks == table.remarks
        alone = with_tests(replace(table, rows=table.rows[:1]))
        assert not any("random" in remark for remark in alone.remarks if "t-tests" in remark)

    def test_one_row_alone_has_no_tests(self, table):
        alone = with_tests(replace(table, rows=table.rows[-1:]))
        assert [row.title for row in alone.rows] == ["random"]
        assert alone.remarks[-1] == "One row: no t-test between methods."
        assert not any("t-tests" in remark for remark in alone.remarks)
        assert with_tests(replace(alone, rows=table.rows)).remarks == table.remarks

    def test_the_table_says_what_was_done(self, table):
        text = str(table)
        assert "roar@0% ↓ | roar@10% ↓ | roar@20% ↓ | roar@30% ↓" in text
        assert "3 seeds, seed 0; means with 95 % bootstrap intervals over seeds" in text
        assert "the best 10, 20, 30 % of the words (rounded down, at least one) deleted in 120 training and 60" in text
        assert "Retrained from scratch" in text
        assert ".500 is the share of the most frequent class" in text
        assert "roar@10%, two-sample t-tests (Welch, over seeds): occlusion − random −" in text
        assert Table.from_json(table.to_json()) == table

    def test_filled_in_words_bring_the_answer_back(self):
        """A filler that knows no "good" takes the class away; one that writes "good" everywhere does so too."""
        model = rationales.load(*bag_of_words())
        filler = known_filler({position: {"room": 1.0} for position in range(9)})
        settings = replace(QUICK, levels=(0.1,), seeds=2)
        filled = roar(
            model, examples(40, 1), [SHARP], train=examples(80), removal="fill", settings=settings, filler=filler
        )
        assert filled.metrics == ("roar-bert@0%", "roar-bert@10%")
        assert filled["occlusion"].cells["roar-bert@10%"].estimate.mean < 0.65
        assert filled["random"].cells["roar-bert@10%"].estimate.mean > 0.75
        assert "filled in together by KnownFiller" in str(filled)


class TestReducedTexts:
    model = rationales.load(*bag_of_words())

    def encoded(self, *texts):
        return self.model.encode([self.model.read(text, None) for text in texts])

    @pytest.mark.parametrize("level", [0.1, 0.2, 0.3])
    @pytest.mark.parametrize("length", [1, 4, 9, 10, 20])
    def test_equals_the_literal_reference(self, level, length):
        random = np.random.default_rng(length)
        words = random.choice(NEUTRAL, length).tolist()
        scores = random.integers(0, 5, length).astype(float)
        (source,) = reduced_texts(self.encoded(" ".join(words)), [scores], level, "delete")
        assert source.text.split() == literal.without_best(words, scores.tolist(), level)

    def test_a_share_that_rounds_to_nothing_takes_one_word(self):
        (source,) = reduced_texts(self.encoded("the old boat"), [np.array([0.0, 2.0, 1.0])], 0.1, "delete")
        assert source.text == "the boat"

    def test_a_text_of_one_word_becomes_empty_and_can_be_trained_on(self):
        (source,) = reduced_texts(self.encoded("good"), [np.array([1.0])], 0.1, "delete")
        assert source.text == ""
        start = starting_point(self.model, QUICK)
        tokens = labelled_tokens.tokenize_texts(start, [source], [1])
        assert tokens.ids == [[2, 3]]  # [CLS] and [SEP]

    def test_a_text_without_scores_stays(self):
        sources = reduced_texts(self.encoded("the old boat", "a good day"), [None, np.ones(3)], 0.1, "delete")
        assert [source.text for source in sources] == ["the old boat", "good day"]

    def test_all_removed_words_are_filled_in_together(self):
        filler = Filler(*known_filler({0: {"soup": 1.0}, 1: {"cold": 1.0}, 2: {"day": 1.0}}), "known")
        (source,) = reduced_texts(self.encoded("the old boat"), [np.array([2.0, 0.0, 1.0])], 0.7, "fill", filler)
        assert source.text == "soup old day"

    def test_a_filler_with_another_tokenizer_that_cannot_express_a_word(self):
        """The classifier reads pieces of words, the filler words; a symbol that it drops is part of the word before."""
        model = rationales.load(*tiny("roberta", num_labels=2))
        module, tokenizer = known_filler({0: {"a": 1.0}, 1: {"cold": 1.0}})
        tokenizer.backend_tokenizer.normalizer = normalizers.Replace("☀", "")
        encoded = model.encode([model.read(text, None) for text in ("the lighthouse", "the ☀ soup")])
        filler = Filler(module, tokenizer, "known")
        sources = reduced_texts(encoded, [np.array([0.0, 1.0]), np.array([0.0, 1.0, 0.0])], 0.3, "fill", filler)
        assert [source.text for source in sources] == ["the cold", "a soup"]

    def test_texts_are_filled_in_chunks_and_those_without_scores_stay(self, monkeypatch):
        monkeypatch.setattr("rationales.evaluation.retraining.reduced_texts.TEXTS_AT_ONCE", 2)
        filler = Filler(*known_filler({position: {"soup": 1.0} for position in range(3)}), "known")
        encoded = self.encoded("the old boat", "a good day", "good", "an old day", "a cold boat")
        scores = [np.array([1.0, 0.0, 0.0]), None, None, np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])]
        expected = ["soup old boat", "a good day", "good", "an soup day", "a cold soup"]
        for fillable in (None, fillable_texts(encoded, filler)):
            filled = reduced_texts(encoded, scores, 0.1, "fill", filler, fillable=fillable)
            assert [source.text for source in filled] == expected

    def test_mistakes(self):
        with pytest.raises(OptionError, match="roar-bert needs a masked language model"):
            reduced_texts([], [], 0.1, "fill")
        with pytest.raises(OptionError, match="by delete or fill"):
            reduced_texts([], [], 0.1, "pad")


class TestTokens:
    """Texts as classifiers in training read them."""

    start = starting_point(rationales.load(*tiny("bert", num_labels=2)), RetrainingSettings(max_length=12))

    @pytest.mark.parametrize("first", [0, 1])
    def test_pairs_among_single_texts_keep_their_second_text(self, first):
        sources = [TextInput("the old boat", None), TextInput("a bridge", "the old boat"), TextInput("the soup", None)]
        sources = sources[first:] + sources[:first]  # a single text or a pair is the first
        data = labelled_tokens.tokenize_texts(self.start, sources, [0, 1, 0])
        for source, ids, types in zip(sources, data.ids, data.types, strict=True):
            alone = self.start.tokenizer(source.text, source.pair, truncation=True, max_length=12)
            assert ids == alone["input_ids"]
            assert types == alone["token_type_ids"]
        pair = next(number for number, source in enumerate(sources) if source.pair is not None)
        assert data.ids[pair].count(3) == 2  # [SEP]
        assert set(data.types[pair]) == {0, 1}
        single = (pair + 1) % 3
        assert data.ids[single].count(3) == 1
        rectangle = data.rectangle(self.start.padding, torch.device("cpu"))
        assert rectangle.types[pair].sum() == sum(data.types[pair])

    def test_a_pair_whose_second_text_was_removed_is_still_a_pair(self):
        data = labelled_tokens.tokenize_texts(self.start, [TextInput("a bridge", "")], [0])
        assert data.ids[0][-2:] == [3, 3]

    def test_texts_that_are_cut_are_counted(self):
        sources = [TextInput(text, None) for text in ("boat", "the old boat " * 9)] + [TextInput("a", "a boat " * 12)]
        assert labelled_tokens.count_cut_texts(self.start, sources) == 2
        data = labelled_tokens.tokenize_texts(self.start, sources, [0, 1, 0])
        assert data.lengths.max() == 12
        exactly = next(n for n in range(1, 20) if len(self.start.tokenizer("a " * n)["input_ids"]) == 12)
        assert labelled_tokens.count_cut_texts(self.start, [TextInput("a " * exactly, None)]) == 0


class TestWelch:
    @pytest.mark.parametrize(
        ("first", "second", "p"),
        [
            ((74.59, 0.78), (76.22, 1.18), 0.0370), ((68.94, 1.46), (70.07, 0.69), 0.1740),
            ((67.89, 0.79), (66.54, 1.89), 0.1974), ((76.79, 0.56), (77.36, 0.90), 0.2672),
            ((71.95, 0.75), (71.56, 1.55), 0.6312), ((67.62, 1.16), (67.68, 0.96), 0.9245),
        ],
    )  # fmt: skip
    def test_the_papers_p_values_are_welchs(self, first, second, p):
        """Table 2, row d, from the means and deviations of its five models, as far as two decimals carry."""
        computed = ttest_ind_from_stats(*first, 5, *second, 5, equal_var=False).pvalue
        assert computed == pytest.approx(p, abs=0.01)
        if p < 0.2:  # small enough to tell the two tests apart
            pooled = ttest_ind_from_stats(*first, 5, *second, 5, equal_var=True).pvalue
            assert abs(computed - p) < abs(pooled - p) / 3
        spread = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
        spread /= spread.std(ddof=1)
        samples = [mean + deviation * spread for mean, deviation in (first, second)]
        assert welch(*samples)[1] == pytest.approx(computed, abs=1e-9)

    def test_equals_the_literal_formula(self):
        first, second = [0.7, 0.72, 0.69, 0.8], [0.6, 0.66, 0.71]
        statistic, freedom = literal.welch_statistic(first, second)
        difference, p = welch(first, second)
        assert p == pytest.approx(2 * student.sf(abs(statistic), freedom))
        assert difference == pytest.approx(np.mean(first) - np.mean(second))

    def test_edges(self):
        assert math.isnan(welch([0.5], [0.6, 0.7])[1])
        assert welch([0.5, 0.5], [0.5, 0.5]) == (0.0, 1.0)
        assert welch([0.5, 0.5], [0.75, 0.75]) == (-0.25, 0.0)

    def test_holm_counts_all_tests_of_a_table(self):
        rows = tuple(
            TableRow(name, {"roar@10%": Cell(values)}, method=name)
            for name, values in {"a": (0.1, 0.2), "b": (0.5, 0.6), "random": (0.8, 0.9)}.items()
        )
        tests = roar_tests(Table(rows, ("roar@0%", "roar@10%"), ("s", "t"), None, "", "m", "pad", 0, {}))
        assert [(test.first, test.second) for test in tests] == [("a", "b"), ("a", "random"), ("b", "random")]
        smallest = min(tests, key=lambda test: test.p)
        assert smallest.adjusted == pytest.approx(3 * smallest.p)


class TestTraining:
    def test_a_seed_decides_everything_and_nothing_else_does(self):
        model = rationales.load(*tiny("bert", num_labels=2))
        settings = RetrainingSettings(epochs=2, learning_rate=1e-3, batch_size=4, seeds=2)
        start = starting_point(model, settings)
        texts = [model.read(item.text, None) for item in examples(12)]
        data = labelled_tokens.tokenize_texts(start, texts, [0, 1] * 6)
        state = torch.random.get_rng_state()
        first = dict(classifier_training.train_and_test(start, data, data, [0, 1], settings))
        torch.manual_seed(99)
        assert dict(classifier_training.train_and_test(start, data, data, [1, 0], settings)) == first
        torch.random.set_rng_state(state)
        assert torch.equal(start.copy(0).classifier.weight, start.copy(0).classifier.weight)
        assert not torch.equal(start.copy(0).classifier.weight, start.copy(1).classifier.weight)
        # the encoder is the model's own
        name = "bert.encoder.layer.0.output.dense.weight"
        assert torch.equal(start.copy(1).get_parameter(name), model.networks[0].module.get_parameter(name))

    @pytest.mark.parametrize("together", [False, True])
    def test_equals_a_plain_loop(self, together, monkeypatch):
        """Two steps on texts of several lengths: the losses of both, and the weights after each."""
        module, tokenizer = tiny("bert", num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model = rationales.load(module, tokenizer)
        settings = RetrainingSettings(epochs=1, learning_rate=1e-2, batch_size=3, clip=0.5, together=together)
        start = starting_point(model, settings)
        texts = [["the", "old", "boat", "was", "good", "and", "cold"][: 3 + number] for number in range(5)]
        labels = [0, 1, 1, 0, 1]
        data = labelled_tokens.tokenize_texts(start, [model.read(" ".join(words), None) for words in texts], labels)
        trained, losses, norms = [], [], []
        plain, loss_of, clip_of = (
            classifier_training.accuracy, classifier_training.classification_loss, torch.nn.utils.clip_grad_norm_,
        )  # fmt: skip
        monkeypatch.setattr(classifier_training, "accuracy", lambda *a: (trained.append(a[0]), plain(*a))[1])
        monkeypatch.setattr(
            classifier_training, "classification_loss", lambda *a: (losses.append(loss_of(*a)), losses[-1])[1]
        )
        monkeypatch.setattr(
            torch.nn.utils, "clip_grad_norm_", lambda *a: (norms.append(float(clip_of(*a))), norms[-1])[1]
        )
        seeds = [0, 1] if together else [0]
        list(classifier_training.train_and_test(start, data, data, seeds, settings))
        for seed, classifier in zip(seeds, trained, strict=True):
            copied = start.copy(seed)
            batches = [step.tolist() for step in labelled_tokens.batch_order(5, seed, settings)]
            assert [len(batch) for batch in batches] == [3, 2]
            expected = literal.train(copied.train(), data.ids, labels, start.padding, batches, 1e-2, 0.5)
            if not together:
                assert [float(loss.detach()) for loss in losses] == pytest.approx(expected, rel=1e-5)
                assert max(norms) > 0.5  # clipped
            for name, weight in copied.named_parameters():
                # a bias of the keys has no gradient but rounding errors, which Adam scales up
                if not name.endswith("key.bias"):
                    assert torch.allclose(weight, classifier.get_parameter(name), atol=1e-4), name

    def test_every_epoch_sees_every_text_once(self):
        order = labelled_tokens.batch_order(10, 0, replace(QUICK, epochs=2, batch_size=4))
        assert [len(step) for step in order] == [4, 4, 2, 4, 4, 2]
        assert sorted(torch.cat(order[:3]).tolist()) == list(range(10))
        assert order[0].tolist() != order[3].tolist()

    def test_a_single_logit_is_trained_too(self):
        model = rationales.load(*bag_of_words(outputs=1))
        labelled = [replace(item, label={"negative": 0, "positive": 1}[item.label]) for item in examples(120)]
        settings = replace(QUICK, seeds=1, levels=(0.1,))
        result = roar(model, labelled[80:], [SHARP], train=labelled[:80], settings=settings)
        assert result["occlusion"].cells["roar@0%"].estimate.mean > 0.9
        assert "One seed: no t-test" in str(result)

    def test_a_pretrained_encoder_is_a_starting_point(self, tmp_path):
        module, tokenizer = tiny("bert", num_labels=3)
        module.bert.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        model = rationales.load(*tiny("roberta", num_labels=2))
        start = starting_point(model, RetrainingSettings(start=str(tmp_path)))
        assert start.copy(0).classifier.out_features == 2
        name = "encoder.layer.0.output.dense.weight"
        assert torch.equal(start.copy(3).bert.get_parameter(name), module.bert.get_parameter(name))
        assert "pretrained encoder" in start.remark
        with pytest.raises(rationales.RationalesError, match="nowhere"):
            starting_point(model, RetrainingSettings(start=str(tmp_path / "nowhere")))

    def test_accuracies_are_found_again_whatever_head_a_pretrained_encoder_is_loaded_with(self, tmp_path):
        module, tokenizer = tiny("bert", num_labels=2)
        module.bert.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        model = rationales.load(module, tokenizer)
        fingerprints, heads = [], []
        for seed in (1, 2):
            torch.manual_seed(seed)
            start = starting_point(model, RetrainingSettings(start=str(tmp_path)))
            fingerprints.append(weights_fingerprint(start))
            heads.append(start.module.classifier.weight.detach().clone())
        assert not torch.equal(*heads)
        assert fingerprints[0] == fingerprints[1]
        with torch.no_grad():
            start.module.bert.get_parameter("encoder.layer.0.output.dense.weight")[0, 0] += 1
        assert weights_fingerprint(start) != fingerprints[0]

    def test_training_that_learns_nothing_is_told(self):
        settings = replace(QUICK, epochs=1, learning_rate=1e-9, seeds=2, levels=(0.1,))
        result = roar(
            rationales.load(*bag_of_words()), examples(60, 1), ["random"], train=examples(20), settings=settings
        )
        mean = result["random"].cells["roar@0%"].estimate.mean
        assert ("no more than chance" in str(result)) == (mean <= 0.5)


class TestTogether:
    """All seeds in one batched pass, with their weights stacked."""

    @pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
    def test_without_dropout_the_classifiers_are_those_of_training_one_after_the_other(self, family, monkeypatch):
        module, tokenizer = tiny(family, num_labels=2)
        head_weight = next(name for name, _ in module.named_parameters() if name.startswith("classifier"))
        for submodule in module.modules():
            if isinstance(submodule, torch.nn.Dropout):
                submodule.p = 0.0
        model = rationales.load(module, tokenizer)
        settings = RetrainingSettings(epochs=2, learning_rate=1e-3, batch_size=4, seeds=3, clip=0.5)
        start = starting_point(model, settings)
        texts = [
            model.read(" ".join(item.text.split()[: 3 + number % 5]), None) for number, item in enumerate(examples(10))
        ]
        data = labelled_tokens.tokenize_texts(start, texts, [0, 1] * 5)
        trained = []
        plain = classifier_training.accuracy
        monkeypatch.setattr(classifier_training, "accuracy", lambda *a: (trained.append(a[0]), plain(*a))[1])
        for together in (False, True):
            list(classifier_training.train_and_test(start, data, data, [0, 1, 2], replace(settings, together=together)))
        for alone, stacked in zip(trained[:3], trained[3:], strict=True):
            for name, weight in alone.named_parameters():
                # a bias of the keys has no gradient but rounding errors, which Adam scales up
                if not name.endswith(("key.bias", "k_lin.bias")):
                    assert torch.allclose(weight, stacked.get_parameter(name), atol=5e-5), name
        heads = [dict(module.named_parameters())[head_weight] for module in trained[:2]]
        assert not torch.allclose(*heads, atol=1e-3)  # seeds differ

    def test_a_known_answer(self):
        settings = replace(QUICK, together=True, levels=(0.1,))
        result = roar(rationales.load(*bag_of_words()), examples(40, 1), [SHARP], train=examples(80), settings=settings)
        assert result["occlusion"].cells["roar@0%"].estimate.mean > 0.9
        assert result["occlusion"].cells["roar@10%"].estimate.mean < 0.65
        assert result["random"].cells["roar@10%"].estimate.mean > 0.75

    def test_variants_share_scores_and_passes(self):
        """Several ways of removal at once give the tables of each alone; without dropout, up to rounding."""
        model = rationales.load(*bag_of_words())
        settings = replace(QUICK, together=True, levels=(0.1,), seeds=2)
        filler = known_filler({position: {"room": 1.0} for position in range(9)})
        variants = [RoarVariant(), RoarVariant("roar-bert", "fill", filler)]
        data = {"train": examples(60), "settings": settings}
        tables = roar_tables(model, examples(40, 1), [SHARP], variants, **data)
        assert [table.metrics for table in tables] == [("roar@0%", "roar@10%"), ("roar-bert@0%", "roar-bert@10%")]
        alone = roar(model, examples(40, 1), [SHARP], removal="fill", filler=filler, **data)
        for row, row_alone in zip(tables[1].rows, alone.rows, strict=True):
            for name, cell in row.cells.items():
                assert np.allclose(cell.values, row_alone.cells[name].values, atol=0.051)  # two of 40 texts

    def test_groups_that_do_not_fit_together_are_trained_after_one_another(self, monkeypatch):
        settings = replace(QUICK, together=True, levels=(0.1,), seeds=2)
        model, sizes = rationales.load(*bag_of_words()), []
        plain = classifier_training.train_together
        monkeypatch.setattr(classifier_training, "MAX_TOGETHER", 4)
        monkeypatch.setattr(classifier_training, "train_together", lambda *a: (sizes.append(len(a[0])), plain(*a))[1])
        roar(model, examples(20, 1), [SHARP], train=examples(20), settings=settings)
        assert sizes == [3, 3]  # three cells (nothing removed, occlusion, random) of two seeds, in equal groups

    def test_a_group_that_memory_does_not_hold_is_halved(self, monkeypatch):
        settings = replace(QUICK, together=True, levels=(0.1,), seeds=2)
        plain, sizes = classifier_training.train_together, []

        def train(modules, *arguments):
            sizes.append(len(modules))
            if len(modules) > 3:
                raise torch.OutOfMemoryError
            plain(modules, *arguments)

        monkeypatch.setattr(classifier_training, "train_together", train)
        model = rationales.load(*bag_of_words())
        result = roar(model, examples(20, 1), [SHARP], train=examples(20), settings=settings)
        assert sizes == [6, 3, 3]
        assert all(len(cell.values) == 2 for row in result.rows for cell in row.cells.values())

    def test_stacked_bert_is_the_module_batched_over_its_weights(self, monkeypatch):
        """A whole training with token types and unequal lengths, against torch.func.vmap over the module."""
        module, tokenizer = tiny("bert", num_labels=3)
        for submodule in module.modules():
            if isinstance(submodule, torch.nn.Dropout):
                submodule.p = 0.0
        model = rationales.load(module, tokenizer)
        start = starting_point(model, RetrainingSettings())
        sentences = [model.read(("a good film", "the bad day and a long one"[: 7 + 4 * n]), None) for n in range(5)]
        data = labelled_tokens.tokenize_texts(start, sentences, [0, 1, 2, 0, 1])
        settings = RetrainingSettings(epochs=2, batch_size=2, together=True)
        orders = [labelled_tokens.batch_order(5, seed, settings) for seed in (0, 1)]
        trained = []
        for stacks in (True, False):
            monkeypatch.setattr(together_training, "can_stack", lambda _, stacks=stacks: stacks)
            modules = [start.copy(seed) for seed in (0, 1)]
            batches = together_training.StackedBatches(torch.device("cpu"), start.padding, [data, data], orders)
            together_training.train_together(modules, start.head, batches, 1e-3, 0.5)
            trained.append(modules)
        assert stacked_bert.can_stack(module)
        for stacked, batched in zip(*trained, strict=True):
            for name, weight in batched.named_parameters():
                if not name.endswith("key.bias"):  # no gradient but rounding errors, which Adam scales up
                    assert torch.allclose(weight, stacked.get_parameter(name), atol=5e-5), name

    @pytest.mark.gpu
    def test_products_in_bfloat16_train_nearly_the_same_weights(self):
        module, tokenizer = tiny("bert", num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model = rationales.load(module.cuda(), tokenizer)
        start = starting_point(model, RetrainingSettings())
        texts = [model.read(item.text, None) for item in examples(8)]
        data = labelled_tokens.tokenize_texts(start, texts, [0, 1] * 4)
        orders = [labelled_tokens.batch_order(8, seed, RetrainingSettings(batch_size=4)) for seed in (0, 1)]
        trained = []
        for half in (False, True):
            modules = [start.copy(seed) for seed in (0, 1)]
            batches = together_training.StackedBatches(torch.device("cuda"), start.padding, [data, data], orders)
            together_training.train_together(modules, start.head, batches, 1e-4, 1.0, half=half)
            trained.append(torch.stack([module.classifier.weight for module in modules]))
        assert trained[1].dtype == torch.float32
        assert torch.allclose(*trained, atol=1e-3)  # six steps of at most 1e-4
        assert not torch.equal(*trained)

    def test_batches_of_similar_length_still_read_every_text_once_an_epoch(self):
        lengths = np.random.default_rng(0).integers(3, 40, 50)
        settings = replace(QUICK, epochs=2, batch_size=8, by_length=True)
        orders = [labelled_tokens.batch_order(50, seed, settings, lengths) for seed in (0, 1)]
        for order in orders:
            assert sorted(torch.cat(order[:7]).tolist()) == list(range(50))
            spread = max(np.ptp(lengths[step.numpy()]) for step in order)
            assert spread < np.ptp(lengths) / 2
        assert [len(step) for step in orders[0]] == [len(step) for step in orders[1]]
        assert orders[0][0].tolist() != orders[1][0].tolist()

    def test_decoders_and_the_embedded_model_are_refused(self):
        for model in (rationales.load(*tiny("llama", num_labels=2)), rationales.load()):
            with pytest.raises(OptionError, match="cannot be trained for several seeds together"):
                roar(model, examples(8), ["random"], settings=replace(QUICK, together=True))


class TestResume:
    def run(self, folder, **options):
        settings = replace(QUICK, epochs=1, seeds=2, levels=(0.1, 0.3))
        model = rationales.load(*bag_of_words())
        return roar(model, examples(20, 1), ["random"], train=examples(20), settings=settings, cache=folder, **options)

    def test_an_interrupted_run_goes_on_with_the_next_classifier(self, tmp_path, monkeypatch):
        plain, trained = classifier_training._train, []

        def stopping(*arguments):
            if len(trained) == 3:
                raise KeyboardInterrupt
            trained.append(1)
            plain(*arguments)

        monkeypatch.setattr(classifier_training, "_train", stopping)
        with pytest.raises(KeyboardInterrupt):
            self.run(tmp_path)
        files = sorted((tmp_path / "retraining").glob("*.json"))
        assert len(files) == 3
        assert set(json.loads(files[0].read_text())) >= {"accuracy", "seed", "row", "level", "key"}
        trained.clear()
        monkeypatch.setattr(classifier_training, "_train", lambda *arguments: (trained.append(1), plain(*arguments)))
        finished = self.run(tmp_path)
        assert len(trained) == 3  # of six: nothing removed and two levels, two seeds each
        assert self.run(tmp_path) == finished
        assert len(trained) == 3
        assert self.run(None)["random"].cells == finished["random"].cells

    def test_a_broken_file_is_computed_again(self, tmp_path):
        finished = self.run(tmp_path)
        for path in (tmp_path / "retraining").glob("*.json"):
            path.write_text("{", encoding="utf-8")
        assert self.run(tmp_path) == finished

    def test_progress_rises_to_one(self):
        shares = []
        self.run(None, progress=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert shares[0] < 0.5


def good_words(texts):
    """(texts, 2): a function of texts that looks for "good"."""
    return [[0.2, 0.8] if "good" in text.split() else [0.9, 0.1] for text in texts]


class TestBadInput:
    model = rationales.load(*bag_of_words())

    def test_test_texts_that_are_training_texts(self):
        settings = replace(QUICK, epochs=1, seeds=1, levels=(0.1,))
        test = [*examples(6, 1), *examples(4)]
        table = roar(self.model, test, ["random"], train=examples(20), settings=settings)
        assert "Warning: 4 of 10 test texts are training texts, too, so accuracies are too high" in str(table)
        apart = roar(self.model, examples(6, 1), ["random"], train=examples(20), settings=settings)
        assert "training texts, too" not in str(apart)

    def test_texts_that_are_cut_off(self):
        settings = replace(QUICK, epochs=1, seeds=1, levels=(0.1,), max_length=8)  # of 9 words and 2 special tokens
        short = [Example("short", "a good day", "positive")]
        table = roar(self.model, [*examples(6, 1), *short], ["random"], train=examples(20), settings=settings)
        counts = "20 of 20 training texts and 6 of 7 test texts have more than 8 tokens"
        assert f"Warning: {counts}; classifiers do not read what follows" in str(table)
        read = roar(
            self.model, examples(6, 1), ["random"], train=examples(20), settings=replace(settings, max_length=11)
        )
        assert "have more than" not in str(read)

    def test_functions_of_texts_have_no_weights_and_need_an_encoder(self):
        with pytest.raises(OptionError, match=r"is a function without weights; name an encoder .*start=FOLDER"):
            roar(rationales.load(good_words), examples(8), ["random"])

    def test_functions_of_texts_with_an_encoder(self, tmp_path):
        module, tokenizer = tiny("bert", num_labels=3)
        module.bert.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        settings = RetrainingSettings(start=str(tmp_path), epochs=1, seeds=2, levels=(0.1,), max_length=16)
        labelled = [replace(item, label=number % 2) for number, item in enumerate(examples(12))]
        table = roar(rationales.load(good_words), labelled, ["loo-empty"], settings=settings)
        assert "Retrained from the pretrained encoder" in str(table)
        assert len(table["loo-empty"].cells["roar@10%"].values) == 2

    def test_models_of_other_inputs(self):
        pictures = SimpleNamespace(name="pooled")
        with pytest.raises(OptionError, match="ROAR is for models of texts alone, and pooled reads other inputs"):
            starting_point(pictures, QUICK)

    def test_data_without_labels(self):
        with pytest.raises(InputError, match="b has no label, and ROAR trains and tests classifiers"):
            roar(self.model, [*examples(4), Example("b", "the old boat")], ["random"], settings=QUICK)

    def test_a_class_with_one_example_cannot_be_divided(self):
        with pytest.raises(InputError, match="only one example has the class 0"):
            roar(self.model, examples(5)[:1] + examples(6)[1::2], ["random"], settings=QUICK)

    def test_one_class_only(self):
        with pytest.raises(InputError, match="all training examples are positive"):
            roar(self.model, examples(8)[1::2], ["random"], settings=QUICK)

    def test_models_that_are_not_of_one_text_class(self):
        module, tokenizer = tiny("bert", num_labels=2)
        module.config.problem_type = "multi_label_classification"
        with pytest.raises(OptionError, match="needs one class for each text"):
            starting_point(rationales.load(module, tokenizer), QUICK)

    def test_roar_bert_without_a_filler(self, monkeypatch):
        monkeypatch.setattr("rationales.evaluation.faithfulness.measure.filler_names", lambda: ())
        with pytest.raises(OptionError, match="roar-bert needs a masked language model"):
            rationales.evaluate(self.model, examples(8), ["random"], metrics=["roar-bert"])

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ({"levels": (0.0,)}, "levels are shares"), ({"levels": (0.2, 0.1)}, "levels must rise"),
            ({"levels": "many"}, "levels are shares"), ({"seeds": 0}, "seeds is a whole number from 1"),
            ({"epochs": 1.5}, "epochs is a whole number"), ({"learning_rate": -1}, "learning_rate is a number above 0"),
            ({"test_share": 1.0}, "test_share lies between"), ({"start": ""}, "start is own-encoder"),
        ],
    )  # fmt: skip
    def test_settings(self, setting, message):
        with pytest.raises(OptionError, match=message):
            RetrainingSettings(**setting)

    def test_by_its_name_with_a_division_of_the_examples(self):
        result = rationales.evaluate(
            self.model, examples(40), ["random"], metrics=["roar"], study={**SETTINGS, "seeds": 2, "levels": [0.2]}
        )
        assert result.metrics == ("roar@0%", "roar@20%")
        assert "32 training and 8 test texts" in str(result)
        filled = rationales.evaluate(
            self.model, examples(10), ["random"], metrics=["roar-bert"], filler=tiny_filler(),
            study={**SETTINGS, "seeds": 1, "levels": [0.2], "epochs": 1},
        )  # fmt: skip
        assert "roar-bert@20%" in filled.metrics

    def test_classes_are_divided_alike(self):
        train, test = divide([0] * 10 + [1] * 5, 0.2, 0)
        assert sorted(train + test) == list(range(15))
        assert [sum(number < 10 for number in test), sum(number >= 10 for number in test)] == [2, 1]
        assert divide([0, 0, 1, 1], 0.01, 0)[1] != []
