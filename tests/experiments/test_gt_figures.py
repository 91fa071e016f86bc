"""Figure 3, the word bars, the border that tells nothing, pretrained word vectors, and planted pairs, on tiny data."""

from __future__ import annotations

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
from rationales.experiments.ground_truth.runs.run_record import MethodMeasures
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec
from rationales.experiments.multimodal import plants
from rationales.experiments.registry import EXPERIMENTS as ALL
from rationales.experiments.registry import Request
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.networks.word_vectors import pretrained_vectors
from rationales.groundtruth.training import Recipe


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
    def runs(self):
        """Of two runs: gradients on the border as much as chance, MaRC less."""
        records = []
        for number in range(2):
            base = record(RunSpec("watermark-border", "small-resnet", number), {"gradient": (0.5, 0.5)})
            measures = {
                key: MethodMeasures("print", 0.01, {"region": (0.5,) * 8, "distractors": (share,) * 8})
                for key, share in (("random", 0.2), ("gradient", 0.2), ("marc", 0.05))
            }
            fields = {name: getattr(base, name) for name in ("attempts", "accuracy_bound")}
            records.append(record(base.spec, {}, **(fields | {"measures": measures})))
        settings = RunSettings("gt-border", ("random", "gradient", "marc"), 8)
        chosen = {"plants": border.PLANTS, "networks": ("small-resnet",), "methods": settings.methods}
        return ExperimentRuns(tuple(records), settings, chosen, EXPERIMENTS["gt-border"].specs)

    def test_the_table_has_the_border_and_the_plant(self):
        table, metrics = border.border_table(self.runs())
        assert metrics == ("border", "plant")
        by_title = {row.title: row.cells["border"].estimate.mean for row in table.rows}
        assert by_title["MaRC"] == pytest.approx(0.05)
        assert by_title["Random"] == pytest.approx(0.2)

    def test_a_method_that_gives_the_border_little_meets_the_requirement(self):
        claims = {claim.text: claim for claim in border.claims(self.runs())}
        verdicts = {text: claim.verdicts[0].holds for text, claim in claims.items()}
        assert [holds for text, holds in verdicts.items() if text.startswith("MaRC")] == [True]
        assert [holds for text, holds in verdicts.items() if text.startswith("Gradient ")] == [False]


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

    def test_training_starts_with_them(self, tmp_path, monkeypatch):
        folder = review_folder(tmp_path, train=10, test=4)
        monkeypatch.setattr(text_run, "pretrained_vectors", lambda tokenizer, width: torch.ones(len(tokenizer), width))
        spec, settings = (
            RunSpec("articles", "attention-pretrained", data="movies"),
            RunSettings("gt-table1", (), 4, data=folder),
        )
        module = text_run.prepare(spec, settings, 0).make_network()
        assert torch.equal(module.get_input_embeddings().weight, torch.ones_like(module.get_input_embeddings().weight))


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
