"""Figure 3, the word bars, the border that tells nothing, pretrained word vectors, and planted pairs, on tiny data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from families import tiny
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("PIL")

from experiments.gt_data import bird_folder, record, review_folder

from rationales.errors import OptionError
from rationales.experiments.ground_truth.figures import EXPERIMENTS, border, fig3, word_bars
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.runs import networks, text_run
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures, TrainingCheckpoint
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec
from rationales.experiments.multimodal import plants
from rationales.experiments.registry import EXPERIMENTS as ALL
from rationales.experiments.registry import Request
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.networks.word_vectors import pretrained_vectors
from rationales.groundtruth.training import Recipe, train


class TestConfusion:
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
    def test_the_matrix_counts_every_pair_of_label_and_prediction(self, pairs):
        matrix = fig3.confusion_matrix([label for label, _ in pairs], [prediction for _, prediction in pairs], 4)
        for label in range(4):
            for prediction in range(4):
                assert matrix[label, prediction] == pairs.count((label, prediction))

    def test_pairs_are_disjoint_and_the_most_confused_come_first(self):
        """0 and 1 are confused in 4 of 10, 2 and 3 in 2 of 10; 1 and 2 in 3 of 10, but 1 is taken."""
        matrix = np.array([[6, 4, 0, 0], [4, 3, 3, 0], [0, 3, 5, 2], [0, 0, 2, 8]])
        assert fig3.confusing_pairs(matrix) == [(0, 1, 0.4), (2, 3, 0.2)]
        assert fig3.confusing_pairs(matrix, 1) == [(0, 1, 0.4)]

    def test_a_small_network_is_trained_and_drawn(self, tmp_path, monkeypatch):
        small = networks.PICTURE_NETWORKS["small-resnet"]
        quick = networks.PictureNetwork(small.title, small.make, Recipe(epochs=1, batch_size=16))
        monkeypatch.setitem(networks.PICTURE_NETWORKS, "small-resnet", quick)
        folder = bird_folder(tmp_path, train=4, test=3)
        report = fig3.reproduce(Request(data=folder, rows=["small-resnet"], device="cpu"))
        assert len(report.table.rows) == 8
        assert "confused most" in report.to_markdown()
        pytest.importorskip("matplotlib")
        (path,) = report.draw_figures(tmp_path)
        assert path.stat().st_size > 1000
        with pytest.raises(OptionError, match="there is no row 'x'"):
            fig3.reproduce(Request(rows=["x"]))


class TestWordBars:
    def test_kinds_of_words_follow_region_and_distractors(self):
        region, distractors = np.array([True, False, False]), np.array([False, True, False])
        assert word_bars.word_kinds(region, distractors) == ("correlating", "non-correlating", "other")

    def test_reviews_of_a_trained_network_are_drawn(self, tmp_path, monkeypatch):
        attention = networks.TEXT_NETWORKS["attention"]
        quick = networks.TextNetwork(attention.title, attention.make, Recipe(epochs=1, batch_size=64))
        monkeypatch.setitem(networks.TEXT_NETWORKS, "attention", quick)
        folder = review_folder(tmp_path, train=20, test=6)
        report = word_bars.reproduce(Request(data=folder, rows=["cn"], device="cpu"))
        (row,) = report.table.rows
        shares = [row.cells[kind].values for kind in word_bars.COLOURS]
        assert len(report.table.inputs) == word_bars.REVIEWS
        assert np.allclose(np.nansum(shares, 0), 1)
        pytest.importorskip("matplotlib")
        (path,) = report.draw_figures(tmp_path)
        assert path.name == "word-bars-inherent.png"
        assert path.stat().st_size > 1000


class TestBorder:
    ACCURACIES = (0.55, 0.7, 0.85)  # of the checkpoints; the trained model has .99

    def runs(self, count=2):
        """Gradients on the border as much as chance, and MaRC less, the more the model knows: .20, .15, .10, .05."""
        records = []
        for number in range(count):
            base = record(RunSpec("watermark-border", "small-resnet", number), {})
            checkpoints = tuple(
                TrainingCheckpoint(step, accuracy, self.measures(0.2 - 0.05 * step))
                for step, accuracy in enumerate(self.ACCURACIES)
            )
            fields = {name: getattr(base, name) for name in ("attempts", "accuracy_bound")}
            fields |= {"measures": self.measures(0.05), "checkpoints": checkpoints}
            records.append(record(base.spec, {}, **fields))
        settings = RunSettings("gt-border", ("random", "gradient", "marc"), 8)
        chosen = {"plants": border.PLANTS, "networks": ("small-resnet",), "methods": settings.methods}
        return ExperimentRuns(tuple(records), settings, chosen, EXPERIMENTS["gt-border"].specs)

    def measures(self, of_marc):
        return {
            key: MethodMeasures("print", 0.01, {"region": (0.5,) * 8, "distractors": (share,) * 8})
            for key, share in (("random", 0.2), ("gradient", 0.2), ("marc", of_marc))
        }

    def test_the_table_has_the_border_and_the_plant(self):
        table, metrics = border.border_table(self.runs())
        assert metrics == ("border", "plant")
        by_title = {row.title: row.cells["border"].estimate.mean for row in table.rows}
        assert by_title["MaRC"] == pytest.approx(0.05)
        assert by_title["Random"] == pytest.approx(0.2)

    def test_a_method_that_gives_the_border_little_meets_the_requirement(self):
        """MaRC is below chance in all six runs, and falls in all of them: p = 2 / 2^6 by sign flips."""
        claims = border.claims(self.runs(6))
        assert len(claims) == 4
        verdicts = {claim.text: claim.verdicts[0] for claim in claims}
        little = verdicts["MaRC gives the border less than random scores do"]
        falling = verdicts["MaRC gives the border less as the model learns (here: mean trend below 0)"]
        assert (little.word, falling.word) == ("holds", "holds")
        assert little.p == falling.p == pytest.approx(2 / 2**6)
        assert "−1.000 [−1.000 −1.000], 6 runs" in falling.figures
        of_gradient = [verdict for text, verdict in verdicts.items() if text.startswith("Gradient ")]
        assert [verdict.holds for verdict in of_gradient] == [False, None]  # constant scores have no trend

    def test_two_runs_are_too_few_to_be_sure(self):
        words = {claim.text.split()[0]: claim.verdicts[0].word for claim in border.claims(self.runs(2))}
        assert words["MaRC"] == "not significant"

    def test_without_checkpoints_the_trend_is_not_judged(self):
        runs = self.runs()
        records = tuple(replace(run, checkpoints=()) for run in runs.records)
        claims = border.claims(replace(runs, records=records))
        assert [claim.verdicts[0].word for claim in claims if "as the model learns" in claim.text] == ["not judged"] * 2


class TestPretrainedVectors:
    def test_a_word_is_the_mean_of_its_pieces_up_to_a_linear_map(self, tmp_path):
        """Words that share a piece are nearer; special tokens are 0; the spread is 1."""
        module, pieces = tiny("bert")
        module.bert.save_pretrained(tmp_path)
        pieces.save_pretrained(tmp_path)
        tokenizer = word_tokenizer(["the old stone bridge was calm and the river too"])
        vectors = pretrained_vectors(tokenizer, 6, tmp_path)
        vocabulary = tokenizer.get_vocab()
        assert vectors.shape == (len(tokenizer), 6)
        assert not vectors[tokenizer.pad_token_id].any()
        words = [number for word, number in vocabulary.items() if word not in tokenizer.all_special_tokens]
        assert float(vectors[words].std()) == pytest.approx(1, rel=0.05)
        table = module.bert.get_input_embeddings().weight.detach()
        means = {
            word: table[pieces(word, add_special_tokens=False)["input_ids"]].mean(0)
            for word in vocabulary
            if word not in tokenizer.all_special_tokens
        }
        centre = torch.stack(list(means.values())).mean(0)
        full = pretrained_vectors(tokenizer, len(means), tmp_path)  # all components: a rotation and a factor
        first, second = list(means)[:2]
        expected = (means[first] - centre) @ (means[second] - centre) / (means[first] - centre).square().sum()
        mine = full[vocabulary[first]] @ full[vocabulary[second]] / full[vocabulary[first]].square().sum()
        assert float(mine) == pytest.approx(float(expected), abs=1e-4)

    @pytest.mark.parametrize(("network", "frozen"), [("attention-pretrained", False), ("attention-frozen", True)])
    def test_training_starts_with_them_and_changes_them_unless_they_are_frozen(
        self, tmp_path, monkeypatch, network, frozen
    ):
        folder = review_folder(tmp_path, train=10, test=4)
        monkeypatch.setattr(text_run, "pretrained_vectors", lambda tokenizer, width: torch.ones(len(tokenizer), width))
        settings = RunSettings("gt-table1", (), 4, data=folder)
        setup = text_run.prepare(RunSpec("articles", network, data="movies"), settings, 0)
        start = setup.make_network().get_input_embeddings().weight
        assert torch.equal(start, torch.ones_like(start))
        trained = train(setup.make_network, setup.data, Recipe(epochs=1, batch_size=16), device="cpu").module
        assert torch.equal(trained.get_input_embeddings().weight, start) is frozen

    def test_methods_explain_a_network_whose_vectors_are_frozen(self, tmp_path, monkeypatch):
        """A tiny run from training to measures, gradient methods among them."""
        vectors = lambda tokenizer, width: torch.randn(len(tokenizer), width)  # noqa: E731
        monkeypatch.setattr(text_run, "pretrained_vectors", vectors)
        monkeypatch.setattr(text_run, "REQUIRED_ACCURACY", 0.0)
        quick = replace(networks.TEXT_NETWORKS["attention-frozen"], recipe=Recipe(epochs=4, batch_size=16))
        monkeypatch.setitem(networks.TEXT_NETWORKS, "attention-frozen", quick)
        folder = review_folder(tmp_path, train=40, test=20)
        rows = ["articles", "attention-frozen", "inherent", "integrated-gradients"]
        report = ALL["gt-table1"].run(Request(data=folder, rows=rows, runs=1, limit=4, device="cpu"))
        assert [row.title for row in report.table.rows] == ["Attention", "Integrated gradients", "Random"]
        assert all(np.isfinite(row.cells["correlating"].values).all() for row in report.table.rows)
        assert "reduced to 200 dimensions, and stay as they are" in report.to_markdown()


class TestPlantedPairs:
    def test_the_table_has_all_columns_and_a_random_row(self, monkeypatch):
        monkeypatch.setattr(plants, "TRAINING_PAIRS", 64)
        monkeypatch.setattr(plants, "TEST_PAIRS", 24)
        monkeypatch.setattr(plants, "STEPS", 4)
        monkeypatch.setattr(plants, "LIMIT", 3)
        explained = plants.trained

        def all_of_class_one(cause, seed, limit, device=None):
            """After four steps a network predicts anything: explain pairs of class 1 whatever it says."""
            network = explained(cause, seed, limit, device)
            pairs = plants.planted_pairs(plants.captioned_pictures(24, plants.TEST_SEED), cause)
            chosen = [pair for pair in pairs if pair.label == 1][:limit]
            return plants.TrainedPairs(cause, network.model, network.accuracy, chosen)

        monkeypatch.setattr(plants, "trained", all_of_class_one)
        report = ALL["multimodal-plants"].run(Request(rows=["random", "saliency"], device="cpu"))
        assert [row.title for row in report.table.rows] == ["Random", "Saliency"]
        for row in report.table.rows:
            assert set(row.cells) == set(plants.METRICS)
            assert all(0 <= value <= 1 for cell in row.cells.values() for value in cell.values)
        assert "Equal scores reach" in report.to_markdown()
        with pytest.raises(OptionError, match="there is no row 'x'"):
            plants.reproduce(Request(rows=["x"]))
